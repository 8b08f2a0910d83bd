package responses_test

import (
	"fmt"
	"time"

	"github.com/antiphon-dev/antiphon/responses"
)

// A request is decoded once, strictly; what it says is then plain data.
func ExampleDecodeRequest() {
	r, err := responses.DecodeRequest([]byte(`{"model":"small","input":"Say hello.","temperature":0.2}`), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	message := r.Input.Items[0].(*responses.Message)
	fmt.Println(r.Model, *r.Temperature, message.Role, message.Content.Text())
	// Output: small 0.2 user Say hello.
}

// A refusal names the field and knows its HTTP status.
func ExampleDecodeRequest_refusal() {
	_, err := responses.DecodeRequest([]byte(`{"model":"small","input":[{"role":"user","content":[{"type":"input_text","text":7}]}]}`), nil)
	e := responses.AsError(err)
	fmt.Println(e.Code.Status(), e.Code, e.Param)
	fmt.Println(e.Message)
	// Output:
	// 400 invalid_type input[0].content[0].text
	// Must be a string, not a number.
}

// A driver says what the model said; the composer makes the events around it.
func ExampleComposer() {
	c := responses.NewComposer(responses.RandomShard(), time.Now)
	c.Reasoning("The user wants the weather.")
	c.FunctionCall("call_1", "get_weather").Arguments(`{"city":"Oslo"}`)
	c.End(&responses.TurnEnd{Status: responses.StatusCompleted})
	for _, ev := range c.Take() {
		fmt.Printf("%s %q\n", ev.Type, ev.Text)
	}
	// Output:
	// response.output_item.added ""
	// response.reasoning_summary_part.added ""
	// response.reasoning_summary_text.delta "The user wants the weather."
	// response.reasoning_summary_text.done "The user wants the weather."
	// response.reasoning_summary_part.done ""
	// response.output_item.done ""
	// response.output_item.added ""
	// response.function_call_arguments.delta "{\"city\":\"Oslo\"}"
	// response.function_call_arguments.done "{\"city\":\"Oslo\"}"
	// response.output_item.done ""
	// antiphon:turn_end ""
}

// The events of a response fold to the object that a client which did not stream
// receives.
func ExampleFold() {
	c := responses.NewComposer(0, time.Now)
	c.Text("Hello", nil)
	c.Text(", world", nil)
	c.End(&responses.TurnEnd{Status: responses.StatusCompleted})
	var fold responses.Fold
	for _, ev := range c.Take() {
		fold.Add(&ev)
	}
	message := fold.Output()[0].(*responses.Message)
	fmt.Println(message.Content.Text())
	// Output: Hello, world
}

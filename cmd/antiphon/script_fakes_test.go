package main

import (
	"bytes"
	"encoding/json/jsontext"
	"encoding/json/v2"
	"net/http"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/antiphon-dev/antiphon/internal/fakeupstream"
)

type answerFunc = func(*fakeupstream.Exchange) fakeupstream.Reply

// flawed are the ways in which a model server can be less than one wishes.
var flawed = map[string]func(good answerFunc) answerFunc{
	"toolless":  toolless,
	"parseless": parseless,
	"narrow":    narrow,
	"ollama":    likeOllama,
}

func cmdFlawed(ts *testscript.TestScript, neg bool, args []string) {
	need(ts, neg, len(args) == 2 && flawed[args[1]] != nil, "flawed VAR toolless|parseless|narrow|ollama")
	good := fakeupstream.NewModel(&fakeupstream.ModelOptions{Protocol: fakeupstream.Chat}).Answer
	ts.Setenv(args[0], play(ts, flawed[args[1]](good)))
}

// toolless answers in text although a tool call is required.
func toolless(good answerFunc) answerFunc {
	return func(x *fakeupstream.Exchange) fakeupstream.Reply {
		var body map[string]jsontext.Value
		if json.Unmarshal(x.Body, &body) != nil {
			return good(x)
		}
		for _, member := range []string{"tools", "tool_choice", "parallel_tool_calls"} {
			delete(body, member)
		}
		data, err := json.Marshal(body)
		if err != nil {
			panic(err)
		}
		return good(&fakeupstream.Exchange{Method: x.Method, Path: x.Path, Header: x.Header, Body: data})
	}
}

// parseless is vLLM started without a parser for tool calls.
func parseless(good answerFunc) answerFunc {
	return relist(func(x *fakeupstream.Exchange) fakeupstream.Reply {
		if bytes.Contains(x.Body, []byte(`"tool_choice":"auto"`)) {
			return fakeupstream.JSON(http.StatusBadRequest,
				`{"error":{"message":"\"auto\" tool choice requires --enable-auto-tool-choice and --tool-call-parser to be set","type":"BadRequestError","code":400}}`)
		}
		return good(x)
	}, `"fakeupstream"`, `"vllm"`)
}

// narrow has a small context window.
func narrow(good answerFunc) answerFunc {
	return relist(good, `"max_model_len":32768`, `"max_model_len":4096`)
}

// likeOllama has models that could have a large window and run with a small one.
func likeOllama(good answerFunc) answerFunc {
	chat := relist(relist(good, `"max_model_len":32768`, `"parent":null`), `"fakeupstream"`, `"library"`)
	return func(x *fakeupstream.Exchange) fakeupstream.Reply {
		switch x.Path {
		case "/api/show":
			return fakeupstream.JSON(http.StatusOK, `{"model_info":{"qwen3.context_length":40960}}`)
		case "/api/ps":
			return fakeupstream.JSON(http.StatusOK, `{"models":[{"name":"tiny-2","context_length":4096}]}`)
		}
		return chat(x)
	}
}

// relist changes what the list of models says.
func relist(good answerFunc, from, to string) answerFunc {
	return func(x *fakeupstream.Exchange) fakeupstream.Reply {
		reply := good(x)
		if x.Path == "/v1/models" {
			reply.Body = bytes.ReplaceAll(reply.Body, []byte(from), []byte(to))
		}
		return reply
	}
}

// cmdImpostor plays another program: it is as healthy as we are, but not us.
func cmdImpostor(ts *testscript.TestScript, neg bool, args []string) {
	need(ts, neg, len(args) == 1, "impostor VAR")
	url := play(ts, func(*fakeupstream.Exchange) fakeupstream.Reply {
		return fakeupstream.JSON(http.StatusOK, `{"status":"ok"}`)
	})
	ts.Setenv(args[0], strings.TrimPrefix(url, "http://"))
}

func cmdAddressOf(ts *testscript.TestScript, neg bool, args []string) {
	need(ts, neg, len(args) == 2, "addressof URLVAR VAR")
	ts.Setenv(args[1], strings.TrimPrefix(ts.Getenv(args[0]), "http://"))
}

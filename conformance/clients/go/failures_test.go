package openaigo_test

import (
	"errors"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"
)

func TestUpstreamRefuses(t *testing.T) {
	inEveryWay(t, func(t *testing.T, ask way) {
		failure := wantAPIError(t, ask, greeting+" [[status 500]]")
		if failure.StatusCode < 500 {
			t.Errorf("status = %d, want a server error", failure.StatusCode)
		}
		if failure.Message == "" {
			t.Errorf("the error has no message: %s", failure.RawJSON())
		}
	})
}

func TestUpstreamLimitsTheRate(t *testing.T) {
	inEveryWay(t, func(t *testing.T, ask way) {
		failure := wantAPIError(t, ask, greeting+" [[status 429]] [[retry-after 2]]")
		if failure.StatusCode != 429 {
			t.Errorf("status = %d, want 429", failure.StatusCode)
		}
		if got := failure.Response.Header.Get("Retry-After"); got != "2" {
			t.Errorf("Retry-After = %q, want 2", got)
		}
	})
}

func TestUpstreamFailsAfterTheFirstToken(t *testing.T) {
	for _, fault := range []string{"[[error]]", "[[cut]]"} {
		t.Run(fault, func(t *testing.T) {
			t.Parallel()
			body := responses.ResponseNewParams{Input: prompt(greeting + " " + fault)}

			t.Run("json", func(t *testing.T) {
				t.Parallel()
				if response, _, err := askWhole(t, body); err == nil {
					t.Errorf("the failure became an answer: %s", response.RawJSON())
				}
			})
			t.Run("streamed", func(t *testing.T) {
				t.Parallel()
				response, text, err := askStreamed(t, body)
				switch {
				case err == nil:
					t.Errorf("the failure became an answer: %s", response.RawJSON())
				case errors.Is(err, errNoTerminalEvent):
					t.Error("the client was not told that the stream failed")
				}
				if want := "You"; text != want {
					t.Errorf("text before the failure = %q, want %q", text, want)
				}
			})
		})
	}
}

// wantAPIError sends a prompt that has to fail with an HTTP status.
func wantAPIError(t *testing.T, ask way, text string) *openai.Error {
	t.Helper()
	_, _, err := ask(t, responses.ResponseNewParams{Input: prompt(text)})
	failure, ok := errors.AsType[*openai.Error](err)
	if !ok {
		t.Fatalf("error = %v, want an HTTP status", err)
	}
	return failure
}

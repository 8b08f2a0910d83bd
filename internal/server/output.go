package server

import (
	"strings"

	"github.com/antiphon-dev/antiphon/internal/engine"
	"github.com/antiphon-dev/antiphon/responses"
)

// headerOutputMode lets a client say how it wants to read calls.
const headerOutputMode = "X-Proxy-Output-Mode"

// outputMode is what the client asks for, else what the configuration says. Who
// the client is does not matter: a guess by its name would be wrong for somebody.
func (x *exchange) outputMode() (engine.OutputMode, error) {
	asked := engine.OutputMode(strings.Join(x.r.Header.Values(headerOutputMode), ", "))
	switch {
	case asked == "":
		return x.gen.OutputMode, nil
	case !asked.Known():
		name := strings.ToLower(headerOutputMode)
		return "", responses.InvalidParam(responses.CodeInvalidValue, name, "The header %s is %.40q; it may be %s or %s.",
			name, asked, engine.OutputJSON, engine.OutputObsidian)
	}
	return asked, nil
}

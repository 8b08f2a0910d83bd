// Command antiphon runs the gateway: one Responses API in front of every model.
//
//	antiphon serve                                        what is found on this machine
//	antiphon serve --upstream http://127.0.0.1:8000       one server, without a file
//	antiphon serve --config antiphon.yaml                 what the file says
//	antiphon launch codex                                 Codex on a model of yours
//	antiphon doctor                                       what the models can do
//	antiphon config check antiphon.yaml
//	antiphon version
//
// It exits with 0 when all went well, with 1 when something failed while it ran,
// and with 2 when the command line or the configuration is wrong.
package main

import (
	"context"
	"os"
)

func main() {
	p := program{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, lookupEnv: os.LookupEnv}
	os.Exit(p.run(context.Background(), os.Args[1:]))
}

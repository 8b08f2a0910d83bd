package main

import (
	"bytes"
	"encoding/json/v2"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// stubCodex does what matters to us of what Codex does, as its last arguments say:
//
//	say TEXT      send TEXT to the model of its configuration and print the answer
//	show FILE     print a file of its home, and its permissions
//	cat           print what comes in
//	exit CODE     end with that code
//	await         wait for SIGTERM and end with 5
//	die           end by a signal
func stubCodex(args []string) int {
	if len(args) < 3 || args[0] != "-c" {
		fmt.Fprintf(os.Stderr, "stubcodex: got %q\n", args)
		return 64
	}
	_, base, _ := strings.Cut(args[1], "base_url=")
	command, rest := args[2], args[3:]
	var err error
	switch command {
	case "say":
		err = stubSay(strings.Trim(base, `"`), rest[0])
	case "show":
		err = stubShow(rest[0])
	case "cat":
		_, err = io.Copy(os.Stdout, os.Stdin)
	case "exit":
		code, _ := strconv.Atoi(rest[0])
		return code
	case "await":
		signals := make(chan os.Signal, 1)
		signal.Notify(signals, syscall.SIGTERM)
		fmt.Println("stubcodex waits")
		<-signals
		return 5
	case "die":
		var self *os.Process
		if self, err = os.FindProcess(os.Getpid()); err != nil {
			break
		}
		if err = self.Kill(); err == nil {
			select {} // until it comes
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "stubcodex:", err)
		return 1
	}
	return 0
}

func stubShow(file string) error {
	path := filepath.Join(os.Getenv("CODEX_HOME"), file)
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	fmt.Printf("%s %s\n%s\n", path, info.Mode(), text)
	return nil
}

// stubSay reads the model as Codex would, from the configuration.
func stubSay(base, text string) error {
	config, err := os.ReadFile(filepath.Join(os.Getenv("CODEX_HOME"), "config.toml"))
	if err != nil {
		return err
	}
	_, model, _ := strings.Cut(string(config), "\nmodel = ")
	model, _, _ = strings.Cut(model, "\n")
	body, err := json.Marshal(map[string]any{"model": strings.Trim(model, `"`), "input": text})
	if err != nil {
		return err
	}
	resp, err := http.Post(base+"/responses", "application/json", bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	fmt.Printf("status: %d\n%s\n", resp.StatusCode, answer)
	return err
}

package httptool

import (
	"encoding/json/jsontext"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/antiphon-dev/antiphon/responses"
)

// A template is a URL with places for arguments in its path and query.
type template struct {
	base *url.URL // scheme and host
	// The path and the query as they were written, with {name} in them.
	path, query string
}

// placeholder is where an argument goes.
var placeholder = regexp.MustCompile(`\{([A-Za-z_][A-Za-z0-9_.-]*)\}`)

// parseTemplate reads a URL. Its errors hold nothing of it: it may have a secret
// in it.
func parseTemplate(s string) (*template, error) {
	bare := placeholder.ReplaceAllString(s, "x")
	u, err := url.Parse(bare)
	switch {
	case err != nil:
		return nil, errors.New("the URL is not one")
	case u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return nil, errors.New("the URL must begin with http:// or https:// and a host")
	case u.User != nil:
		return nil, errors.New("the URL holds a user name or password: put the credential into headers")
	case u.Fragment != "":
		return nil, errors.New("the URL must not have a fragment")
	case strings.ContainsAny(bare, "{}"):
		return nil, errors.New("a brace in the URL is no {name} of an argument")
	}
	scheme, rest, _ := strings.Cut(s, "://")
	host, after := rest, ""
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		host, after = rest[:i], rest[i:]
	}
	if placeholder.MatchString(scheme + host) {
		return nil, errors.New("the host of the URL must not depend on an argument: a model would choose where to call")
	}
	path, query, _ := strings.Cut(after, "?")
	return &template{base: &url.URL{Scheme: u.Scheme, Host: u.Host}, path: path, query: query}, nil
}

// fill puts arguments in, and says which it used.
func (t *template) fill(args []argument) (*url.URL, map[string]bool, error) {
	used := map[string]bool{}
	var missing []string
	put := func(in string, escape func(string) string) string {
		return placeholder.ReplaceAllStringFunc(in, func(match string) string {
			name := match[1 : len(match)-1]
			i := slices.IndexFunc(args, func(a argument) bool { return a.name == name })
			if i < 0 {
				if !slices.Contains(missing, name) {
					missing = append(missing, name)
				}
				return ""
			}
			used[name] = true
			return escape(args[i].text())
		})
	}
	empty := false
	path := put(t.path, func(s string) string {
		empty = empty || s == ""
		return url.PathEscape(s)
	})
	query := put(t.query, url.QueryEscape)
	if len(missing) > 0 {
		return nil, nil, fmt.Errorf("the argument %s is missing", strings.Join(missing, " and the argument "))
	}
	if empty {
		return nil, nil, errors.New("an argument in the path must not be empty") // it would lead to all of what the argument names one of
	}
	u, err := url.Parse(t.base.String() + path)
	if err != nil {
		return nil, nil, errors.New("the arguments make no URL")
	}
	// An argument is one segment or a part of one, and never a way out of where the
	// template leads.
	for segment := range strings.SplitSeq(u.Path, "/") {
		if segment == "." || segment == ".." {
			return nil, nil, errors.New("an argument in the path must not be one dot or two")
		}
	}
	u.RawQuery = query
	return u, used, nil
}

// An argument of a call.
type argument struct {
	name  string
	value jsontext.Value
}

// text is a string as it is, and any other value as JSON.
func (a argument) text() string {
	if a.value.Kind() == '"' {
		if s, err := jsontext.AppendUnquote(nil, a.value); err == nil {
			return string(s)
		}
	}
	return string(a.value)
}

// arguments returns the members of the object that a model wrote, in order.
func arguments(v jsontext.Value) ([]argument, error) {
	if len(v) == 0 {
		return nil, nil
	}
	if v.Kind() != '{' || !v.IsValid() {
		return nil, errors.New("the arguments are not a JSON object")
	}
	var args []argument
	for name, value := range responses.Members(v) {
		if value.Kind() != 'n' {
			args = append(args, argument{name, slices.Clone(value)})
		}
	}
	return args, nil
}

// object is a JSON object of arguments.
func object(args []argument) []byte {
	out := []byte{'{'}
	for i, a := range args {
		if i > 0 {
			out = append(out, ',')
		}
		out, _ = jsontext.AppendQuote(out, a.name) // valid: it was decoded
		out = append(append(out, ':'), a.value...)
	}
	return append(out, '}')
}

// addQuery adds arguments to the query of u, behind what is there. What the
// operator's URL says of a name is not the model's to say again: servers differ in
// which of two they take.
func addQuery(u *url.URL, args []argument) error {
	fixed, err := url.ParseQuery(u.RawQuery)
	if err != nil && len(args) > 0 {
		return errors.New("the arguments make no URL")
	}
	for _, a := range args {
		if fixed.Has(a.name) {
			return fmt.Errorf("the argument %q is not one that can be given", a.name)
		}
		if u.RawQuery != "" {
			u.RawQuery += "&"
		}
		u.RawQuery += url.QueryEscape(a.name) + "=" + url.QueryEscape(a.text())
	}
	return nil
}

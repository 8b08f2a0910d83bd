package deploy_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"text/template"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/antiphon-dev/antiphon/config"
)

const chart = "helm/antiphon"

// object is a YAML mapping.
type object = map[string]any

func readYAML(t *testing.T, file string) object {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var v object
	if err := yaml.Unmarshal(text, &v); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return v
}

// merge puts what is in over into base, as Helm merges values.
func merge(base, over object) object {
	out := maps.Clone(base)
	for k, v := range over {
		b, ok1 := out[k].(object)
		o, ok2 := v.(object)
		if ok1 && ok2 {
			v = merge(b, o)
		}
		out[k] = v
	}
	return out
}

// render renders the chart with the few functions of Helm that it uses, so that
// the tests need no Helm; where there is one, it is asked too.
func render(t *testing.T, values object) (docs []object) {
	t.Helper()
	tpl := template.New("chart").Option("missingkey=error")
	tpl.Funcs(template.FuncMap{
		"include": func(name string, data any) (string, error) {
			var b strings.Builder
			err := tpl.ExecuteTemplate(&b, name, data)
			return strings.TrimSpace(b.String()), err
		},
		"toYaml": func(v any) (string, error) {
			b, err := yaml.Marshal(v)
			return strings.TrimSuffix(string(b), "\n"), err
		},
		"nindent": func(n int, s string) string {
			pad := strings.Repeat(" ", n)
			return "\n" + pad + strings.ReplaceAll(s, "\n", "\n"+pad)
		},
		"default": func(otherwise, v any) any {
			if v == nil || reflect.ValueOf(v).IsZero() {
				return otherwise
			}
			return v
		},
		"quote": func(v any) string { return fmt.Sprintf("%q", fmt.Sprint(v)) },
		"sha256sum": func(s string) string {
			sum := sha256.Sum256([]byte(s))
			return hex.EncodeToString(sum[:])
		},
	})
	files, err := filepath.Glob(chart + "/templates/*")
	if err != nil || len(files) == 0 {
		t.Fatal("no templates", err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tpl.New(filepath.Base(f)).Parse(string(text)); err != nil {
			t.Fatal(err)
		}
	}
	data := object{
		"Values":  values,
		"Release": object{"Name": "demo"},
		"Chart":   object{"AppVersion": readYAML(t, chart+"/Chart.yaml")["appVersion"]},
	}
	for _, f := range files {
		if filepath.Ext(f) != ".yaml" {
			continue
		}
		var b bytes.Buffer
		if err := tpl.ExecuteTemplate(&b, filepath.Base(f), data); err != nil {
			t.Fatalf("%s: %v", f, err)
		}
		docs = append(docs, decodeAll(t, &b)...)
	}
	return docs
}

// everything is values with every part of the chart turned on.
var everything = object{
	"autoscaling": object{"enabled": true}, "ingress": object{"enabled": true, "className": "nginx", "annotations": object{"a": "b"}, "tls": []any{object{"hosts": []any{"x"}}}},
	"serviceMonitor": object{"enabled": true}, "imagePullSecrets": []any{object{"name": "r"}}, "podAnnotations": object{"c": "d"},
	"networkPolicy": object{"ingress": []any{object{"podSelector": object{}}}, "metrics": []any{object{"podSelector": object{}}}, "egress": []any{object{"ports": []any{object{"port": 5432}}}}},
	"nodeSelector":  object{"disk": "fast"}, "tolerations": []any{object{"operator": "Exists"}}, "affinity": object{"podAntiAffinity": object{}},
	"secrets": object{"values": object{"API_KEY": "k"}},
}

// TestChart: what the chart makes fits together, and its configuration is one that
// the gateway takes (R36).
func TestChart(t *testing.T) {
	t.Parallel()
	defaults := readYAML(t, chart+"/values.yaml")
	for name, values := range map[string]object{"defaults": defaults, "everything": merge(defaults, everything), "existing secret": merge(defaults, object{"secrets": object{"existing": "mine"}})} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkValues(t, values)
			made := byKind(t, render(t, values))
			compareWithHelm(t, values, made)
			pod := at(made["Deployment"], "spec", "template").(object)
			labels := at(pod, "metadata", "labels")
			for _, where := range []struct {
				kind string
				path []string
			}{
				{"Deployment", []string{"spec", "selector", "matchLabels"}}, {"Service", []string{"spec", "selector"}},
				{"PodDisruptionBudget", []string{"spec", "selector", "matchLabels"}}, {"NetworkPolicy", []string{"spec", "podSelector", "matchLabels"}},
			} {
				if diff := cmp.Diff(labels, at(made[where.kind], where.path...)); diff != "" {
					t.Errorf("%s selects other pods (-pod +selector):\n%s", where.kind, diff)
				}
			}
			container := at(pod, "spec", "containers").([]any)[0].(object)
			secret := at(container["envFrom"].([]any)[0].(object), "secretRef", "name")
			if own := made["Secret"]; own != nil && at(own, "metadata", "name") != secret || own == nil && secret != "mine" {
				t.Errorf("the container reads the secret %v", secret)
			}
			text := at(made["ConfigMap"], "data", "antiphon.yaml").(string)
			env := func(string) (string, bool) { return "a-secret-of-sixteen-letters", true }
			if _, err := config.Parse([]byte(text), &config.ParseOptions{LookupEnv: env}); err != nil {
				t.Errorf("the gateway refuses its configuration: %v\n%s", err, text)
			}
		})
	}
}

// at walks into nested mappings.
func at(v any, path ...string) any {
	for _, p := range path {
		o, ok := v.(object)
		if !ok {
			return nil
		}
		v = o[p]
	}
	return v
}

// checkValues checks values against the chart's schema.
func checkValues(t *testing.T, values object) {
	t.Helper()
	schema, err := jsonschema.NewCompiler().Compile(chart + "/values.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	text, err := yaml.MarshalWithOptions(values, yaml.JSON())
	if err != nil {
		t.Fatal(err)
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	if err := schema.Validate(v); err != nil {
		t.Error(err)
	}
}

// compareWithHelm asks Helm itself: it finds nothing wrong and renders the same. It
// is no package of Debian's, so it is asked only where it is; the rest of TestChart
// does without.
func compareWithHelm(t *testing.T, values object, ours map[string]object) {
	t.Helper()
	helm, err := exec.LookPath("helm")
	if err != nil {
		t.Log("helm is not here: the chart was rendered by this test alone")
		return
	}
	text, err := yaml.Marshal(values)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), helm, "lint", "--strict", chart, "--values", file, "--kube-version", "1.31.0").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	out, err := exec.CommandContext(t.Context(), helm, "template", "demo", chart, "--values", file, "--kube-version", "1.31.0").Output()
	if err != nil {
		t.Fatal(err)
	}
	theirs := byKind(t, decodeAll(t, bytes.NewReader(out)))
	for kind, doc := range theirs {
		if kind == "ConfigMap" || kind == "Deployment" {
			continue // they order the file's keys otherwise, and its checksum is another
		}
		if diff := cmp.Diff(doc, ours[kind]); diff != "" {
			t.Errorf("%s (-helm +test):\n%s", kind, diff)
		}
	}
	if len(theirs) != len(ours) {
		t.Errorf("helm makes %d documents, the test %d", len(theirs), len(ours))
	}
}

// byKind are documents by their kind, of which the chart has one each.
func byKind(t *testing.T, docs []object) map[string]object {
	t.Helper()
	kinds := map[string]object{}
	for _, d := range docs {
		kind := d["kind"].(string)
		if kinds[kind] != nil {
			t.Errorf("%s is there twice", kind)
		}
		kinds[kind] = d
	}
	return kinds
}

// decodeAll reads the documents of a YAML stream.
func decodeAll(t *testing.T, r io.Reader) (docs []object) {
	t.Helper()
	dec := yaml.NewDecoder(r)
	for {
		var doc object
		err := dec.Decode(&doc)
		if errors.Is(err, io.EOF) {
			return docs
		}
		if err != nil {
			t.Fatal(err)
		}
		if doc != nil {
			docs = append(docs, doc)
		}
	}
}

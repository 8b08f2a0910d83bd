package deploy_test

import (
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/antiphon-dev/antiphon/config"
)

// TestCompose: the compose file mounts files that are there, names every secret of
// its configuration, and that is one that the gateway takes (R36).
func TestCompose(t *testing.T) {
	t.Parallel()
	compose := readYAML(t, "compose/compose.yaml")
	services := compose["services"].(object)
	for name, s := range services {
		for _, v := range asList(s.(object)["volumes"]) {
			from, _, _ := strings.Cut(v.(string), ":")
			if !strings.HasPrefix(from, ".") {
				continue
			}
			if _, err := os.Stat(filepath.Join("compose", from)); err != nil {
				t.Errorf("%s mounts what is not there: %v", name, err)
			}
		}
	}
	text, err := os.ReadFile("compose/antiphon.yaml")
	if err != nil {
		t.Fatal(err)
	}
	given := at(services, "antiphon", "environment").(object)
	env := func(name string) (string, bool) {
		if name == "SEAL_KEY" {
			return "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=", given[name] != nil
		}
		return "a-secret-of-sixteen-letters", given[name] != nil
	}
	if _, err := config.Parse(text, &config.ParseOptions{LookupEnv: env}); err != nil {
		t.Error(err)
	}
}

func asList(v any) []any {
	l, _ := v.([]any)
	return l
}

// maxExposure is how exposed systemd may find the service, of 10.
const maxExposure = 2.0

// TestUnit: systemd finds the service well locked up (R35).
func TestUnit(t *testing.T) {
	t.Parallel()
	analyze := program(t, "systemd-analyze", "systemd")
	out, err := exec.CommandContext(t.Context(), analyze, "security", "--offline=true", "systemd/antiphon.service").CombinedOutput()
	m := regexp.MustCompile(`Overall exposure level for antiphon.service: ([0-9.]+)`).FindSubmatch(out)
	if m == nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if exposure, err := strconv.ParseFloat(string(m[1]), 64); err != nil || exposure > maxExposure {
		t.Errorf("systemd finds it exposed to %s of 10, want at most %.1f", m[1], maxExposure)
	}
}

// TestDockerfile runs the steps of the Dockerfile on this machine, as no image can
// be built in a test: what is built is static, what is copied is there, and it runs
// as the user that the image names, alone in its directory. The base images and the
// layers are not tried.
func TestDockerfile(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	src := filepath.Join(root, "src")
	clone := exec.CommandContext(t.Context(), "git", "-c", "safe.directory=*", "clone", "-q", "--depth=1", "file://"+repository(t), src)
	if out, err := clone.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	text, err := os.ReadFile("../Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	image := t.TempDir()
	var entrypoint, user string
	env := append(os.Environ(), "VERSION=1.2.3")
	for line := range strings.Lines(string(text)) {
		step, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch step {
		case "RUN":
			cmd := exec.CommandContext(t.Context(), "sh", "-c", strings.ReplaceAll(rest, "/out/", filepath.Join(root, "out")+"/"))
			cmd.Dir, cmd.Env = src, env
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%s: %v\n%s", rest, err, out)
			}
		case "COPY":
			if from, ok := strings.CutPrefix(rest, "--from=build "); ok {
				copyInto(t, root, image, strings.Fields(from))
			}
		case "USER":
			user = rest
		case "ENTRYPOINT":
			entrypoint = strings.Trim(rest, `[]"`)
		}
	}
	binary := filepath.Join(image, entrypoint)
	f, err := elf.Open(binary)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if libs, _ := f.ImportedLibraries(); len(libs) > 0 {
		t.Errorf("it is not static: it needs %v", libs)
	}
	cmd := exec.CommandContext(t.Context(), entrypoint, "version")
	var uid, gid uint32
	if _, err := fmt.Sscanf(user, "%d:%d", &uid, &gid); err != nil || uid == 0 {
		t.Fatalf("USER %s: %v", user, err)
	}
	if os.Getuid() == 0 {
		makeReadable(t, image)
		cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: image, Credential: &syscall.Credential{Uid: uid, Gid: gid}}
		cmd.Dir, cmd.Env = "/", []string{}
	} else {
		cmd.Path = binary
	}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "1.2.3") {
		t.Errorf("as %s: %v\n%s", user, err, out)
	}
}

// repository is the root of the checkout.
func repository(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// copyInto copies what the build made, or what its machine has, into the image.
func copyInto(t *testing.T, root, image string, names []string) {
	t.Helper()
	from, to := names[0], filepath.Join(image, names[1])
	if strings.HasPrefix(from, "/out/") {
		from = filepath.Join(root, from)
	}
	data, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, data, 0o755); err != nil {
		t.Fatal(err)
	}
}

// makeReadable lets another user into a directory of the test's.
func makeReadable(t *testing.T, dir string) {
	t.Helper()
	for ; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
}

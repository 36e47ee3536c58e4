package tests

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	_ "github.com/gomlx/gomlx/core/graph/graphtest" // what those tests import has to be in go.mod
)

// built is a folder with the test that TestGraph runs and the files that it reads, where
// bench/build.sh made it for a machine without Go.
const built = "../../.build/gomlx-graph"

// TestGraph runs the tests of GoMLX's own package of graphs, its gradients among them, on
// Pinion. What does not pass is listed in testdata, each with a reason. PINION_GRAPH_TESTS
// is a pattern of those to run, such as ^TestGradient, where time is short: on a GPU,
// kernels are compiled for each.
func TestGraph(t *testing.T) {
	dir, err := filepath.Abs(built)
	if err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(dir, "graph.test")
	if _, err := exec.LookPath("go"); err == nil {
		binary = filepath.Join(t.TempDir(), "graph.test")
		const pkg = "github.com/gomlx/gomlx/core/graph"
		dir = strings.TrimSpace(run(t, exec.Command("go", "list", "-f", "{{.Dir}}", pkg)))
		run(t, exec.Command("go", "test", "-c", "-o", binary, pkg))
	} else if _, err := os.Stat(binary); err != nil {
		t.Skip(err)
	}

	excepted := exceptions(t, "testdata/graph.txt")
	cmd := exec.Command(binary, "-test.v", "-test.run", os.Getenv("PINION_GRAPH_TESTS"), "-test.skip", strings.Join(excepted, "|"))
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOMLX_BACKEND=pinion:"+testDevice())
	out, err := cmd.CombinedOutput()
	count := func(result string) int { return bytes.Count(out, []byte("--- "+result+": ")) }
	t.Logf("%d passed, %d skipped, %d failed, %d excepted", count("PASS"), count("SKIP"), count("FAIL"), len(excepted))
	if err != nil || count("PASS") == 0 {
		t.Errorf("%v:\n%s", err, interesting(out))
	}
}

func run(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s", cmd, err, &stderr)
	}
	return string(out)
}

// exceptions reads names of tests and subtests, each followed by a reason, and returns
// them as patterns. A "*" stands for the name of one level, such as that of the backend.
func exceptions(t *testing.T, path string) []string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for line := range strings.Lines(string(text)) {
		name, reason, ok := strings.Cut(strings.TrimSpace(line), ": ")
		if strings.HasPrefix(line, "#") || strings.TrimSpace(line) == "" {
			continue
		}
		if !ok || reason == "" {
			t.Fatalf("%s: %q has no reason", path, line)
		}
		var pattern []string
		for part := range strings.SplitSeq(name, "/") {
			if part == "*" {
				pattern = append(pattern, ".*")
				continue
			}
			pattern = append(pattern, "^"+regexp.QuoteMeta(part)+"$")
		}
		names = append(names, strings.Join(pattern, "/"))
	}
	return names
}

var failure = regexp.MustCompile(`^(=== RUN|=== NAME|=== CONT|--- PASS|PASS|\s*--- PASS|\s*$)`)

// interesting leaves out what passed.
func interesting(out []byte) []byte {
	lines := slices.DeleteFunc(bytes.Split(out, []byte("\n")), func(line []byte) bool { return failure.Match(line) })
	return bytes.Join(lines[:min(len(lines), 200)], []byte("\n"))
}

package gomlx

import (
	"bytes"
	"cmp"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/gomlx/compute/support/backendtest"
)

// inChild says that a process runs the tests of package backendtest, and nothing else.
const inChild = "PINION_GOMLX_COMPLIANCE"

// testDevice is what tests run on.
func testDevice() string { return cmp.Or(os.Getenv("PINION_DEVICE"), "host") }

// TestCompliance runs the tests that GoMLX has for backends, in a process of its own whose
// output says what was skipped: what testdata/skips.txt lists, and no more. GoMLX's
// backend in Go skips 31.
func TestCompliance(t *testing.T) {
	if os.Getenv(inChild) != "" {
		b, err := New(testDevice())
		if err != nil {
			t.Fatal(err)
		}
		defer b.Finalize()
		backendtest.RunAll(t, b, nil)
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestCompliance$", "-test.v")
	cmd.Env = append(os.Environ(), inChild+"=1")
	out, err := cmd.CombinedOutput()
	results := regexp.MustCompile(`(?m)^ +--- (PASS|SKIP|FAIL): TestCompliance/(\S+)`).FindAllSubmatch(out, -1)
	var skipped []string
	count := make(map[string]int)
	for _, r := range results {
		count[string(r[1])]++
		if string(r[1]) == "SKIP" {
			skipped = append(skipped, string(r[2]))
		}
	}
	t.Logf("%d passed, %d skipped, %d failed", count["PASS"], count["SKIP"], count["FAIL"])
	if err != nil || count["FAIL"] > 0 || count["PASS"] == 0 {
		t.Errorf("%v\n%s", err, failures(out))
	}
	want, err := os.ReadFile("testdata/skips.txt")
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(skipped, "\n") + "\n"; got != string(want) {
		t.Errorf("skipped:\n%swant:\n%s", got, want)
	}
}

// failures leaves out of a test's output what passed and what was skipped.
func failures(out []byte) []byte {
	var lines [][]byte
	for line := range bytes.Lines(out) {
		if !regexp.MustCompile(`^\s*(===|--- PASS|--- SKIP)`).Match(line) {
			lines = append(lines, line)
		}
	}
	return bytes.Join(lines[:min(len(lines), 300)], nil)
}

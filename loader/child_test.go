package loader_test

import (
	"os"
	"os/exec"
	"testing"
)

// inChild runs the test again in a process of its own, which the test may
// bring down. It reports true there.
func inChild(t *testing.T) bool {
	t.Helper()
	const variable = "PINION_TEST_CHILD"
	if os.Getenv(variable) == t.Name() {
		return true
	}
	cmd := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), variable+"="+t.Name())
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%.1500s", err, text)
	}
	return false
}

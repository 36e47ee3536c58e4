package cpuname

import (
	"runtime"
	"testing"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]string{
		"":                                 runtime.GOARCH,
		"processor\t: 0\nBogoMIPS\t: 50\n": runtime.GOARCH,
		"model name\t:\nmodel name\t: X 1": "X 1",
		"model\t\t: 6\nmodel name\t: A (R)\nmodel name\t: B\n": "A (R)",
	} {
		if got := parse(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if Name() == "" {
		t.Error("no name")
	}
}

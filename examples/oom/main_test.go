package main

import (
	"strings"
	"testing"
)

func TestRun(t *testing.T) {
	var text strings.Builder
	if err := run(t.Context(), &text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"out of memory on host", "cause: budget", "activations", "what would have helped"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
}

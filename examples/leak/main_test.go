package main

import (
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/internal/testkit"
)

func TestRun(t *testing.T) {
	var text strings.Builder
	testkit.OK(t, run(t.Context(), &text))
	leaks, _, _ := strings.Cut(text.String(), "KEPT FOR REUSE")
	for _, want := range []string{"2 leaks", `activations "loss"`, "(*server).score", "(*server).watch"} {
		if !strings.Contains(leaks, want) {
			t.Errorf("no %q in\n%s", want, text.String())
		}
	}
	if strings.Contains(leaks, "hidden") || strings.Contains(leaks, "prefix") {
		t.Errorf("what is freed and what is a cache are no leaks:\n%s", text.String())
	}
}

package callstack

import (
	"runtime"
	"strings"
	"testing"
)

//go:noinline
func alloc() []uintptr { return Here(0) }

//go:noinline
func inner() []uintptr { return Here(1) }

func outer() []uintptr { return inner() }

//go:noinline
func maybe() []uintptr { return IfWanted(0) }

// A stack begins with the caller of the function that notes it.
func TestHere(t *testing.T) {
	for name, stack := range map[string][]uintptr{"Here": alloc(), "with one less": outer()} {
		frame, _ := runtime.CallersFrames(stack).Next()
		if !strings.HasSuffix(frame.Function, "callstack.TestHere") {
			t.Errorf("%s: begins with %s", name, frame.Function)
		}
	}
}

// Stacks are noted while anybody wants them, and stopping twice is stopping once.
func TestWanted(t *testing.T) {
	if Wanted() || maybe() != nil {
		t.Error("nobody wants stacks")
	}
	stop, stopOther := Want(), Want()
	stop()
	stop()
	if !Wanted() {
		t.Error("the other still wants stacks")
	}
	frame, _ := runtime.CallersFrames(maybe()).Next()
	if !strings.HasSuffix(frame.Function, "callstack.TestWanted") {
		t.Errorf("begins with %s", frame.Function)
	}
	stopOther()
	if Wanted() {
		t.Error("nobody wants stacks any more")
	}
}

func BenchmarkIfWanted(b *testing.B) {
	for b.Loop() {
		maybe()
	}
}

// Package testkit is what the tests of many packages need.
package testkit

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// OnlyComputes skips a test with -short, as the race detector is run: one that
// computes much, and shows of goroutines nothing that shorter tests do not.
func OnlyComputes(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("it only computes")
	}
}

// Hang is how long something may take before a test calls it stuck: far longer
// than anything needs on a machine that is busy with other work.
const Hang = 2 * time.Minute

// OK ends the test if err is not nil.
func OK(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Must returns v, or ends the test: testkit.Must(os.Open(path))(t).
func Must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		OK(t, err)
		return v
	}
}

// WantError reports an error that is not kind, or that does not say all of
// says. what names the case.
func WantError(t testing.TB, what string, err, kind error, says ...string) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Errorf("%s: %v, want %v", what, err, kind)
		return
	}
	for _, s := range says {
		if !strings.Contains(fmt.Sprint(err), s) {
			t.Errorf("%s: %v, want %q in it", what, err, s)
		}
	}
}

// WriteFile writes a file and the folders that it is in. It returns its path,
// which is made of the elements given: testkit.WriteFile(t, data, dir, "a.npy").
func WriteFile[S string | []byte](t testing.TB, data S, path ...string) string {
	t.Helper()
	name := filepath.Join(path...)
	OK(t, os.MkdirAll(filepath.Dir(name), 0o755))
	OK(t, os.WriteFile(name, []byte(data), 0o644))
	return name
}

// ReadFile returns what is in a file.
func ReadFile(t testing.TB, path ...string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(path...))
	OK(t, err)
	return string(data)
}

// RandomBytes returns n bytes that are the same for every call with a seed.
func RandomBytes(n int, seed uint64) []byte {
	var key [32]byte
	for i := range 8 {
		key[i] = byte(seed >> (8 * i))
	}
	data := make([]byte, n)
	rand.NewChaCha8(key).Read(data)
	return data
}

// Eventually waits until a condition holds, and ends the test with the stacks
// of all goroutines if it does not within [Hang].
func Eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(Hang); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not after %v\n%s", what, Hang, stacks())
		}
	}
}

// Within returns what fn returns, and ends the test if that is nothing within
// [Hang].
func Within(t testing.TB, what string, fn func() error) error {
	t.Helper()
	done := make(chan error, 1)
	go func() { done <- fn() }()
	return Receive(t, what, done)
}

// Receive returns what c delivers, and ends the test if that is nothing within
// [Hang].
func Receive[T any](t testing.TB, what string, c <-chan T) T {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(Hang):
		t.Fatalf("%s: stuck\n%s", what, stacks())
		panic("unreachable")
	}
}

// NoLeaks fails the test if there are more goroutines at its end, after the
// cleanups that are registered later, than there are now.
func NoLeaks(t testing.TB) {
	before := runtime.NumGoroutine()
	t.Cleanup(func() {
		// A goroutine that is done may still be on its way out.
		for end := time.Now().Add(Hang); runtime.NumGoroutine() > before; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Errorf("%d goroutines before, %d after:\n%s", before, runtime.NumGoroutine(), stacks())
				return
			}
		}
	})
}

func stacks() []byte {
	text := make([]byte, 1<<20)
	return text[:runtime.Stack(text, true)]
}

// ABI compares the values and layouts that a binding is written with, by name,
// to those of the vendor's header: lines of a name and a number, as a C program
// printed them. Both must have the same names.
func ABI(t testing.TB, header []byte, bound map[string]uintptr) {
	t.Helper()
	ours := maps.Clone(bound)
	for line := range strings.Lines(string(header)) {
		var name string
		var theirs uintptr
		if _, err := fmt.Sscan(line, &name, &theirs); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if got, ok := ours[name]; !ok {
			t.Errorf("%s: not compared", name)
		} else if got != theirs {
			t.Errorf("%s is %d, the header says %d", name, got, theirs)
		}
		delete(ours, name)
	}
	for name := range ours {
		t.Errorf("%s: the header's value is not recorded", name)
	}
}

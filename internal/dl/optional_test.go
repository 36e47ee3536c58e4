package dl_test

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/internal/dl"
)

var errNone = errors.New("none")

func TestRegistered(t *testing.T) {
	dl.Register(dl.Optional{Name: "zlib", Use: "registered", Open: func() (string, error) { return "", errNone }})
	dl.Register(dl.Optional{Name: "Alib", Use: "registered", Open: func() (string, error) { return "libalib.so", nil }})
	var names []string
	for _, o := range dl.Registered() {
		if o.Use == "registered" {
			names = append(names, o.Name)
		}
		if _, err := o.Open(); o.Name == "zlib" && !errors.Is(err, errNone) {
			t.Error(err)
		}
	}
	if !slices.Equal(slices.Compact(names), []string{"Alib", "zlib"}) {
		t.Error(names)
	}
}

// What is bound is loaded at the first call, and once.
func TestBind(t *testing.T) {
	calls := 0
	bound, missed := fmt.Sprintf("bound %p", &calls), fmt.Sprintf("missing %p", &calls)
	library := dl.Bind(bound, "tests", func() (string, int, error) { calls++; return "libbound.so", 7, nil })
	missing := dl.Bind(missed, "tests", func() (string, int, error) { return "libmissing.so", 0, errNone })
	if calls != 0 {
		t.Error("loaded before it was asked for")
	}
	for range 2 {
		if kept, err := library(); kept != 7 || err != nil || calls != 1 {
			t.Errorf("%d, %v after %d calls", kept, err, calls)
		}
		if _, err := missing(); err != errNone {
			t.Error(err)
		}
	}
	for _, o := range dl.Registered() {
		switch file, err := o.Open(); o.Name {
		case bound:
			if file != "libbound.so" || err != nil || calls != 1 {
				t.Errorf("%q, %v", file, err)
			}
		case missed:
			if file != "" || err != errNone {
				t.Errorf("%q, %v", file, err)
			}
		}
	}
}

func TestPath(t *testing.T) {
	for _, file := range []string{"", "libpinion-does-not-exist.so.0", "/usr/lib/libx.so"} {
		if got := dl.Path(file); got != file {
			t.Errorf("%q is at %q", file, got)
		}
	}
	if runtime.GOOS != "linux" {
		return
	}
	var f dl.Func
	file, err := dl.Open(dl.Library{Name: "testpath", Files: []string{"libc.so.6"}, Symbols: []dl.Symbol{{Name: "getpid", Func: &f}}})
	if err != nil {
		t.Skip(err)
	}
	if got := dl.Path(file); !strings.HasPrefix(got, "/") || !strings.Contains(got, "libc") {
		t.Errorf("%s is at %q", file, got)
	}
}

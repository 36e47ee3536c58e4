package dl_test

import (
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/internal/dl"
)

func TestRegistered(t *testing.T) {
	none := errors.New("none")
	dl.Register(dl.Optional{Name: "zlib", Use: "tests", Open: func() (string, error) { return "", none }})
	dl.Register(dl.Optional{Name: "Alib", Use: "tests", Open: func() (string, error) { return "libalib.so", nil }})
	list := dl.Registered()
	if len(list) != 2 || list[0].Name != "Alib" || list[1].Name != "zlib" {
		t.Fatalf("%v", list)
	}
	if _, err := list[1].Open(); err != none {
		t.Error(err)
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

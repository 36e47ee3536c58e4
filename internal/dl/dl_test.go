package dl_test

import (
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/pinion-gpu/pinion/internal/dl"
)

const noFile = "libpinion-does-not-exist.so.0"

// Libraries that cannot be opened give one sentence that says why.
func TestOpenFails(t *testing.T) {
	for _, c := range []struct {
		name     string
		files    []string
		override string
		want     []string // parts of the text
	}{
		{"no file for this system", nil, "", []string{"does not exist for"}},
		{"missing file", []string{noFile}, "", []string{noFile}},
		{"missing files", []string{noFile, noFile + ".1"}, "", []string{noFile}},
		{"switched off", []string{noFile}, "off", []string{"PINION_LIB_SAMPLE"}},
		{"switched off, no file", nil, "off", []string{"PINION_LIB_SAMPLE"}},
		{"override is missing", []string{"kernel32.dll", "libc.so.6"}, noFile, []string{noFile}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("PINION_LIB_SAMPLE", c.override)
			var f dl.Func
			file, err := dl.Open(dl.Library{Name: "sample", Files: c.files, Symbols: []dl.Symbol{{Name: "getpid", Func: &f}}})
			if !errors.Is(err, dl.ErrNotFound) {
				t.Fatalf("file %q, error %v, want %q", file, err, dl.ErrNotFound)
			}
			if file != "" || f.Ok() {
				t.Errorf("failed, but returned file %q and function %#x", file, f)
			}
			for _, part := range c.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q does not name %q", err, part)
				}
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("%q is more than a line", err)
			}
		})
	}
}

// A C string ends with a zero, and what is behind the zero is not part of it.
func TestCString(t *testing.T) {
	for _, s := range []string{"", "a", "länger", strings.Repeat("x", 5000)} {
		p := dl.CString(s)
		if got := bytesAt(p, len(s)+1); string(got) != s+"\x00" {
			t.Errorf("CString(%.10q) is % x", s, got)
		}
	}
}

func TestGoStringOfNull(t *testing.T) {
	if s := dl.GoString(0); s != "" {
		t.Errorf("GoString(0) = %q", s)
	}
}

func TestFuncOk(t *testing.T) {
	if dl.Func(0).Ok() || !dl.Func(1).Ok() {
		t.Error("Ok is not whether the address is other than zero")
	}
}

// The reason is there however busy the scheduler is: the loader keeps it for
// the thread that failed, so a goroutine that moves on to another one loses it.
func TestReasonIsNotLost(t *testing.T) {
	stop := make(chan struct{})
	var others sync.WaitGroup
	for range 4 * runtime.GOMAXPROCS(0) {
		others.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					runtime.Gosched()
				}
			}
		})
	}
	defer others.Wait()
	defer close(stop)
	var failing sync.WaitGroup
	for range 8 {
		failing.Go(func() {
			for range 500 {
				var f dl.Func
				_, err := dl.Open(dl.Library{Name: "sample", Files: []string{noFile}, Symbols: []dl.Symbol{{Name: "getpid", Func: &f}}})
				if err == nil || !strings.Contains(err.Error(), noFile) || strings.Contains(err.Error(), "gives no reason") {
					t.Errorf("%q does not name %q and the reason", err, noFile)
					return
				}
			}
		})
	}
	failing.Wait()
}

func TestVersionText(t *testing.T) {
	for v, want := range map[int]string{130002: "13.0.2", 90600: "9.6.0", 801: "0.8.1"} {
		if got := dl.VersionText(v); got != want {
			t.Errorf("%d: %s, want %s", v, got, want)
		}
	}
}

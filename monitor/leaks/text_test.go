package leaks

import (
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/internal/testkit"
)

func TestGolden(t *testing.T) {
	r := Report{
		Steps: 1024, WindowSteps: 768,
		Leaks: []Site{{
			Kind: VRAM, Device: "cuda:0", Purpose: "activations", Name: "loss", BytesPerStep: 4096, ItemsPerStep: 1, LeftItems: 768, LeftBytes: 768 * 4096,
			Stack: []Frame{
				{"github.com/pinion-gpu/pinion/outofcore.(*Runner).alloc", "/src/pinion/outofcore/runner.go", 12},
				{"main.(*model).forward", "/src/train/model.go", 88}, {"main.main", "/src/train/main.go", 21},
			},
		}, {
			Kind: Goroutine, ItemsPerStep: 0.25, LeftItems: 192,
			Stack: []Frame{{"main.fetch.func1", "/src/train/fetch.go", 41}, {"main.fetch", "/src/train/fetch.go", 40}},
		}},
		Others: []Site{{Kind: Pinned, Device: "cuda:0", Name: "slabs", LeftItems: 8, LeftBytes: 64 << 20, Stack: []Frame{}}},
		Caches: []Cache{
			{VRAM, "cuda:0", 3 << 30, 2 << 30, 1 << 20, 1023 << 20, 1 << 30},
			{Pinned, "cuda:0", 128 << 20, 64 << 20, 0, 64 << 20, -(8 << 20)},
		},
	}
	got := r.String()
	want := testkit.ReadFile(t, "testdata", "report.txt")
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	testkit.WantError(t, "two leaks", r.Err(), ErrLeak,
		`4 KiB of vram cuda:0 activations "loss" from main.(*model).forward (model.go:88); 0.25 goroutines from main.fetch (fetch.go:40)`)
	r.Leaks = nil
	testkit.OK(t, r.Err())
	if !strings.HasPrefix(r.String(), "0 leaks in the last 768 steps of 1024\n") {
		t.Error(r)
	}
}

// Names that count up are one site, and others are not.
func TestPattern(t *testing.T) {
	for name, want := range map[string]string{"": "", "loss": "loss", "step 17": "step #", "7/128 of 9": "#/# of #", "é3": "é#"} {
		if got := pattern(name); got != want {
			t.Errorf("%q is %q, want %q", name, got, want)
		}
	}
}

// Whatever a traceback says, the frames that are read from it are its own words.
func FuzzGoroutine(f *testing.F) {
	buf := make([]byte, 1<<16)
	for one := range strings.SplitSeq(string(buf[:runtime.Stack(buf, true)]), "\n\n") {
		f.Add(one)
	}
	f.Add("goroutine 7 [chan receive, 5 minutes, locked to thread]:\nmain.f.func1(0x1, {0x2, 0x3})\n\t/a b/x.go:12 +0x1d\ncreated by main.f in goroutine 1\n\t/a b/x.go:11 +0x2c")
	f.Add("goroutine 8 gp=0xc0 m=nil [running]:\n\tgoroutine running on other thread; stack unavailable\ncreated by main.f in goroutine 1\n\t/x.go:11 +0x2c")
	f.Add("goroutine 9 [idle]:\ncreated by x")
	f.Add("goroutine -1 []:\n\ncreated by \n:")
	f.Fuzz(func(t *testing.T, text string) {
		x, ok := parseGoroutine([]byte(text))
		if !ok {
			return
		}
		if !strings.HasSuffix(text, x.created) {
			t.Errorf("%q is not the end of it", x.created)
		}
		_ = x.place()
		for _, f := range goroutineFrames(x.created) {
			if !strings.Contains(text, f.Function) || !strings.Contains(text, f.File) {
				t.Errorf("%+v", f)
			}
		}
	})
}

func TestGoroutineFrames(t *testing.T) {
	x, ok := parseGoroutine([]byte("goroutine 7 [chan receive, 5 minutes]:\nruntime.gopark(...)\n\t/go/proc.go:1\nmain.(*T).f.func1(0x1, {0x2, 0x3})\n\t/a b/x.go:12 +0x1d\ncreated by main.(*T).f in goroutine 1\n\t/a b/x.go:11 +0x2c"))
	want := []Frame{{"main.(*T).f.func1", "/a b/x.go", 12}, {"main.(*T).f", "/a b/x.go", 11}}
	if got := goroutineFrames(x.created); !ok || x.key.a != 7 || !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if _, ok := parseGoroutine([]byte("goroutine 1 [running]:\nmain.main()\n\t/x.go:1 +0x1")); ok {
		t.Error("nobody started the main goroutine")
	}
}

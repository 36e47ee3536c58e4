package main

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/monitor/local"
)

// topFolder has processes show themselves in a folder of the test.
func topFolder(t *testing.T) string {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("for systems with Unix sockets and /proc")
	}
	base, err := os.MkdirTemp("/tmp", "pn")
	ok(t, err)
	t.Cleanup(func() { os.RemoveAll(base) })
	dir := filepath.Join(base, "s")
	t.Setenv("PINION_TOP", dir)
	return dir
}

// Nobody uses Pinion: the view says what to do, the document has empty lists.
func TestTopAlone(t *testing.T) {
	folder := topFolder(t)
	if r := pinion(t, "top"); !strings.Contains(strings.Join(strings.Fields(r.stdout), " "), "PINION_TOP is "+folder+", which is not there") {
		t.Errorf("nothing is said of a folder that is not there:\n%s", r.stdout)
	}
	for _, args := range [][]string{{"top"}, {"top", "--once", "--interval", "100ms"}} { // standard output is no terminal
		r := pinion(t, args...)
		if r.code != exitDone || !strings.Contains(r.stdout, "No process") || !strings.Contains(r.stdout, "pinion feed") || strings.Contains(r.stdout, "\x1b") {
			t.Errorf("%q: %d\n%s%s", args, r.code, r.stdout, r.stderr)
		}
	}
	doc := document(t, []string{"measured_at", "version", "commit", "platform", "cpus", "seconds", "machine"}, "top", "--json", "--once", "--interval", "100ms")
	for _, key := range []string{"gpus", "processes"} {
		if list, isList := doc[key].([]any); !isList || len(list) != 0 {
			t.Errorf("%s is %v", key, doc[key])
		}
	}
	for args, says := range map[string]string{"--interval 50ms": "at least 100ms", "--interval x": "interval", "--interval -1s": "at least", "x": `"x"`} {
		if r := pinion(t, append([]string{"top"}, strings.Fields(args)...)...); r.code != exitUsage || !strings.Contains(r.stderr, says) || r.stdout != "" {
			t.Errorf("%s: %d %q", args, r.code, r.stderr)
		}
	}
	// Nobody was looked for: it is not known whether there is any.
	for value, says := range map[string]string{"nonsense": `"nonsense"`, "off": "PINION_TOP is off here"} {
		t.Setenv("PINION_TOP", value)
		r := pinion(t, "top", "--once", "--interval", "100ms")
		if r.code != exitDone || !strings.Contains(r.stdout, says) || strings.Contains(r.stdout, "uses Pinion now") {
			t.Errorf("%d %q", r.code, r.stdout)
		}
	}
}

// A run of pinion feed is seen, without a word, by pinion top in another process.
func TestTopSeesFeed(t *testing.T) {
	dir := topFolder(t)
	photos := makePhotos(t, 4)
	feed := process(t, func(p *os.Process) {
		testkit.Eventually(t, "batches of the other process", func() bool {
			x, err := local.Find(p.Pid)
			if err != nil {
				return false
			}
			s, err := x.Snapshot(context.Background())
			return err == nil && len(s.Loader) == 1 && s.Loader[0].Batches > 0
		})
		// Where a machine is busy, a process may not answer in time, and do nothing meanwhile.
		testkit.Eventually(t, "what the other process does", func() bool {
			text, err := json.Marshal(document(t, nil, "top", "--once", "--json", "--interval", "500ms")["processes"])
			ok(t, err)
			return contains(string(text), `"command":"`+os.Args[0]+" feed "+photos, `"loaders":[{"device":"host"`, `"limit":`, `"busy_fraction":`, `"samples_per_s":`)
		})
		testkit.Eventually(t, "lines of what the other process does", func() bool {
			return contains(pinion(t, "top", "--once", "--interval", "100ms").stdout, "feed "+photos[:4], "loader", "samples/s", "decode")
		})
		// A stream of documents, and of lines, until it is interrupted.
		for _, flag := range []string{"--json", "--interval=100ms"} {
			ctx, cancel := context.WithCancel(context.Background())
			lines := &lineCounter{after: 3, then: cancel}
			root := newRoot()
			root.SetArgs([]string{"top", "--interval", "100ms", flag})
			root.SetOut(lines)
			if err := root.ExecuteContext(ctx); !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %v", flag, err)
			}
			for line := range strings.Lines(lines.text.String()) {
				if flag == "--json" && !json.Valid([]byte(line)) || flag != "--json" && !strings.Contains(line, "feed "+photos[:4]) {
					t.Errorf("%s: %q", flag, line)
				}
			}
		}
		ok(t, p.Signal(os.Interrupt))
	}, "feed", photos, "--device", "host", "--batch", "2", "--epochs", "1000000000")
	if feed.code != exitFailed {
		t.Errorf("%+v", feed)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("%v is left, %v", left, err)
	}
}

// contains reports whether a text has all parts.
func contains(text string, parts ...string) bool {
	for _, part := range parts {
		if !strings.Contains(text, part) {
			return false
		}
	}
	return true
}

// lineCounter keeps what is written, and calls then behind some lines.
type lineCounter struct {
	text  strings.Builder
	after int
	then  func()
}

func (c *lineCounter) Write(p []byte) (int, error) {
	if c.text.Write(p); strings.Count(c.text.String(), "\n") >= c.after {
		c.then()
	}
	return len(p), nil
}

package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/png"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/cmd/pinion/internal/cli"
	"github.com/pinion-gpu/pinion/cmd/pinion/internal/feed"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/host"
	"github.com/pinion-gpu/pinion/internal/recipe"
	"github.com/pinion-gpu/pinion/loader"
)

// digests runs feed on dir and returns what --digests wrote.
func digests(t testing.TB, dir string, args ...string) []feed.Digest {
	t.Helper()
	file := filepath.Join(t.TempDir(), "digests.jsonl")
	r := pinion(t, append([]string{"feed", dir, "--device", "host", "--size", "16", "--digests", file}, args...)...)
	if r.code != exitDone {
		t.Fatalf("%q: %s", args, r.stderr)
	}
	return readDigests(t, file)
}

func readDigests(t testing.TB, file string) (list []feed.Digest) {
	t.Helper()
	text, err := os.ReadFile(file)
	ok(t, err)
	for line := range strings.Lines(string(text)) {
		var d feed.Digest
		ok(t, json.Unmarshal([]byte(line), &d))
		list = append(list, d)
	}
	return list
}

func sameDigests(t testing.TB, what string, have, want []feed.Digest) {
	t.Helper()
	if a, b := fmt.Sprint(have), fmt.Sprint(want); a != b {
		t.Errorf("%s:\n%s, want\n%s", what, a, b)
	}
}

// A run that was stopped and goes on has, to the byte, the batches of one that
// was not, with other settings too.
func TestFeedResume(t *testing.T) {
	dir := makePhotos(t, 9)
	state := filepath.Join(t.TempDir(), "state.json")
	order := []string{"--batch", "2", "--epochs", "3", "--sampler", "random", "--seed", "5", "--dtype", "f16"}
	want := digests(t, dir, order...)
	if len(want) != 15 {
		t.Fatalf("%d batches: %v", len(want), want)
	}
	have := digests(t, dir, append(order, "--stop-after", "7", "--save-state", state)...)
	more := append(order, "--resume", state, "--save-state", state)
	have = append(have, digests(t, dir, append(more, "--stop-after", "3", "--workers", "1", "--prefetch", "1")...)...)
	have = append(have, digests(t, dir, append(more, "--workers", "4", "--no-pin", "--sample-timeout", "10s")...)...)
	sameDigests(t, "stopped twice", have, want)

	r := pinion(t, append([]string{"feed", dir, "--device", "host", "--size", "16", "--resume", state}, order...)...)
	if r.code != exitDone || !strings.Contains(r.stdout, "0 samples in 0 batches") {
		t.Errorf("behind the end: %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	r = pinion(t, "feed", dir, "--device", "host", "--size", "16", "--batch", "3", "--resume", state)
	if r.code != exitFailed || !strings.Contains(r.stderr, "in the state") {
		t.Errorf("another batch: %d\n%s", r.code, r.stderr)
	}
}

// Ranks have together what one process has, batch for batch.
func TestFeedRanks(t *testing.T) {
	dir := makePhotos(t, 8)
	one := digests(t, dir, "--batch", "4", "--shuffle", "--seed", "3")
	var ranks [][]feed.Digest
	for rank := range 2 {
		ranks = append(ranks, digests(t, dir, "--batch", "2", "--shuffle", "--seed", "3", "--world", "2", "--rank", fmt.Sprint(rank)))
	}
	for k, d := range one {
		have := []int{ranks[0][k].Samples[0], ranks[1][k].Samples[0], ranks[0][k].Samples[1], ranks[1][k].Samples[1]}
		if !slices.Equal(have, d.Samples) {
			t.Errorf("batch %d: %v, want %v", k, have, d.Samples)
		}
	}
}

// Every order there is gives batches, and the same ones again.
func TestFeedSamplers(t *testing.T) {
	dir := makePhotos(t, 7)
	seen := map[string]bool{}
	for _, name := range recipe.Samplers {
		if name == "blocks" {
			continue // for shards, see TestPack
		}
		list := digests(t, dir, "--sampler", name, "--batch", "3", "--seed", "2")
		sameDigests(t, name, digests(t, dir, "--sampler", name, "--batch", "3", "--seed", "2", "--workers", "1"), list)
		text := fmt.Sprint(list)
		if seen[text] || len(list) != 3 {
			t.Errorf("%s: %d batches, like those of another", name, len(list))
		}
		seen[text] = true
	}
}

// Transforms change what batches hold, in the same way whatever the workers,
// the batch and the ranks; equal seeds give equal batches.
func TestFeedTransforms(t *testing.T) {
	dir := makePhotos(t, 6)
	seen := map[string]string{}
	for _, transform := range []string{"", "rrc:16", "rrc:16,flip", "rrc:16,flip,jitter", "stretch:16x16", "resize:20,crop:16", "bicubic"} {
		args := []string{"--transform", transform, "--batch", "3", "--seed", "2", "--decode", "cpu"}
		list := digests(t, dir, args...)
		sameDigests(t, transform, digests(t, dir, append(args, "--workers", "1")...), list)
		text := fmt.Sprint(list)
		if other, there := seen[text]; there {
			t.Errorf("%q gives what %q gives", transform, other)
		}
		seen[text] = transform
	}
	one := digests(t, dir, "--batch", "2", "--transform", "rrc:16,flip,jitter", "--mixup", "0.3")
	two := digests(t, dir, "--batch", "2", "--transform", "rrc:16,flip,jitter", "--mixup", "0.3", "--prefetch", "1", "--workers", "3")
	sameDigests(t, "mixup", two, one)
}

// All bits of photos of 16 arrive, from a folder and from shards of it.
func TestFeedDepth(t *testing.T) {
	dir, out := t.TempDir(), filepath.Join(t.TempDir(), "shards")
	m := image.NewGray16(image.Rect(0, 0, 16, 16))
	var samples, grey []byte
	for i := 0; i < len(m.Pix); i += 2 {
		v := uint16(251 * i)
		binary.BigEndian.PutUint16(m.Pix[i:], v)
		samples = binary.LittleEndian.AppendUint16(samples, v)
		grey = append(grey, byte(v>>8))
	}
	var file bytes.Buffer
	ok(t, png.Encode(&file, m))
	writeFile(t, dir, "a/0.png", file.Bytes())
	if r := pinion(t, "pack", dir, out); r.code != exitDone {
		t.Fatal(r.stderr)
	}
	for _, from := range []string{dir, out} {
		for _, c := range []struct {
			args string
			want []byte
		}{
			{"--depth 16 --channels 1 --dtype u16", samples},
			{"--channels 1 --dtype u8", grey},
			{"--dtype u8", slices.Concat(grey, grey, grey)},
		} {
			sum := sha256.Sum256(c.want)
			if d := digests(t, from, strings.Fields(c.args)...); len(d) != 1 || d[0].SHA256 != hex.EncodeToString(sum[:]) {
				t.Errorf("%s %s: %v, want %x", from, c.args, d, sum)
			}
		}
	}
	feed := func(args ...string) result {
		return pinion(t, append([]string{"feed", dir, "--device", "host", "--size", "16", "--depth", "16"}, args...)...)
	}
	if r := feed("--channels", "1"); r.code != exitDone || !strings.Contains(r.stdout, "1x1x16x16 f32") {
		t.Errorf("%d\n%s%s", r.code, r.stdout, r.stderr)
	}
	if r := feed("--json"); r.code != exitDone || !strings.Contains(r.stdout, "16x16x3 u16") {
		t.Errorf("no reason to decode on the CPU: %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	if r := feed("--decode", "gpu"); r.code != exitFailed || !strings.Contains(r.stderr, "a device decodes to 3 channels of u8, and the samples are 16x16x3 u16") {
		t.Errorf("%d\n%s%s", r.code, r.stdout, r.stderr)
	}
}

// Unreadable files are replaced where that is wanted.
func TestFeedReplace(t *testing.T) {
	dir := makePhotos(t, 6)
	writeFile(t, dir, "odd/a.jpg", []byte("no photo"))
	r := pinion(t, "feed", dir, "--device", "host", "--size", "16", "--batch", "7", "--on-error", "replace", "--json")
	var doc map[string]any
	ok(t, json.Unmarshal([]byte(r.stdout), &doc))
	if doc["samples"] != 7. || doc["replaced_samples"] != 1. || doc["failed_samples"] != 1. || !strings.Contains(r.stderr, "replaced: ") {
		t.Errorf("%v\n%s", doc, r.stderr)
	}

	// Most of them, so that some are drawn in the place of others: each is named
	// once all the same, or counted.
	const bad = 13
	for i := range bad - 1 {
		writeFile(t, dir, fmt.Sprintf("odd/%d.jpg", i), []byte("no photo"))
	}
	r = pinion(t, "feed", dir, "--device", "host", "--size", "16", "--on-error", "replace", "--json")
	doc = nil
	ok(t, json.Unmarshal([]byte(r.stdout), &doc))
	if named := strings.Count(r.stderr, "replaced: loader: sample "); named != 10 || doc["failed_samples"] != float64(bad) ||
		!strings.Contains(r.stderr, fmt.Sprintf("replaced: %d more; --list-errors", bad-10)) || len(doc["failures"].([]any)) != bad {
		t.Errorf("%d named, %v failed: %v\n%s", named, doc["failed_samples"], doc["failures"], r.stderr)
	}
	for line := range strings.Lines(r.stderr) {
		if strings.Count(r.stderr, line) > 1 {
			t.Errorf("more than once: %s", line)
		}
	}
}

// An interrupt saves the state and the digests of what was done, and the run
// can go on from there.
func TestFeedInterrupted(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows does not interrupt single processes")
	}
	dir := makePhotos(t, 5)
	state, file := filepath.Join(t.TempDir(), "state.json"), filepath.Join(t.TempDir(), "digests.jsonl")
	order := []string{"--batch", "2", "--size", "16", "--shuffle", "--epochs", "1000000000"}
	args := append([]string{"feed", dir, "--device", "host", "--save-state", state, "--digests", file}, order...)
	r := process(t, func(p *os.Process) {
		written(t, p, filepath.Dir(file))
		ok(t, p.Signal(os.Interrupt))
	}, args...)
	if r.code != exitFailed || !strings.Contains(r.stderr, "interrupted") || !strings.Contains(r.stderr, "--resume "+state) || !strings.Contains(r.stdout, "samples/s") {
		t.Fatalf("exit code %d: %s%s", r.code, r.stdout, r.stderr)
	}
	done := readDigests(t, file)
	saved, err := loader.ReadState(state)
	ok(t, err)
	if n := 3*saved.Epoch + saved.Batch; n != len(done) || n == 0 {
		t.Fatalf("%d batches done, the state is behind %d", len(done), n)
	}
	// Some of both, in one go.
	n := min(len(done), 20)
	want := digests(t, dir, "--batch", "2", "--shuffle", "--epochs", "1000000000", "--stop-after", fmt.Sprint(n))
	sameDigests(t, "interrupted", done[:n], want)
	next := digests(t, dir, "--batch", "2", "--shuffle", "--epochs", "1000000000", "--resume", state, "--stop-after", "2")
	if next[0].Epoch != saved.Epoch || next[0].Batch != saved.Batch {
		t.Errorf("goes on with %+v, the state is %+v", next[0], saved)
	}
}

// written waits until something is in a draft that the process has in dir.
func written(t testing.TB, p *os.Process, dir string) {
	t.Helper()
	for end := time.Now().Add(hang); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		files, err := filepath.Glob(filepath.Join(dir, ".*"))
		ok(t, err)
		// On Linux a draft has no name but this.
		open, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", p.Pid))
		ok(t, err)
		for _, file := range open {
			if place, err := os.Readlink(file); err == nil && strings.HasPrefix(place, dir) {
				files = append(files, file)
			}
		}
		for _, file := range files {
			if info, err := os.Stat(file); err == nil && info.Size() > 0 {
				return
			}
		}
	}
	t.Errorf("nothing is in a draft in %s after %v", dir, hang)
}

// Files of every kind are told by their content, and flags say what of them is
// read.
func TestFeedKinds(t *testing.T) {
	dir := t.TempDir()
	for _, c := range []struct {
		name, text, flags, shape string
	}{
		{"a.csv", "x,y,class\n1,2,0\n3,4,1\n", "--label class", "2x2 f32"},
		{"a.jsonl", `{"v": [1, 2, 3], "w": 7}` + "\n" + `{"v": [4, 5, 6], "w": 8}` + "\n", "--field v --label w", "2x3 f32"},
		{"tokens.jsonl", `{"tokens": [1, 2, 3], "class": 7}` + "\n" + `{"tokens": [4], "class": 8}` + "\n", "--field tokens --label class --sampler length", "2x3 f32"},
		{"numbers.jsonl", `{"x": 1}` + "\n" + `{"x": 2}` + "\n", "", "of 2 f32"},
		{"a.bin", "abcdefghijkl", "--raw 2x3,u8", "2x2x3 u8"},
		{"b.bin", "abcdefghijkl", "--raw f32", "3 f32"},
	} {
		r := pinion(t, append([]string{"feed", writeFile(t, dir, c.name, []byte(c.text)), "--device", "host"}, strings.Fields(c.flags)...)...)
		if r.code != exitDone || !strings.Contains(r.stdout, c.shape) {
			t.Errorf("%s %s: %d\n%s%s, want %s", c.name, c.flags, r.code, r.stdout, r.stderr, c.shape)
		}
	}
}

// A run of no batches says why there are none.
func TestFeedNothing(t *testing.T) {
	dir, state := makePhotos(t, 9), filepath.Join(t.TempDir(), "state")
	feed := func(args ...string) result {
		return pinion(t, append([]string{"feed", dir, "--device", "host", "--size", "16"}, args...)...)
	}
	for _, c := range []struct{ args, says string }{
		{"--batch 10 --drop-last", "9 samples make no full batch of 10,"},
		{"--batch 4 --world 3 --rank 1 --drop-last", "9 samples make no full batch of 4 for each of 3 ranks,"},
	} {
		if r := feed(strings.Fields(c.args)...); r.code != exitFailed || !strings.Contains(r.stderr, c.says) {
			t.Errorf("%s: exit code %d: %s", c.args, r.code, r.stderr)
		}
	}
	if r := feed("--epochs", "2", "--save-state", state); r.code != exitDone {
		t.Fatal(r.stderr)
	}
	if r := feed("--epochs", "2", "--resume", state); r.code != exitDone || !strings.Contains(r.stderr, "Nothing left to feed: the state of --resume is at the end of 2 epochs") ||
		strings.Contains(r.stdout, "held up by") || strings.Contains(r.stdout, "samples/s") {
		t.Errorf("exit code %d: %s", r.code, r.stderr)
	}
	if r := feed("--shuffle", "--resume", state); r.code != exitFailed || !strings.Contains(r.stderr, "--resume needs the dataset and the flags that "+state+" was saved with") {
		t.Errorf("exit code %d: %s", r.code, r.stderr)
	}
	if r := feed("--epochs", "3", "--resume", state); r.code != exitDone || strings.Contains(r.stderr, "Nothing") {
		t.Errorf("exit code %d: %s", r.code, r.stderr)
	}
}

// What is packed is fed as the folder is: the same batches, also in an order of
// blocks, whose samples come once each.
func TestPack(t *testing.T) {
	dir, out := makePhotos(t, 9), filepath.Join(t.TempDir(), "shards")
	r := pinion(t, "pack", dir, out, "--shard-size", "20KiB")
	if r.code != exitDone || !strings.Contains(r.stdout, "9 photos in ") || r.stderr != "" {
		t.Fatalf("%d\n%s%s", r.code, r.stdout, r.stderr)
	}
	same := []string{"--batch", "4", "--decode", "cpu"}
	sameDigests(t, "packed", digests(t, out, same...), digests(t, dir, same...))
	var seen []int
	for _, d := range digests(t, out, "--batch", "4", "--sampler", "blocks", "--seed", "3") {
		seen = append(seen, d.Samples...)
	}
	slices.Sort(seen)
	if !slices.Equal(seen, []int{0, 1, 2, 3, 4, 5, 6, 7, 8}) {
		t.Errorf("blocks visit %v", seen)
	}
	if r := pinion(t, "pack", dir, out); r.code != exitFailed || !strings.Contains(r.stderr, out) {
		t.Errorf("a folder that is not empty: %d\n%s", r.code, r.stderr)
	}
	if r := pinion(t, "pack", dir, out+"-2", "--json"); r.code != exitDone || !strings.Contains(r.stdout, `"samples": 9`) {
		t.Errorf("%d\n%s%s", r.code, r.stdout, r.stderr)
	}
}

// Texts of a member or of a JSON field are classes: an order that is balanced by
// class is that of a folder with such classes.
func TestFeedTextLabels(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	dir, shards := makePhotos(t, 9), t.TempDir() // classes even and odd
	var content bytes.Buffer
	w := tar.NewWriter(&content)
	add := func(name string, data []byte) {
		ok(t, w.WriteHeader(&tar.Header{Name: name, Size: int64(len(data)), Mode: 0o644}))
		_, err := w.Write(data)
		ok(t, err)
	}
	names, err := filepath.Glob(filepath.Join(dir, "*", "*"))
	ok(t, err)
	for i, name := range names {
		data, err := os.ReadFile(name)
		ok(t, err)
		class, key := filepath.Base(filepath.Dir(name)), fmt.Sprintf("%02d", i)
		add(key+filepath.Ext(name), data)
		add(key+".json", fmt.Appendf(nil, `{"kind": {"name": %q}}`, class))
		add(key+".txt", []byte(class+"\n"))
	}
	ok(t, w.Close())
	writeFile(t, shards, "0.tar", content.Bytes())
	balanced := []string{"--batch", "4", "--decode", "cpu", "--sampler", "balanced", "--seed", "3"} // by class
	want := digests(t, dir, balanced...)
	for _, label := range []string{"txt", "kind.name"} {
		sameDigests(t, label, digests(t, shards, append(balanced, "--label", label)...), want)
	}
	r := pinion(t, "feed", shards, "--device", "host", "--label", "caption")
	if r.code != exitFailed || !strings.Contains(r.stderr, `"caption"`) {
		t.Errorf("a label that is not there: %d\n%s", r.code, r.stderr)
	}
	r = pinion(t, "feed", filepath.Join(shards, "0.tar"), "--device", "host", "--label", "jpg")
	if r.code != exitFailed || strings.Contains(r.stderr, "panic") {
		t.Errorf("pictures as labels: %d\n%s", r.code, r.stderr)
	}
}

// The next command that is printed works in a shell, whatever the folder is
// called.
func TestPackNext(t *testing.T) {
	out := filepath.Join(t.TempDir(), "my shards, don't touch")
	r := pinion(t, "pack", makePhotos(t, 3), out)
	_, next, _ := strings.Cut(r.stdout, "Next:  ")
	if want := "pinion feed '" + strings.ReplaceAll(out, "'", `'\''`) + "' --sampler blocks\n"; r.code != exitDone || next != want {
		t.Errorf("%d: %q, want %q", r.code, next, want)
	}
	for word, want := range map[string]string{"/a/b-c_1.tar": "/a/b-c_1.tar", "": "''", "a b": "'a b'", "$x": "'$x'", "~": "'~'"} {
		if got := cli.ShellQuote(word); got != want {
			t.Errorf("%q is quoted as %s, want %s", word, got, want)
		}
	}
}

// What a server fails at is told, and tried again.
func TestFeedRetries(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	shards := filepath.Join(t.TempDir(), "shards")
	if r := pinion(t, "pack", makePhotos(t, 3), shards); r.code != exitDone {
		t.Fatal(r.stderr)
	}
	files := http.FileServer(http.Dir(shards))
	var failed atomic.Bool
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !failed.Swap(true) {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		files.ServeHTTP(w, r)
	}))
	defer srv.Close()
	names, err := filepath.Glob(filepath.Join(shards, "*.tar"))
	ok(t, err)
	url := srv.URL + "/" + filepath.Base(names[0])
	r := pinion(t, "feed", url+"?key=secret", "--device", "host")
	if want := url + ": the server answered 503 Service Unavailable, and nothing else; trying again, 2 of 6\n"; r.code != exitDone || r.stderr != want {
		t.Errorf("%d\n%s\nwant\n%s", r.code, r.stderr, want)
	}
}

// What cannot be written shows before the run, and a run that does not begin
// leaves the digests of the one before.
func TestFeedPlaces(t *testing.T) {
	dir, files := makePhotos(t, 5), t.TempDir()
	at := func(name string) string { return filepath.Join(files, name) }
	feed := func(args ...string) result {
		return pinion(t, append([]string{"feed", dir, "--device", "host", "--size", "16", "--batch", "2"}, args...)...)
	}
	if r := feed("--digests", at("d"), "--save-state", at("s"), "--stop-after", "2"); r.code != exitDone {
		t.Fatal(r.stderr)
	}
	link := filepath.Join(t.TempDir(), "link")
	ok(t, os.Symlink(at("d"), link))
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"--digests", at("d"), "--resume", at("s"), "--seed", "9"}, exitFailed, "seed"},
		{[]string{"--digests", at("s"), "--resume", at("s")}, exitUsage, "--digests"},
		{[]string{"--digests", at("x"), "--save-state", at("x")}, exitUsage, "--digests"},
		{[]string{"--digests", at("x"), "--save-state", files + "/./x"}, exitUsage, "--digests"},
		{[]string{"--targets", at("d"), "--save-state", files + "/./d"}, exitUsage, "over the data in " + at("d")},
		{[]string{"--targets", link, "--digests", at("d")}, exitUsage, "over the data in " + link},
		{[]string{"--digests", dir + "/"}, exitUsage, "over the data in " + dir},
		{[]string{"--save-state", at("no/s")}, exitFailed, "cannot save the state: the folder"},
		{[]string{"--save-state", files}, exitFailed, "it is a folder, not a file"},
		{[]string{"--digests", files}, exitFailed, "it is a folder, not a file"},
	} {
		if r := feed(c.args...); r.code != c.code || !strings.Contains(r.stderr, c.says) || r.stdout != "" {
			t.Errorf("%q: exit code %d, want %d: %s", c.args, r.code, c.code, r.stderr)
		}
	}
	if n := len(readDigests(t, at("d"))); n != 2 {
		t.Errorf("%d digests are left, want 2", n)
	}
	list, err := os.ReadDir(files)
	ok(t, err)
	if len(list) != 2 {
		t.Errorf("%d files, want 2: %v", len(list), list)
	}
}

// While somebody else holds a part of the device, a batch that does not fit is
// said with what would, and auto takes the largest of which all buffers do.
func TestFeedUnderPressure(t *testing.T) {
	file := writeFile(t, t.TempDir(), "a.npy", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (90, 100, 100)}", 90*10_000))
	held, err := host.Open(4 << 20)
	ok(t, err)
	defer held.Close()
	_, err = held.Alloc(3 << 20)
	ok(t, err)
	registerPressed()
	pressed = held

	feed := []string{"feed", file, "--device", "pressed", "--no-pin"}
	r := pinion(t, append(feed, "--batch", "32")...)
	const want = "pinion: out of device memory: --batch 32 needs 1.22 MiB on host:4MiB, where 1 MiB are free; 26 fit, or 8 with all 3 device buffers: try --batch auto\n"
	if r.code != exitFailed || r.stderr != want || r.stdout != "" {
		t.Errorf("exit code %d\n%s%s\nwant\n%s", r.code, r.stdout, r.stderr, want)
	}
	for flags, want := range map[string][2]any{
		"--batch 26":                         {26., 1.},
		"--batch 8":                          {8., 3.},
		"--batch auto":                       {8., 3.},
		"--batch auto --device-budget 500kB": {4., 3.},
		"--batch 32 --device-budget 1GiB --dtype f16": {nil, nil},
	} {
		args := append(append(slices.Clone(feed), "--json"), strings.Fields(flags)...)
		if want[0] == nil {
			if r := pinion(t, args...); r.code != exitFailed || !strings.Contains(r.stderr, "--batch 32 needs 1.83 MiB") {
				t.Errorf("%s: exit code %d\n%s%s", flags, r.code, r.stdout, r.stderr)
			}
			continue
		}
		doc := document(t, feedKeys, args...)
		if doc["batch"] != want[0] || doc["device_buffers"] != want[1] || doc["samples"] != 90. {
			t.Errorf("%s: %v in %v device buffers, %v samples; want %v", flags, doc["batch"], doc["device_buffers"], doc["samples"], want)
		}
		if reason, there := doc["batch_reason"]; there != strings.Contains(flags, "auto") {
			t.Errorf("%s: %v", flags, reason)
		}
	}
	r = pinion(t, append(feed, "--batch", "auto")...)
	if line := "batches of 8: 3 device buffers of it fit into the 1 MiB free on host:4MiB, less a sixteenth\n"; r.code != exitDone || !strings.Contains(r.stdout, line) {
		t.Errorf("exit code %d\n%s%s", r.code, r.stdout, r.stderr)
	}
}

// registerPressed makes a backend whose only device is pressed.
var (
	pressed         device.Device
	registerPressed = sync.OnceFunc(func() {
		device.Register(device.Backend{
			Name: "pressed", Rank: -1,
			Open: func(string) (device.Device, error) { return stays{pressed}, nil },
			List: func() ([]string, error) { return nil, nil },
		})
	})
)

// stays is a device that others use too: whoever opened it does not close it.
type stays struct{ device.Device }

func (s stays) Unwrap() device.Device { return s.Device }
func (stays) Close() error            { return nil }

// The largest batch is that of what there was, also where nobody knew before.
func TestFeedShortStream(t *testing.T) {
	path := makeStream(t, 3)
	doc := document(t, []string{"batch_shape"}, "feed", path, "--device", "host", "--json")
	if shape := fmt.Sprint(doc["batch_shape"]); doc["samples"] != 3. || !strings.HasPrefix(shape, "[3 ") {
		t.Errorf("%v samples in batches of %v", doc["samples"], shape)
	}
}

// A file is read again for each epoch and each trial, though nobody knows before
// its end how many samples it has; an order of them cannot be asked for.
func TestStreams(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	path := makeStream(t, 3)
	doc := document(t, nil, "feed", path, "--device", "host", "--epochs", "4", "--shuffle-buffer", "2", "--json")
	if doc["samples"] != 12. || doc["batches"] != 4. {
		t.Errorf("%v samples in %v batches, want 12 in 4", doc["samples"], doc["batches"])
	}
	doc = document(t, nil, "tune", path, "--device", "host", "--budget", "300ms", "--json")
	if n, there := doc["samples"]; there {
		t.Errorf("%v samples of a stream", n)
	}
	if r := pinion(t, "tune", path, "--device", "host", "--budget", "300ms"); !strings.Contains(r.stdout, path+": a stream of samples of 224x224x3 u8\n") {
		t.Errorf("%s%s", r.stdout, r.stderr)
	}
	for _, order := range []string{"--shuffle", "--sampler random", "--sampler balanced", "--sampler length"} {
		checkMessage(t, order, pinion(t, append([]string{"feed", path, "--device", "host"}, strings.Fields(order)...)...), exitFailed, []string{"shuffle-buffer"})
	}
}

// makeStream is a compressed tar of n photos.
func makeStream(t testing.TB, n int) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "x.tar.gz")
	f, err := os.Create(path)
	ok(t, err)
	z := gzip.NewWriter(f)
	w := tar.NewWriter(z)
	photo := jpegOf(t, 1)
	for i := range n {
		ok(t, w.WriteHeader(&tar.Header{Name: fmt.Sprintf("%d.jpg", i), Size: int64(len(photo)), Mode: 0o600}))
		_, err := w.Write(photo)
		ok(t, err)
	}
	ok(t, errors.Join(w.Close(), z.Close(), f.Close()))
	return path
}

// What was asked for and not done is said.
func TestFeedPrefetchBeyond(t *testing.T) {
	dir := makePhotos(t, 4)
	r := pinion(t, "feed", dir, "--device", "host", "--batch", "2", "--prefetch", "100000")
	if r.code != exitDone || !strings.Contains(r.stderr, "--prefetch 100000: no more than 2 batches could be read ahead") {
		t.Errorf("exit code %d\n%s", r.code, r.stderr)
	}
	if r := pinion(t, "feed", dir, "--device", "host", "--batch", "2", "--prefetch", "2"); r.stderr != "" {
		t.Error(r.stderr)
	}
}

// Options that are wrong are found before sample photos are made.
func TestFeedChecksBeforeSamplePhotos(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", cache)
	t.Setenv("HOME", cache)
	t.Setenv("LocalAppData", cache)
	for args, say := range map[string]string{
		"feed --transform nosuch:1": "--transform: ", "feed --size 0": "--size", "tune --depth 3": "--depth",
	} {
		r := pinion(t, strings.Fields(args)...)
		if r.code != exitUsage || !strings.Contains(r.stderr, say) {
			t.Errorf("%q: exit code %d, %s", args, r.code, r.stderr)
		}
	}
	if made, _ := filepath.Glob(filepath.Join(cache, "*")); made != nil {
		t.Errorf("made %v", made)
	}
}

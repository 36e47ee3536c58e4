package main

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// Whatever is wrong: the exit code says whose fault it is, standard error says
// in one message what, by name, and standard output stays empty.
func TestErrors(t *testing.T) {
	good := makePhotos(t, 3)
	dir := t.TempDir()
	folder := func(name string, data []byte) string {
		return filepath.Dir(writeFile(t, dir, strings.ReplaceAll(name, ".", "-")+"/"+name, data))
	}
	empty := t.TempDir()
	textOnly := folder("notes.txt", []byte("no image"))
	zeroJPEG, zeroPNG := folder("zero.jpg", nil), folder("zero.png", nil)
	shortJPEG, shortPNG := folder("short.jpg", jpegOf(t, 1)[:500]), folder("short.png", pngOf(t, 1)[:90])
	headOnly := folder("head.jpg", jpegOf(t, 1)[:4])
	textJPEG := folder("text.jpg", []byte("I am text, whatever my name says."))
	bigJPEG, bigPNG := folder("big.jpg", hugeJPEG(t)), folder("big.png", hugePNG(t))
	const header = "{'descr': '<f4', 'fortran_order': False, 'shape': (4, 3)}"
	array := func(name string, data []byte) string { return writeFile(t, dir, name, data) }
	goodArray := array("good.npy", npy(header, 12))
	wrongArray := array("wrong.npy", npy("{'descr': '<f4', 'shape': (4, 3)}", 12))
	shortArray := array("short.npy", npy(header, 11))
	headArray := array("head.npy", npy(header, 0)[:40])
	objectArray := array("object.npy", npy("{'descr': '|O', 'fortran_order': False, 'shape': (4,)}", 4))
	hugeArray := array("huge.npy", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 8)}", 4))
	rightArray := array("right.npy", npy(header, 12))
	imageArray := array("image.npy", npy("{'descr': '|u1', 'fortran_order': False, 'shape': (2, 2, 4, 3)}", 12))
	rows := array("rows.csv", []byte("x,y\n1,2\n"))
	shard := func(name, dir string) string {
		var content bytes.Buffer
		w := tar.NewWriter(&content)
		if err := errors.Join(w.AddFS(os.DirFS(dir)), w.Close()); err != nil {
			t.Fatal(err)
		}
		return array(name, content.Bytes())
	}
	photoShard := shard("photos.tar", good)
	arrayShard := shard("arrays.tar", folder("array.npy", npy(header, 12)))
	noArray := array("none.npy", []byte("nothing of the kind"))

	for _, c := range []struct {
		args string // a path with blanks would not do
		code int
		say  []string
	}{
		{"feed " + empty, 1, []string{empty, "empty"}},
		{"feed " + textOnly, 1, []string{textOnly, "no photos"}},
		{"feed " + filepath.Join(dir, "missing"), 1, []string{"missing"}},
		{"feed " + os.DevNull, 1, []string{os.DevNull}},
		{"feed " + zeroJPEG, 1, []string{"zero.jpg"}},
		{"feed " + zeroPNG, 1, []string{"zero.png"}},
		{"feed " + shortJPEG, 1, []string{"short.jpg", "damaged"}},
		{"feed " + shortPNG, 1, []string{"short.png", "damaged"}},
		{"feed " + headOnly, 1, []string{"head.jpg"}},
		{"feed " + textJPEG, 1, []string{"text.jpg", "neither JPEG"}},
		{"feed " + bigJPEG, 1, []string{"big.jpg", "60000x60000"}},
		{"feed " + bigPNG, 1, []string{"big.png", "60000x60000"}},
		{"feed " + wrongArray, 1, []string{"wrong.npy", "fortran_order"}},
		{"feed " + shortArray, 1, []string{"short.npy"}},
		{"feed " + headArray, 1, []string{"head.npy"}},
		{"feed " + objectArray, 1, []string{"object.npy"}},
		{"feed " + hugeArray, 1, []string{"huge.npy"}},
		{"feed " + noArray, 1, []string{"none.npy"}},

		{"feed --batch 0 " + good, 2, []string{"--batch", "0"}},
		{"feed --batch -3 " + good, 2, []string{"--batch", "-3"}},
		{"feed --batch many " + good, 2, []string{"--batch", "many", "a whole number, or auto"}},
		{"feed --batch auto --world 2 " + good, 2, []string{"--batch auto", "--world 2"}},
		{"feed --batch auto --sampler length " + good, 2, []string{"--sampler length", "auto"}},
		{"tune --batch 4,auto " + good, 2, []string{"--batch auto is for feed"}},
		{"feed --device-budget 0 " + good, 2, []string{"--device-budget"}},
		{"feed --batch auto --size 224 --device host:256KiB " + good, 1, []string{"a batch of 1 sample needs", "256 KiB are free; not even one sample fits"}},
		{"feed --workers -1 " + good, 2, []string{"--workers", "-1"}},
		{"feed --workers 0 " + good, 2, []string{"--workers", "0"}},
		{"feed --prefetch -1 " + good, 2, []string{"--prefetch", "-1"}},
		{"feed --epochs 0 " + good, 2, []string{"--epochs", "0"}},
		{"feed --size 0 " + good, 2, []string{"--size", "0"}},
		{"feed --depth 12 " + good, 2, []string{"--depth", "12", "8 or 16"}},
		{"feed --channels 4 " + good, 2, []string{"--channels", "4", "1 or 3"}},
		{"tune --depth 0 " + good, 2, []string{"--depth", "0", "8 or 16"}},
		{"feed --depth 16 --dtype u8 " + good, 2, []string{"--dtype u8", "--depth is 16", "--dtype u16"}},
		{"feed --dtype u16 " + good, 2, []string{"--dtype u16", "8 bits", "--depth 16"}},
		{"feed --device host --dtype u16 " + imageArray, 1, []string{"images of u8 cannot become u16", "or u8 as they are"}},
		{"feed --device host --channels 1 --transform jitter " + good, 1, []string{"have no colours"}},
		{"feed --depth 16 " + rightArray, 2, []string{"--depth does not apply to ", "right.npy (NumPy .npy); it is for Parquet, photos"}},
		{"tune --transform rrc:9 " + rightArray, 2, []string{"--transform does not apply to "}},
		{"feed --field x " + rightArray, 2, []string{"--field", "right.npy", ".npz"}},
		{"feed --label x " + rightArray, 2, []string{"--label", "another file", "x"}},
		{"feed --field x --raw u8 " + rightArray, 2, []string{"--field", "right.npy"}},
		{"feed --field x " + rows, 2, []string{"--field", "rows.csv"}},
		{"tune --label x " + good, 2, []string{"--label", good}},
		{"feed --label class " + photoShard, 1, []string{"photos.tar", "none of 3 samples", `"class"`}},
		{"tune --label class " + arrayShard, 1, []string{"arrays.tar", "none of 1 sample", `"class"`}},
		{"tune --report " + rows + " " + rows, 2, []string{"--report", "over the data in " + rows}},
		{"tune --report " + rows + " --targets " + rows + " " + good, 2, []string{"--report", "over the data in " + rows}},
		{"feed --size 70000 " + good, 2, []string{"70000", "65535"}},
		{"feed --seed -1 " + good, 2, []string{"--seed", "-1"}},
		{"feed --dtype f64 " + good, 2, []string{"--dtype", "f64"}},
		{"feed --on-error maybe " + good, 2, []string{"--on-error", "maybe"}},
		{"feed --pin-budget lots " + good, 2, []string{"--pin-budget", "lots"}},
		{"feed --pin-budget -1MiB " + good, 2, []string{"--pin-budget", "-1MiB"}},
		{"feed --sampler nosuch " + good, 2, []string{"--sampler", "nosuch", "balanced"}},
		{"feed --shuffle --sampler length " + good, 2, []string{"--shuffle", "length"}},
		{"feed --transform rcc:224 " + good, 2, []string{"--transform", "rcc", "rrc:SIZE"}},
		{"feed --raw 4x,u8 " + goodArray, 2, []string{"--raw", "4x"}},
		{"feed --raw 4xu8 " + goodArray, 2, []string{"--raw", "4xu8"}},
		{"feed --raw 5,f32 " + goodArray, 1, []string{goodArray, "not a whole number of samples"}},
		{"feed --raw 5,f32", 2, []string{"--raw", "none was named"}},
		{"feed --sampler blocks " + good, 1, []string{"blocks", "not in shards"}},
		{"feed train-{000..002}.tar", 1, []string{"train-00", "does not exist"}},
		{"pack " + good, 2, []string{"not 1 argument"}},
		{"pack " + empty + " " + filepath.Join(dir, "out"), 1, []string{empty, "empty"}},
		{"feed --decode tpu " + good, 2, []string{"--decode", "tpu"}},
		{"feed --decode gpu --device host " + good, 1, []string{"CUDA"}},
		{"feed --mixup 9 --device host " + good, 2, []string{"--mixup is 9", "0 to 4"}},
		{"feed --mixup 0.2 " + goodArray, 1, []string{"only images"}},
		{"feed --world 0 " + good, 2, []string{"--world", "0"}},
		{"feed --rank 2 --world 2 " + good, 2, []string{"--rank is 2", "0 to 1"}},
		{"feed --stop-after -1 " + good, 2, []string{"--stop-after", "-1"}},
		{"feed --sample-timeout -1s " + good, 2, []string{"--sample-timeout", "-1s"}},
		{"feed --sampler balanced " + goodArray, 1, []string{"balanced", "one class"}},
		{"feed --resume " + goodArray + " " + good, 1, []string{goodArray, "state"}},
		{"feed --digests " + filepath.Join(dir, "none", "d") + " " + good, 1, []string{"digests", "none"}},
		{"feed --frobnicate " + good, 2, []string{"--frobnicate"}},
		{"feed " + good + " " + dir, 2, []string{"2"}},
		{"nosuch", 2, []string{"nosuch"}},
		{"help nosuch", 2, []string{"nosuch"}},
		{"bench nosuch", 2, []string{"nosuch"}},
		{"--nosuch", 2, []string{"--nosuch"}},
		{"devices cuda:0", 2, []string{"cuda:0"}},
		{"devices --nosuch", 2, []string{"--nosuch"}},

		{"feed --device cuda:0 " + good, 1, []string{"cuda", "unavailable"}},
		{"feed --device nosuch " + good, 2, []string{"nosuch", "host"}},
		{"feed --device cpu " + good, 2, []string{"did you mean host?"}},
		{"bench link --device cdua:0", 2, []string{"did you mean cuda?"}},
		{"feed --device host:lots " + good, 2, []string{"--device", "lots"}},
		{"feed --device host:900TiB " + good, 2, []string{"--device", "may use only"}},
		{"feed --device host:1MiB " + good, 1, []string{"out of device memory", "3 samples", "where 1 MiB are free; 1 fits: try --batch auto"}},
		{"feed --device host:8 " + goodArray, 1, []string{"out of device memory"}},

		{"bench link --size 1 --device host", 2, []string{"--size", "16 KiB"}},
		{"bench link --size 0 --device host", 2, []string{"--size"}},
		{"bench link --size big --device host", 2, []string{"--size", "big"}},
		{"bench link --repeats 0 --device host", 2, []string{"--repeats", "0"}},
		{"bench link --copiers -1 --device host", 2, []string{"--copiers", "-1"}},
		{"bench link --device host:1MiB --size 2MiB", 1, []string{"--size", "out of device memory"}},
		{"bench link --device cuda:0", 1, []string{"cuda", "unavailable"}},
		{"bench link there", 2, []string{"there"}},
	} {
		for _, args := range []string{c.args, c.args + " --json"} {
			if strings.HasSuffix(args, "nosuch --json") {
				continue // there is no such flag either, which is what it says first
			}
			var r result
			bytes := allocated(func() { r = pinion(t, strings.Fields(args)...) })
			checkMessage(t, args, r, c.code, c.say)
			// The largest sound picture here is of 40 x 30 pixels.
			if bytes > 64<<20 {
				t.Errorf("%q took %d MiB", args, bytes>>20)
			}
		}
	}
}

// checkMessage wants that exit code and one message with all of say.
func checkMessage(t testing.TB, what string, r result, code int, say []string) {
	t.Helper()
	if r.code != code {
		t.Errorf("%q: exit code %d, want %d: %s", what, r.code, code, r.stderr)
	}
	if r.stdout != "" {
		t.Errorf("%q: on standard output: %.200q", what, r.stdout)
	}
	messages := 0
	for line := range strings.Lines(r.stderr) {
		switch {
		case strings.HasPrefix(line, "pinion: "):
			messages++
			for _, part := range say {
				if !strings.Contains(line, part) {
					t.Errorf("%q: %q is missing in: %s", what, part, line)
				}
			}
		case strings.HasPrefix(line, "See \"pinion") && code == exitUsage:
		case strings.HasPrefix(line, "Using the host backend: "):
		default:
			t.Errorf("%q: also says: %s", what, line)
		}
	}
	if messages != 1 {
		t.Errorf("%q: %d messages, want one: %s", what, messages, r.stderr)
	}
	if code == exitUsage && !strings.Contains(r.stderr, "--help\".\n") {
		t.Errorf("%q: it is not told where help is: %s", what, r.stderr)
	}
}

// Of a link whose target is missing, the target is named.
func TestDanglingLink(t *testing.T) {
	dir := t.TempDir()
	if err := os.Symlink("gone.jpg", filepath.Join(dir, "here.jpg")); err != nil {
		t.Skip(err)
	}
	checkMessage(t, "a dangling link", pinion(t, "feed", dir), 1, []string{"here.jpg is a link to gone.jpg, which does not exist"})
	dir = makePhotos(t, 2)
	ok(t, os.Symlink("gone.jpg", filepath.Join(dir, "here.jpg")))
	r := pinion(t, "feed", dir, "--on-error", "skip", "--json")
	if r.code != 0 || !strings.Contains(r.stdout, `here.jpg is a link to gone.jpg, which does not exist"`) {
		t.Errorf("--json: %d, %s%s", r.code, r.stdout, r.stderr)
	}
}

// A folder that may not be read is named.
func TestUnreadableFolder(t *testing.T) {
	if runtime.GOOS == "windows" || os.Geteuid() == 0 {
		t.Skip("permissions bind neither root nor, as they are set here, Windows")
	}
	dir := makePhotos(t, 2)
	ok(t, os.Chmod(filepath.Join(dir, "odd"), 0))
	t.Cleanup(func() { os.Chmod(filepath.Join(dir, "odd"), 0o755) })
	checkMessage(t, "an unreadable folder", pinion(t, "feed", dir), 1, []string{"odd", "permission denied"})
}

// Numbers beyond all use are an error or are cut to what is of use. They run
// in a process of their own, since they have brought it down.
func TestHugeNumbers(t *testing.T) {
	file := writeFile(t, t.TempDir(), "a.npy", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (4, 3)}", 12))
	for _, flag := range []string{"--batch", "--workers", "--prefetch"} {
		r := process(t, nil, "feed", file, "--device", "host:1GiB", flag, "9223372036854775807")
		if r.code != exitDone && (r.code > exitUsage || strings.Contains(r.stderr, "goroutine ")) {
			t.Errorf("%s: exit code %d: %.300s", flag, r.code, r.stderr)
		}
	}
}

// Damaged files are left out and counted. The document names all of them, and
// standard error as many as asked for.
func TestSkipDamaged(t *testing.T) {
	for _, c := range []struct{ bad, list int }{{1, 10}, {4, 10}, {10, 10}, {13, 10}, {13, 20}, {5, 0}} {
		bad, list := c.bad, c.list
		dir := makePhotos(t, 5)
		for i := range bad {
			name := fmt.Sprintf("odd/bad-%02d.jpg", i)
			writeFile(t, dir, name, [][]byte{nil, jpegOf(t, 1)[:300], []byte("text"), hugeJPEG(t)}[i%4])
		}
		r := pinion(t, "feed", dir, "--on-error", "skip", "--batch", "2", "--device", "host", "--json", "--workers", "3", "--list-errors", fmt.Sprint(list))
		if r.code != exitDone {
			t.Fatalf("exit code %d: %s", r.code, r.stderr)
		}
		doc := parse(t, r.stdout, feedKeys)
		if doc["failed_samples"] != float64(bad) || doc["replaced_samples"] != 0. || doc["samples"] != 5. {
			t.Errorf("%v samples failed and %v were read, want %d and 5", doc["failed_samples"], doc["samples"], bad)
		}
		failures := doc["failures"].([]any)
		if len(failures) != bad {
			t.Errorf("%d of %d failures in the document", len(failures), bad)
		}
		for i, f := range failures {
			row := f.(map[string]any)
			if name := fmt.Sprintf("bad-%02d.jpg", i); !strings.HasSuffix(row["sample"].(string), name) || row["error"] == "" || row["epoch"] != 0. || row["index"] == nil {
				t.Errorf("failure %d is %v", i, row)
			}
		}
		lines := strings.Count(r.stderr, "skipped: ")
		if want := min(bad, list+1); lines != want {
			t.Errorf("%d bad files, %d lines about them, want %d:\n%s", bad, lines, want, r.stderr)
		}
		for i := range min(bad, list) {
			if name := fmt.Sprintf("bad-%02d.jpg", i); strings.Count(r.stderr, name) != 1 {
				t.Errorf("%s is not named once:\n%s", name, r.stderr)
			}
		}
		if more := fmt.Sprintf("skipped: %d more; --list-errors %d names all\n", bad-list, bad); bad > list && !strings.Contains(r.stderr, more) {
			t.Errorf("%q is missing:\n%s", more, r.stderr)
		}
	}
}

// Who meets a damaged file is told how to go on without it.
func TestDamagedFails(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	dir := makePhotos(t, 3)
	name := writeFile(t, dir, "bad.jpg", []byte("text"))
	for _, command := range []string{"feed", "tune"} {
		r := pinion(t, command, dir, "--device", "host")
		if r.code != exitFailed || !strings.Contains(r.stderr, name) || !strings.Contains(r.stderr, "; --on-error skip leaves such samples out\n") {
			t.Errorf("%s: %d: %s", command, r.code, r.stderr)
		}
	}
}

// A folder in which nothing can be read is an error that says why, however many
// epochs or trials are to come.
func TestSkipEverything(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	dir := t.TempDir()
	writeFile(t, dir, "a.jpg", nil)
	writeFile(t, dir, "b.jpg", []byte("text"))
	for _, args := range [][]string{{"feed", dir, "--epochs", "1000000000"}, {"tune", dir, "--budget", "1h"}} {
		for policy, want := range map[string]string{"skip": "nothing can be read: all 2 of epoch 0", "replace": "none of 16 samples", "fail": "sample"} {
			r := pinion(t, append(args, "--on-error", policy, "--device", "host", "--json", "--size", "16")...)
			if r.code != exitFailed || r.stdout != "" || !strings.Contains(r.stderr, want) || !strings.Contains(r.stderr, dir) {
				t.Errorf("%s, %s: %+v", args[0], policy, r)
			}
		}
	}
}

// What was most likely meant is suggested.
func TestSuggestions(t *testing.T) {
	for args, want := range map[string]string{
		"fed":                 `there is no command "pinion fed"; did you mean "pinion feed"?`,
		"help tuen":           `there is no command "pinion tuen"; did you mean "pinion tune"?`,
		"bench lnik":          `there is no command "pinion bench lnik"; did you mean "pinion bench link"?`,
		"feed --wrokers 4":    `pinion feed has no flag --wrokers; did you mean --workers?`,
		"feed --sampler rand": `--sampler is "rand", but must be sequential, random, replacement, balanced, length or blocks; did you mean random?`,
		"tune --dtype f23":    `did you mean f32?`,
	} {
		if r := pinion(t, strings.Fields(args)...); r.code != exitUsage || !strings.Contains(r.stderr, want) {
			t.Errorf("%s: %d: %s", args, r.code, r.stderr)
		}
	}
}

// Of a file that does not exist the error says what is missing, what may have
// been meant, and what helps.
func TestMissingFiles(t *testing.T) {
	dir := t.TempDir()
	good := makePhotos(t, 2)
	writeFile(t, dir, "trace.jsonl", nil)
	writeFile(t, dir, "photos/a.jpg", jpegOf(t, 1))
	missing := filepath.Join(dir, "nothing")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"feed", missing}, missing + ` does not exist; without a DATASET, "pinion feed" uses sample photos`},
		{[]string{"tune", missing}, missing + ` does not exist; without a DATASET, "pinion tune" uses sample photos`},
		{[]string{"feed", filepath.Join(dir, "Photo")}, "Photo does not exist; in " + dir + ` there is "photos"; without a DATASET`},
		{[]string{"feed", good, "--targets", missing}, "--targets: " + missing + " does not exist"},
		{[]string{"feed", good, "--resume", missing}, "--resume: " + missing + " does not exist; --save-state writes such a file"},
		{[]string{"feed", good, "--save-state", filepath.Join(missing, "s")}, "the folder " + missing + " does not exist"},
		{[]string{"feed", good, "--digests", filepath.Join(missing, "s")}, "the folder " + missing + " does not exist"},
		{[]string{"pack", missing, filepath.Join(dir, "out")}, missing + " does not exist"},
		{[]string{"replay", filepath.Join(dir, "trace.json")}, "trace.json does not exist (did you mean " + filepath.Join(dir, "trace.jsonl") + `?); "pinion replay --generate random -o trace.jsonl" makes a trace`},
	} {
		r := pinion(t, append(c.args, "--json")...)
		if r.code != exitFailed || !strings.Contains(r.stderr, c.want) || strings.Contains(r.stderr, "stat ") || strings.Contains(r.stderr, "no such file") {
			t.Errorf("%q: %d: %s\nwant %s", c.args, r.code, r.stderr, c.want)
		}
	}
}

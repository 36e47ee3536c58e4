package shard

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/dataset/internal/labels"
)

// classShards writes samples of three classes to several shards.
func classShards(t testing.TB, names []string) (dir string, files map[string][]byte) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "shards")
	writeAll(t, dir, WriterOptions{Prefix: "train-", ShardBytes: 20_000, Classes: names}, numbered(0, 30))
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	files = map[string][]byte{}
	for _, e := range entries {
		if files[e.Name()], err = os.ReadFile(filepath.Join(dir, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return dir, files
}

// withoutIndexes removes the indexes.
func withoutIndexes(files map[string][]byte) map[string][]byte {
	rest := map[string][]byte{}
	for name, content := range files {
		if !strings.HasSuffix(name, IndexSuffix) {
			rest[name] = content
		}
	}
	return rest
}

// TestClasses: names come with the shards, on disk and from a server, with
// their indexes and without, from the cache, and of each shard alone.
func TestClasses(t *testing.T) {
	names := []string{"", "käse <&>", "new\nline"}
	dir, files := classShards(t, names)
	shards := len(files) / 2
	plain := t.TempDir()
	for name, content := range withoutIndexes(files) {
		write(t, filepath.Join(plain, name), content)
	}
	with, without := newServer(t, files), newServer(t, withoutIndexes(files))
	pattern := fmt.Sprintf("/train-{000000..%06d}.tar", shards-1)
	kept := options(t)
	for what, open := range map[string]func() *Set{
		"folder":             func() *Set { return open(t, dir, Options{NoCache: true}) },
		"without indexes":    func() *Set { return open(t, plain, Options{NoCache: true}) },
		"one shard":          func() *Set { return open(t, filepath.Join(plain, "train-000001.tar"), Options{NoCache: true}) },
		"server":             func() *Set { return open(t, with.URL+pattern, options(t)) },
		"server, no indexes": func() *Set { return open(t, without.URL+pattern, options(t)) },
		"cached": func() *Set {
			open(t, without.URL+pattern, kept).Close()
			return open(t, without.URL+pattern, kept)
		},
	} {
		s := open()
		v, err := s.View("jpg")
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Classes(); !slices.Equal(got, names) || !slices.Equal(v.Classes(), names) {
			t.Errorf("%s: %q, want %q", what, got, names)
		}
		if s.Skipped() != 0 {
			t.Errorf("%s: %d members are in no sample", what, s.Skipped())
		}
		s.Close()
	}
}

// TestClassesAskForNothing: with names a server is asked for as much as without.
func TestClassesAskForNothing(t *testing.T) {
	var asked [2]int64
	for i, names := range [][]string{nil, {"a", "b", "c"}} {
		_, files := classShards(t, names)
		srv := newServer(t, files)
		s := open(t, fmt.Sprintf("%s/train-{000000..%06d}.tar", srv.URL, len(files)/2-1), options(t))
		if got := s.Classes(); !slices.Equal(got, names) {
			t.Errorf("%q, want %q", got, names)
		}
		asked[i] = srv.requests.Load()
		if s.Stats().Fetched != 0 {
			t.Errorf("%d blocks were fetched", s.Stats().Fetched)
		}
	}
	if asked[0] != asked[1] {
		t.Errorf("%d requests with names, %d without", asked[1], asked[0])
	}
}

// TestClassesOfOthers: names are given where they are those of all labels, and
// else not; they never keep a shard from being read.
func TestClassesOfOthers(t *testing.T) {
	named := func(content string) []entry {
		return append([]entry{{name: "./" + labels.ClassesMember, content: content}}, numbered(0, 3)...)
	}
	three := `["a", "b", "c"]`
	for what, c := range map[string]struct {
		shards [][]entry
		opts   Options
		want   []string
	}{
		"of GNU tar":        {[][]entry{named(three)}, Options{}, []string{"a", "b", "c"}},
		"in two":            {[][]entry{named(three), named(three)}, Options{}, []string{"a", "b", "c"}},
		"not in all":        {[][]entry{named(three), numbered(3, 3)}, Options{}, nil},
		"other ones":        {[][]entry{named(three), named(`["a","b","d"]`)}, Options{}, nil},
		"too few":           {[][]entry{named(`["a", "b"]`)}, Options{}, nil},
		"none":              {[][]entry{named(`[]`)}, Options{}, nil},
		"empty":             {[][]entry{named(``)}, Options{}, nil},
		"another kind":      {[][]entry{named(`{"a": 1}`)}, Options{}, nil},
		"numbers":           {[][]entry{named(`["a", 1, "c"]`)}, Options{}, nil},
		"no JSON":           {[][]entry{named("a\nb\nc\n")}, Options{}, nil},
		"null":              {[][]entry{named("null")}, Options{}, nil},
		"too many bytes":    {[][]entry{named(`["` + strings.Repeat("x", labels.MaxClassesBytes) + `","b","c"]`)}, Options{}, nil},
		"of another member": {[][]entry{named(three)}, Options{Label: "jpg2"}, nil},
		"of a field":        {[][]entry{named(three)}, Options{Label: "cls2", LabelField: "x"}, nil},
	} {
		dir := t.TempDir()
		for i, list := range c.shards {
			write(t, filepath.Join(dir, fmt.Sprintf("%d.tar", i)), pack(t, list...))
		}
		c.opts.NoCache = true
		s := open(t, dir, c.opts)
		if got := s.Classes(); !slices.Equal(got, c.want) || s.Len() != 3*len(c.shards) {
			t.Errorf("%s: %q of %d samples, want %q", what, got, s.Len(), c.want)
		}
	}
}

// TestClassesOfManyShards: names take the memory of one shard, also where each
// shard has other ones.
func TestClassesOfManyShards(t *testing.T) {
	const shards, size = 24, 1 << 20
	for _, differ := range []bool{false, true} {
		dir := t.TempDir()
		for i := range shards {
			last := "c"
			if differ {
				last = fmt.Sprint("c", i)
			}
			names := fmt.Sprintf(`["%s", "b", "%s"]`, strings.Repeat("x", size), last)
			list := append([]entry{{name: labels.ClassesMember, content: names}}, numbered(3*i, 3)...)
			write(t, filepath.Join(dir, fmt.Sprintf("%02d.tar", i)), pack(t, list...))
		}
		before := heap()
		s := open(t, dir, Options{NoCache: true})
		if more := heap() - before; more > 4*size {
			t.Errorf("%d shards with %d bytes of names, which differ %t: %d bytes of memory", shards, size, differ, more)
		}
		if (s.Classes() == nil) != differ {
			t.Errorf("%d names that differ %t", len(s.Classes()), differ)
		}
		if !differ {
			if s.Classes()[1] = "changed"; s.Classes()[1] != "b" {
				t.Error("the result is not the caller's")
			}
		}
		runtime.KeepAlive(s)
	}
}

// heap is the memory that is in use.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestClassesOfWriter: WebDataset passes over the member, in old versions by
// the first rule and in new ones by the second. Names that are too long are
// refused.
func TestClassesOfWriter(t *testing.T) {
	if strings.Contains(labels.ClassesMember, "/") || !strings.HasPrefix(labels.ClassesMember, "__") || !strings.HasSuffix(labels.ClassesMember, "__") ||
		!regexp.MustCompile(`^__[^/]*__($|/)`).MatchString(labels.ClassesMember) {
		t.Errorf("%s would be a sample", labels.ClassesMember)
	}
	dir := filepath.Join(t.TempDir(), "x")
	for _, c := range []struct {
		names []string
		size  int64
		err   error
		text  string
	}{
		{[]string{strings.Repeat("x", labels.MaxClassesBytes)}, 1 << 30, ErrTooLarge, "the limit is 16777216"},
		{[]string{strings.Repeat("x", 600)}, 1000, ErrArgument, "604 bytes of each shard, which may have 1000"},
	} {
		_, err := NewWriter(dir, WriterOptions{ShardBytes: c.size, Classes: c.names})
		if !errors.Is(err, c.err) || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%v, want %q", err, c.text)
		}
	}
	if entries, _ := os.ReadDir(filepath.Dir(dir)); len(entries) > 0 {
		t.Errorf("left are %v", entries)
	}
}

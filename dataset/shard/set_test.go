package shard

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/internal/testkit"
)

func TestFiles(t *testing.T) {
	dir, want := writeShards(t, 5, 40)
	opts := options(t)
	for range 2 { // without an index, and with it
		s := open(t, dir, opts)
		check(t, s, want)
		if !slices.Equal(s.Shards(), []int{40, 40, 40, 40, 40}) || s.Skipped() != 0 {
			t.Errorf("shards %v, %d skipped", s.Shards(), s.Skipped())
		}
		for _, i := range []int{0, 39, 40, 199} {
			if name := fmt.Sprintf("train-%03d.tar/c%d/%05d", i/40, i%3, i); s.Name(i) != filepath.Join(dir, name) || s.Label(i) != int32(i%3) {
				t.Errorf("sample %d is %s with label %d", i, s.Name(i), s.Label(i))
			}
		}
		if e := s.Extensions(7); !slices.Equal(e, []string{"jpg", "cls"}) {
			t.Errorf("extensions %q", e)
		}
		if content, err := s.Read(t.Context(), 7, "CLS", nil); string(content) != "1\n" {
			t.Errorf("%q, %v", content, err)
		}
	}
	indexes, err := filepath.Glob(filepath.Join(opts.Cache, "*"+IndexSuffix))
	if err != nil || len(indexes) != 5 {
		t.Errorf("%d indexes in the cache: %v", len(indexes), err)
	}
	// A damaged index is made again.
	for _, path := range indexes {
		write(t, path, []byte(indexMagic+strings.Repeat("x", 100)))
	}
	check(t, open(t, dir, opts), want)
}

func TestView(t *testing.T) {
	shard := pack(t,
		entry{name: "1.json", content: `{"id":5}`}, entry{name: "1.png", content: "p1"}, entry{name: "1.jpg", content: "j1"},
		entry{name: "2.json", content: `{"id":6}`},
		entry{name: "3.webp", content: "w3"}, entry{name: "3.json", content: `{"id":7}`})
	path := write(t, filepath.Join(t.TempDir(), "x.tar"), shard)
	opts := options(t)
	opts.LabelField = "id"
	s := open(t, path, opts)
	v, err := s.View("jpg", "webp", "png")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i := range v.Len() {
		content, err := v.Read(t.Context(), i, nil)
		got = append(got, fmt.Sprintf("%s %s %d %d %v", filepath.Base(v.Name(i)), content, v.Label(i), v.Size(i), err))
	}
	if want := []string{"1.jpg j1 5 2 <nil>", "3.webp w3 7 2 <nil>"}; !slices.Equal(got, want) || !slices.Equal(v.Shards(), []int{2}) {
		t.Errorf("%q, shards %v", got, v.Shards())
	}
	if _, err := s.View("gif"); !errors.Is(err, ErrEmpty) || !strings.Contains(err.Error(), "none of 3 samples has a member with extension gif; the first has json, png, jpg") {
		t.Error(err)
	}
	// Another source of labels is another index.
	opts.LabelField = ""
	if l := open(t, path, opts).Label(0); l != -1 {
		t.Errorf("label %d", l)
	}
}

// TestManyExtensions: of a sample with very many members an error shows some.
func TestManyExtensions(t *testing.T) {
	var list []entry
	for i := range 2000 {
		list = append(list, entry{name: fmt.Sprintf("1.%04d", i)})
	}
	s := open(t, write(t, filepath.Join(t.TempDir(), "x.tar"), pack(t, list...)), options(t))
	_, err := s.View("jpg")
	_, err2 := s.Read(t.Context(), 0, "jpg", nil)
	for _, err := range []error{err, err2} {
		if err == nil || !strings.Contains(err.Error(), "0014, 0015, and 1984 more") || strings.Contains(err.Error(), "0016") {
			t.Error(err)
		}
	}
}

func TestReadErrors(t *testing.T) {
	dir, _ := writeShards(t, 1, 5)
	opts := options(t)
	opts.MaxMemberBytes = 1
	s := open(t, dir, opts)
	v, err := s.View("jpg")
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range []int{-1, 5} {
		if _, err := s.Read(t.Context(), i, "jpg", nil); !errors.Is(err, ErrArgument) {
			t.Errorf("sample %d: %v", i, err)
		}
		if _, err := v.Read(t.Context(), i, nil); !errors.Is(err, ErrArgument) {
			t.Errorf("sample %d: %v", i, err)
		}
	}
	if _, err := s.Read(t.Context(), 1, "gif", nil); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), `extension "gif", but jpg, cls`) {
		t.Error(err)
	}
	if _, err := s.Read(t.Context(), 1, "jpg", nil); !errors.Is(err, ErrTooLarge) || !strings.Contains(err.Error(), "the limit is 1") {
		t.Error(err)
	}
	s.Close()
	if _, err := s.Read(t.Context(), 1, "cls", nil); !errors.Is(err, fs.ErrClosed) {
		t.Error(err)
	}
}

// TestFileChanges: another shard in its place is an error, with or without a
// new time.
func TestFileChanges(t *testing.T) {
	dir, want := writeShards(t, 1, 5)
	path := filepath.Join(dir, "train-000.tar")
	old, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		change func() error
		text   string
	}{
		{"replaced", func() error { return os.WriteFile(path, pack(t, numbered(7, 9)...), 0o644) }, "it changed while it was read"},
		{"cut", func() error { return os.Truncate(path, old.Size()-9000) }, "changed while it was read"},
		{"rewritten within its time", func() error {
			shard := pack(t, want...)
			shard = append(shard, make([]byte, max(0, int(old.Size())-len(shard)))...)[:old.Size()]
			return errors.Join(os.WriteFile(path, shard, 0o644), os.Chtimes(path, old.ModTime(), old.ModTime()))
		}, "not the one that was indexed"},
		{"removed", func() error { return os.Remove(path) }, path},
	} {
		s := open(t, dir, options(t))
		s.files.close() // reads open it again
		s.files = newFiles()
		s.shards[0].place.(*file).files = s.files
		if err := c.change(); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Read(t.Context(), 4, "jpg", nil); err == nil || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v", c.name, err)
		}
		list := numbered(0, 5)
		write(t, path, pack(t, list...))
		if err := os.Chtimes(path, old.ModTime(), old.ModTime()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestBadShard: a shard that cannot be read is a sample that fails, beside others.
func TestBadShard(t *testing.T) {
	dir, want := writeShards(t, 4, 5)
	at := func(i int) string { return filepath.Join(dir, fmt.Sprintf("train-%03d.tar", i)) }
	testkit.OK(t, os.Truncate(at(1), 1000))
	write(t, at(2), []byte("no tar"))
	testkit.OK(t, os.Remove(at(3)))
	if err := os.Symlink("nowhere", at(3)); err != nil {
		t.Skip(err)
	}
	s := open(t, dir, options(t))
	v, err := s.View("png", "jpg")
	if err != nil || s.Len() != 8 || v.Len() != 8 || !slices.Equal(v.Shards(), []int{5, 1, 1, 1}) {
		t.Fatalf("%v; %d samples, of shards %v", err, s.Len(), v.Shards())
	}
	for i := range 5 {
		if content, err := v.Read(t.Context(), i, nil); err != nil || string(content) != want[i].content {
			t.Errorf("sample %d: %v", i, err)
		}
	}
	for i, kind := range []error{ErrDamaged, ErrFormat, fs.ErrNotExist} {
		n := 5 + i
		_, err := v.Read(t.Context(), n, nil)
		_, again := s.Read(t.Context(), n, "jpg", nil)
		if !errors.Is(err, kind) || !errors.Is(again, kind) || strings.Count(err.Error(), at(1+i)) != 1 {
			t.Errorf("%v, %v, want %v", err, again, kind)
		}
		if v.Name(n) != at(1+i) || s.Name(n) != at(1+i) || v.Label(n) != -1 || v.Size(n) >= 0 || len(s.Extensions(n)) > 0 {
			t.Errorf("sample %d: %s, label %d, %d bytes, %q", n, v.Name(n), v.Label(n), v.Size(n), s.Extensions(n))
		}
	}
	if w := s.Warnings(); len(w) != 1 || !strings.Contains(w[0], "3 of 4 shards cannot be read") || !strings.Contains(w[0], at(1)) {
		t.Errorf("%q", w)
	}
	if _, err := s.View("gif"); !errors.Is(err, ErrEmpty) || !strings.Contains(err.Error(), "none of 5 samples") {
		t.Error(err)
	}
	// One that a pattern names and that is not there is a mistake in the pattern.
	if _, err := Open(t.Context(), filepath.Join(dir, "train-{000..004}.tar"), options(t)); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// TestFileShrinksWhileOpen: what is open is not looked at again, but read in
// full or not at all.
func TestFileShrinksWhileOpen(t *testing.T) {
	dir, _ := writeShards(t, 1, 5)
	s := open(t, dir, Options{NoCache: true}) // made of headers: the shard is open
	if err := os.Truncate(filepath.Join(dir, "train-000.tar"), 1024); err != nil {
		t.Skip(err)
	}
	if _, err := s.Read(t.Context(), 4, "jpg", nil); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "has shrunk") {
		t.Error(err)
	}
}

// TestIndexBeside: it is used if it is that of the shard.
func TestIndexBeside(t *testing.T) {
	dir, want := writeShards(t, 1, 5)
	path := filepath.Join(dir, "train-000.tar")
	shard, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	x, err := scanned(t, shard, cls)
	if err != nil {
		t.Fatal(err)
	}
	x.samples[2].label = 77
	beside := write(t, path+IndexSuffix, x.encode(cls.String()))
	s := open(t, dir, options(t))
	if check(t, s, want); s.Label(2) != 77 {
		t.Error("the index beside the shard is not used")
	}
	x.size++
	for name, content := range map[string][]byte{"of another size": x.encode(cls.String()), "nonsense": []byte("nonsense"), "huge": make([]byte, len(shard)+1)} {
		write(t, beside, content)
		s := open(t, dir, options(t))
		if check(t, s, want); s.Label(2) != 2 {
			t.Errorf("an index %s is used", name)
		}
	}
	// One of another shard of that size.
	x.size--
	x.members[4].check++
	write(t, beside, x.encode(cls.String()))
	if _, err := open(t, dir, options(t)).Read(t.Context(), 2, "jpg", nil); !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "its index is old") {
		t.Error(err)
	}
}

// TestIndexBesideIsOlder: of a shard that was replaced by one with the same names
// and sizes and other labels.
func TestIndexBesideIsOlder(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "train-000.tar")
	members := func(label string) []byte {
		return pack(t, entry{name: "a.jpg", content: "x"}, entry{name: "a.cls", content: label})
	}
	x, err := scanned(t, members("1"), cls)
	if err != nil {
		t.Fatal(err)
	}
	beside := write(t, path+IndexSuffix, x.encode(cls.String()))
	write(t, path, members("2"))
	now := time.Now()
	if err := errors.Join(os.Chtimes(beside, now, now.Add(-time.Hour)), os.Chtimes(path, now, now)); err != nil {
		t.Fatal(err)
	}
	if s := open(t, dir, options(t)); s.Label(0) != 2 {
		t.Errorf("label %d, the shard says 2", s.Label(0))
	}
}

// TestManyShards: more than stay open, read by several at once.
func TestManyShards(t *testing.T) {
	dir, want := writeShards(t, maxOpenFiles+50, 2)
	s := open(t, dir, options(t))
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() { check(t, s, want) })
	}
	readers.Wait()
	s.files.mu.Lock()
	defer s.files.mu.Unlock()
	if n := len(s.files.open); n > maxOpenFiles {
		t.Errorf("%d shards are open", n)
	}
	for f, o := range s.files.open {
		if o.users != 0 {
			t.Errorf("%s is still in use", f.path)
		}
	}
}

// TestFirstErrorInOrder names the first shard that cannot be read.
func TestFirstErrorInOrder(t *testing.T) {
	dir, _ := writeShards(t, 3, 2)
	for i := range 3 {
		write(t, filepath.Join(dir, fmt.Sprintf("train-%03d.tar", i)), bytes.Repeat([]byte("x"), 2000))
	}
	if _, err := Open(t.Context(), dir, options(t)); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "train-000.tar: ") {
		t.Error(err)
	}
	if _, err := Open(t.Context(), filepath.Join(dir, "train-{000..005}.tar"), options(t)); err == nil {
		t.Error("missing shards")
	}
	link := filepath.Join(t.TempDir(), "pipe.tar")
	if err := os.Symlink(os.DevNull, link); err == nil {
		if _, err := Open(t.Context(), link, options(t)); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "not a regular file") {
			t.Error(err)
		}
	}
}

func BenchmarkRead(b *testing.B) {
	content := strings.Repeat("x", 110<<10)
	var list []entry
	for i := range 200 {
		list = append(list, entry{name: fmt.Sprintf("%05d.jpg", i), content: content}, entry{name: fmt.Sprintf("%05d.cls", i), content: "1"})
	}
	shard := pack(b, list...)
	path := write(b, filepath.Join(b.TempDir(), "x.tar"), shard)
	s, err := Open(b.Context(), path, Options{NoCache: true})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	b.Run("file", func(b *testing.B) { readAll(b, s) })
	srv := newServer(b, map[string][]byte{"x.tar": shard})
	remote, err := Open(b.Context(), srv.URL+"/x.tar", Options{Cache: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	defer remote.Close()
	remote.blocks.work.Wait()
	remote.blocks.memory = nil
	b.Run("cache", func(b *testing.B) { readAll(b, remote) })
}

func readAll(b *testing.B, s *Set) {
	b.SetBytes(110 << 10)
	b.ReportAllocs()
	var buf []byte
	var err error
	for i := 0; b.Loop(); i++ {
		if buf, err = s.Read(b.Context(), i*7%s.Len(), "jpg", buf[:0]); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkScan reports the time of one member of an index.
func BenchmarkScan(b *testing.B) {
	list := numbered(0, 5000)
	shard := pack(b, list...)
	path := write(b, filepath.Join(b.TempDir(), "x.tar"), shard)
	start := time.Now()
	n := 0
	for b.Loop() {
		s, err := Open(b.Context(), path, Options{NoCache: true})
		if err != nil {
			b.Fatal(err)
		}
		n += len(s.shards[0].index.members)
		s.Close()
	}
	b.ReportMetric(float64(time.Since(start).Nanoseconds())/float64(n), "ns/member")
}

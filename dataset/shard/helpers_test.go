package shard

import (
	"archive/tar"
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/internal/testkit"
)

// TestMain keeps tests away from the user's cache.
func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "shard-test")
	if err != nil {
		panic(err)
	}
	os.Setenv("XDG_CACHE_HOME", dir)
	os.Setenv("HOME", dir)
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// entry is a member of a tar that a test makes.
type entry struct {
	name, content string
	header        tar.Header // the rest
}

// pack makes a tar.
func pack(t testing.TB, entries ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		h := e.header
		if h.Name = e.name; h.Typeflag != tar.TypeXGlobalHeader {
			h.Mode = 0o644
		}
		if h.Typeflag == 0 {
			h.Typeflag = tar.TypeReg
			h.Size = int64(len(e.content))
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(e.content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// numbered makes samples of a picture and a label each, from number first on.
func numbered(first, n int) (list []entry) {
	rng := rand.New(rand.NewPCG(uint64(first), 1))
	for i := first; i < first+n; i++ {
		content := make([]byte, rng.IntN(3000))
		for j := range content {
			content[j] = byte(rng.Uint32())
		}
		list = append(list,
			entry{name: fmt.Sprintf("c%d/%05d.jpg", i%3, i), content: string(content)},
			entry{name: fmt.Sprintf("c%d/%05d.cls", i%3, i), content: fmt.Sprintln(i % 3)})
	}
	return list
}

// options are for tests of servers: no long pauses, small blocks.
func options(t testing.TB) Options {
	return Options{Cache: t.TempDir(), blockBytes: 4096, firstPause: time.Millisecond, Timeout: testkit.Hang}
}

func write(t testing.TB, path string, content []byte) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, content, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// writeShards writes n shards of each samples and returns their folder and the
// pictures in order.
func writeShards(t testing.TB, n, each int) (dir string, want []entry) {
	t.Helper()
	dir = t.TempDir()
	for s := range n {
		list := numbered(s*each, each)
		write(t, filepath.Join(dir, fmt.Sprintf("train-%03d.tar", s)), pack(t, list...))
		for i := 0; i < len(list); i += 2 {
			want = append(want, list[i])
		}
	}
	return dir, want
}

func open(t testing.TB, location string, opts Options) *Set {
	t.Helper()
	s, err := Open(t.Context(), location, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// check reads all pictures in a random order.
func check(t testing.TB, s *Set, want []entry) {
	t.Helper()
	v, err := s.View("png", "jpg")
	if err != nil {
		t.Fatal(err)
	}
	if v.Len() != len(want) || s.Len() != len(want) {
		t.Fatalf("%d samples, %d with a picture, want %d", s.Len(), v.Len(), len(want))
	}
	var buf []byte
	for _, i := range rand.New(rand.NewPCG(1, 2)).Perm(len(want)) {
		if buf, err = v.Read(t.Context(), i, buf[:0]); err != nil {
			t.Fatal(err)
		}
		if string(buf) != want[i].content {
			t.Fatalf("%s: other bytes than %s", v.Name(i), want[i].name)
		}
	}
}

package stream_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dataset/internal/datatest"
	"github.com/pinion-gpu/pinion/dataset/stream"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

// packed is a tar of members, name and content in turns.
func packed(t testing.TB, members ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for i := 0; i < len(members); i += 2 {
		testkit.OK(t, w.WriteHeader(&tar.Header{Name: members[i], Size: int64(len(members[i+1])), Mode: 0o644}))
		testkit.Must(io.WriteString(w, members[i+1]))(t)
	}
	testkit.OK(t, w.Close())
	return b.Bytes()
}

func gzipped(t testing.TB, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	testkit.Must(w.Write(data))(t)
	testkit.OK(t, w.Close())
	return b.Bytes()
}

func zstandard(t testing.TB, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := testkit.Must(zstd.NewWriter(&b))(t)
	testkit.Must(w.Write(data))(t)
	testkit.OK(t, w.Close())
	return b.Bytes()
}

// of is a stream of bytes.
func of(data []byte, opts stream.Options) *stream.Stream {
	return stream.NewReader("x.tar", func(context.Context) (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(data)), nil
	}, opts)
}

// list is the records of a stream as text, and what ended it.
func list(t testing.TB, s *stream.Stream, from int64) (text string, err error) {
	t.Helper()
	for r, err := range s.Records(t.Context(), stream.Position{Records: from}) {
		if err != nil {
			return text, err
		}
		text += fmt.Sprintf("%s(%d)", r.Name, r.Label)
		for _, m := range r.Members {
			text += fmt.Sprintf(" %s=%s", m.Extension, m.Content)
		}
		text += "; "
	}
	return text, nil
}

func TestTar(t *testing.T) {
	plain := packed(t, "a/1.jpg", "one", "a/1.cls", "7", "readme", "none", "a/2.seg.png", "", "./a/2.jpg", "two", "__meta__.json", "{}", "b.cls", "-1")
	want := []string{"x.tar[a/1](7) jpg=one cls=7; ", "x.tar[a/2](-1) seg.png= jpg=two; ", "x.tar[b](-1) cls=-1; "}
	for name, file := range map[string][]byte{
		"plain": plain, "gzip": gzipped(t, plain), "Zstandard": zstandard(t, plain),
		"gzip in two parts": append(gzipped(t, plain[:1000]), gzipped(t, plain[1000:])...),
		"filled up":         append(bytes.Clone(plain), make([]byte, 10240)...),
	} {
		for from := range int64(5) {
			got, err := list(t, of(file, stream.Options{}), from)
			if err != nil || got != strings.Join(want[min(int(from), 3):], "") {
				t.Errorf("%s from %d: %q, %v", name, from, got, err)
			}
		}
	}
	got, err := list(t, of(packed(t, "1.json", `{"a":{"b":5}}`), stream.Options{LabelField: "a.b"}), 0)
	if err != nil || got != `x.tar[1](5) json={"a":{"b":5}}; ` {
		t.Errorf("%q, %v", got, err)
	}
}

func TestBadTar(t *testing.T) {
	good := packed(t, "1.jpg", strings.Repeat("x", 600), "1.cls", "1")
	compressed := gzipped(t, good)
	flipped := bytes.Clone(compressed)
	flipped[len(flipped)-5] ^= 1 // of the checksum
	for _, c := range []struct {
		name string
		file []byte
		err  error
		says string
	}{
		{"nothing", nil, dataset.ErrDamaged, "it is empty"},
		{"a short array", []byte("\x93NUMPY\x01"), dataset.ErrFormat, `not a tar: it begins with "\x93NUMPY\x01"`},
		{"text", []byte(strings.Repeat("hello ", 200)), dataset.ErrFormat, "not a tar"},
		{"cut in a member", good[:800], dataset.ErrDamaged, "the member \"1.jpg\": it is cut short"},
		{"cut between members", good[:1536], dataset.ErrDamaged, "without an end mark"},
		{"cut in gzip", compressed[:len(compressed)-20], dataset.ErrDamaged, "gzip"},
		{"a bit of gzip", flipped, dataset.ErrDamaged, "gzip: "},
		{"appended", append(bytes.Clone(good), good...), dataset.ErrDamaged, "something else follows"},
		{"bzip2", []byte("BZh91AY&SY"), dataset.ErrFormat, "with bzip2 -dc"},
		{"a label of text", packed(t, "1.cls", "dog"), dataset.ErrFormat, "x.tar[1]: format not supported: the label is the text \"dog\": a stream does not know the classes before its end"},
		{"the classes too late", packed(t, "1.cls", "dog", "__classes__", `["dog"]`), dataset.ErrFormat, "__classes__"},
		{"none of the classes", packed(t, "__classes__", `["cat","fox"]`, "1.cls", "dog"), dataset.ErrFormat, `"dog" is none of the 2 classes`},
		{"no classes", packed(t, "__classes__", `{}`, "1.cls", "dog"), dataset.ErrFormat, "text"},
		{"out of the archive", packed(t, "../1.cls", "1"), dataset.ErrFormat, "leads out"},
		{"cut zstd", zstandard(t, good)[:30], dataset.ErrDamaged, "Zstandard"},
	} {
		_, err := list(t, of(c.file, stream.Options{}), 0)
		testkit.WantError(t, c.name, err, c.err, c.says, "x.tar")
	}
}

// TestTextLabels: texts are looked up in the classes at the beginning, from
// whatever position the stream is read; numbers are classes as they are.
func TestTextLabels(t *testing.T) {
	file := packed(t, "__classes__", `["zebra","dog","cat","dog"]`, "1.cls", " cat\n", "2.cls", "dog", "3.cls", "7", "4.cls", "")
	want := []string{"x.tar[1](2) cls= cat\n; ", "x.tar[2](1) cls=dog; ", "x.tar[3](7) cls=7; ", "x.tar[4](-1) cls=; "}
	for from := range int64(5) {
		got, err := list(t, of(file, stream.Options{}), from)
		if err != nil || got != strings.Join(want[from:], "") {
			t.Errorf("from %d: %q, %v", from, got, err)
		}
	}
	file = packed(t, "__classes__", `["x","y","z"]`, "a.json", `{"kind":"no class"}`, "a.kind", "x", "b.kind", "y", "b.json", `{"kind":"no class"}`, "c.json", `{"kind":"z"}`, "d.jpg", "")
	got := labels(t, of(file, stream.Options{Label: "kind"}), stream.Position{})
	if !slices.Equal(got, []int32{0, 1, 2, -1}) {
		t.Errorf("labels %v", got)
	}
	_, err := list(t, of(packed(t, "a.json", `{}`, "b.kind", "1"), stream.Options{Label: "kind"}), 0)
	testkit.WantError(t, "no label", err, dataset.ErrFormat, "x.tar[a]", `no field "kind"`, `has no member "kind"`)
}

// TestBombs: what a small file unpacks to is bounded before it is unpacked.
func TestBombs(t *testing.T) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	testkit.OK(t, w.WriteHeader(&tar.Header{Name: "1.jpg", Size: 1 << 40, Mode: 0o644}))
	_, err := list(t, of(gzipped(t, b.Bytes()), stream.Options{}), 0)
	testkit.WantError(t, "a member of 1 TiB", err, dataset.ErrTooLarge, "x.tar[1]", "the limit is 268435456")
	_, err = list(t, of(packed(t, "1.a", "1234", "1.b", "1234"), stream.Options{MaxRecordBytes: 7}), 0)
	testkit.WantError(t, "many members", err, dataset.ErrTooLarge, "the limit is 7")
	zeros := testkit.Must(zstd.NewWriter(&b, zstd.WithWindowSize(512<<20)))(t)
	b.Reset()
	testkit.Must(zeros.Write(packed(t, "1.jpg", strings.Repeat("x", 4<<20))))(t)
	testkit.OK(t, zeros.Close())
	if _, err := list(t, of(b.Bytes(), stream.Options{}), 0); err == nil || !errors.Is(err, dataset.ErrTooLarge) {
		t.Errorf("a window of 512 MiB: %v, want %v", err, dataset.ErrTooLarge)
	}
	_, err = list(t, of(gzipped(t, append(packed(t, "1.cls", "1"), make([]byte, 64<<20)...)), stream.Options{}), 0)
	testkit.WantError(t, "zeros without end", err, dataset.ErrDamaged, "something else follows")
}

func TestOpen(t *testing.T) {
	dir := t.TempDir()
	path := testkit.WriteFile(t, gzipped(t, packed(t, "1.cls", "5")), dir, "x.tgz")
	s := testkit.Must(stream.Open(path, stream.Options{}))(t)
	for range 2 { // a file can be read again
		if got, err := list(t, s, 0); err != nil || got != path+"[1](5) cls=5; " {
			t.Errorf("%q, %v", got, err)
		}
	}
	_, err := stream.Open(filepath.Join(dir, "missing"), stream.Options{})
	testkit.WantError(t, "missing", err, os.ErrNotExist)
	_, err = stream.Open(dir, stream.Options{})
	testkit.WantError(t, "a folder", err, dataset.ErrFormat)
}

// TestWaitEndsWithContext: a pipe in which nothing comes does not hold up who
// has enough.
func TestWaitEndsWithContext(t *testing.T) {
	testkit.NoLeaks(t)
	r, w, err := os.Pipe()
	testkit.OK(t, err)
	defer w.Close()
	testkit.Must(w.Write(packed(t, "1.cls", "1", "2.cls", "2", "3.cls", "3")[:2048]))(t)
	ctx, cancel := context.WithCancel(t.Context())
	s := stream.NewReader("pipe", func(context.Context) (io.ReadCloser, error) { return r, nil }, stream.Options{})
	err = testkit.Within(t, "a pipe", func() (err error) {
		for r, e := range s.Records(ctx, stream.Position{}) {
			if err = e; e == nil && r.Key == "1" {
				cancel()
			}
		}
		return err
	})
	testkit.WantError(t, "pipe", err, context.Canceled)
}

// FuzzTar: whatever comes, records that fit the bytes or an error of a known
// kind, and the same again from any position. Tars are compressed by the test, so
// that the fuzzer gets behind the checksums, or else come as they are.
func FuzzTar(f *testing.F) {
	plain := packed(f, "1.jpg", "one", "1.cls", "1", "2.cls", "2")
	for method := range byte(3) {
		f.Add(datatest.SqueezeTar(plain), method, uint16(method))
		f.Add(datatest.SqueezeTar(plain[:1500]), method, uint16(1))
	}
	f.Add(gzipped(f, plain), byte(3), uint16(1))
	f.Add(zstandard(f, plain), byte(3), uint16(2))
	f.Fuzz(func(t *testing.T, file []byte, method byte, from uint16) {
		if method %= 4; method < 3 {
			file = datatest.StretchTar(file)
		}
		switch method {
		case 1:
			file = gzipped(t, file)
		case 2:
			file = zstandard(t, file)
		}
		const limit = 1 << 20
		s := of(file, stream.Options{MaxRecordBytes: limit})
		var keys []string
		failed := false
		for r, err := range s.Records(t.Context(), stream.Position{}) {
			if err != nil {
				failed = true
				if !errors.Is(err, dataset.ErrFormat) && !errors.Is(err, dataset.ErrDamaged) && !errors.Is(err, dataset.ErrTooLarge) {
					t.Fatalf("unknown kind of error: %v", err)
				}
				break
			}
			size := 0
			for _, m := range r.Members {
				size += len(m.Content)
			}
			if size > limit {
				t.Fatalf("a record of %d bytes", size)
			}
			if keys = append(keys, r.Key); len(keys) > 10000 {
				return
			}
		}
		if failed {
			return
		}
		k := int(from) % (len(keys) + 1)
		for r, err := range s.Records(t.Context(), stream.Position{Records: int64(k)}) {
			if err != nil || k == len(keys) || r.Key != keys[k] {
				t.Fatalf("record %d from there on: %v, %v", k, r, err)
			}
			k++
		}
		if k != len(keys) {
			t.Fatalf("%d records from there on, want %d", k, len(keys))
		}
	})
}

// TestManyRecords compares a large tar with what was put in, by all sizes.
func TestManyRecords(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	var members []string
	want := ""
	for i := range 300 {
		content := strings.Repeat("\x00", rng.IntN(3)*512) + strings.Repeat("x", rng.IntN(700))
		members = append(members, fmt.Sprintf("%03d.bin", i), content)
		want += fmt.Sprintf("x.tar[%03d](-1) bin=%s; ", i, content)
	}
	got, err := list(t, of(zstandard(t, packed(t, members...)), stream.Options{}), 0)
	if err != nil || got != want {
		t.Errorf("other records: %v", err)
	}
}

package directio_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/pinion-gpu/pinion/internal/directio"
	"github.com/pinion-gpu/pinion/internal/pagemem"
)

func Example() {
	file, err := os.CreateTemp("", "example-*")
	if err != nil {
		log.Fatal(err)
	}
	defer os.Remove(file.Name())
	defer file.Close()
	if _, err := file.WriteString("some words in a file"); err != nil {
		log.Fatal(err)
	}

	f, err := directio.Open(file, directio.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	slot, err := pagemem.Map(1 << 16)
	if err != nil {
		log.Fatal(err)
	}
	defer pagemem.Unmap(slot)
	piece, err := f.Read(slot, 5, 5)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s", piece)
	// Output: words
}

func pages(t *testing.T, n int64) []byte {
	t.Helper()
	b, err := pagemem.Map(n)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = pagemem.Unmap(b) })
	return b
}

func newFile(t *testing.T, data []byte) *os.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	return file
}

func random(n int, seed byte) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{seed}).Read(b)
	return b
}

func open(t *testing.T, file *os.File, o directio.Options) *directio.File {
	t.Helper()
	f, err := directio.Open(file, o)
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

var paths = map[string]directio.Path{"auto": directio.Auto, "cached": directio.Cached, "direct": directio.Direct}

// Several goroutines read any pieces of a file, parts of which are in the
// cache, into memory that suits direct reads or does not.
func TestRead(t *testing.T) {
	const n = 1<<20 + 777
	want := random(n, 1)
	for name, path := range paths {
		t.Run(name, func(t *testing.T) {
			file := newFile(t, want)
			evict(t, file, 0, n)
			f := open(t, file, directio.Options{Path: path})
			var all sync.WaitGroup
			for worker := range 3 {
				buf := pages(t, 128<<10)
				all.Go(func() {
					r := rand.New(rand.NewPCG(uint64(worker), 2))
					for round := range 60 {
						if round%10 == 9 {
							at := r.Int64N(n)
							evict(t, file, at, n-at)
						}
						b := buf[r.IntN(3)*r.IntN(5000):]
						offset := r.Int64N(n)
						size := min(1+r.Int64N(int64(len(b))), n-offset)
						got, err := f.Read(b, offset, size)
						if err != nil {
							t.Error(err)
							return
						}
						if !bytes.Equal(got, want[offset:offset+size]) {
							t.Errorf("%d bytes at %d: wrong content", size, offset)
							return
						}
					}
				})
			}
			all.Wait()
		})
	}
}

// The end of the file is an error with the numbers, by every path.
func TestReadBehindEnd(t *testing.T) {
	const n = 100_000
	buf := pages(t, 64<<10)
	for name, path := range paths {
		for _, cold := range []bool{false, true} {
			t.Run(fmt.Sprint(name, cold), func(t *testing.T) {
				file := newFile(t, random(n, 1))
				f := open(t, file, directio.Options{Path: path})
				for _, offset := range []int64{n - 1, n, n + 5000, 98304} {
					if cold {
						evict(t, file, 0, n)
					}
					_, err := f.Read(buf, offset, 8192)
					if !errors.Is(err, io.ErrUnexpectedEOF) || !strings.Contains(err.Error(), "8192") {
						t.Errorf("8192 bytes at %d of %d: %v", offset, n, err)
					}
				}
				if _, err := f.Read(buf, -1, 10); err == nil {
					t.Error("a negative offset is accepted")
				}
				if _, err := f.Read(buf, 0, int64(len(buf))+1); err == nil {
					t.Error("more than there is room for is accepted")
				}
			})
		}
	}
}

// Pieces are written where they belong, and nothing beside them.
func TestWrite(t *testing.T) {
	const n = 300_000
	buf := pages(t, 64<<10)
	copy(buf, random(64<<10, 2))
	r := rand.New(rand.NewPCG(1, 2))
	for name, path := range paths {
		t.Run(name, func(t *testing.T) {
			want := random(n, 1)
			file := newFile(t, want)
			f := open(t, file, directio.Options{Path: path, Write: true})
			for round := range 40 {
				offset, from := r.Int64N(n), r.IntN(9000)
				if round%2 == 0 {
					offset, from = offset&^4095, from&^4095
				}
				b := buf[from:][:r.Int64N(min(50_000, n-offset)+1)]
				if err := f.Write(b, offset); err != nil {
					t.Fatal(err)
				}
				copy(want[offset:], b)
			}
			got, err := os.ReadFile(file.Name())
			if err != nil || !bytes.Equal(got, want) {
				t.Fatalf("wrong content, %v", err)
			}
			cached, direct := f.Counts()
			if path == directio.Direct && direct == 0 || path != directio.Direct && direct > 0 || cached == 0 {
				t.Errorf("%d bytes through the cache and %d past it", cached, direct)
			}
		})
	}
}

func TestOpenFails(t *testing.T) {
	file := newFile(t, random(100, 1))
	reading, err := os.Open(file.Name())
	if err != nil {
		t.Fatal(err)
	}
	if err := reading.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := directio.Open(reading, directio.Options{}); !errors.Is(err, os.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}

// A mapping has the bytes of the range, wherever it begins.
func TestMap(t *testing.T) {
	want := random(50_000, 1)
	file := newFile(t, want)
	for _, offset := range []int64{0, 1, 4096, 12_345} {
		b, unmap, err := directio.Map(file, offset, 30_000)
		if errors.Is(err, errors.ErrUnsupported) {
			t.Skip(err)
		}
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(b, want[offset:offset+30_000]) {
			t.Errorf("offset %d: wrong content", offset)
		}
		if err := unmap(); err != nil {
			t.Error(err)
		}
	}
	if _, _, err := directio.Map(file, 0, 0); err == nil {
		t.Error("nothing is mapped")
	}
}

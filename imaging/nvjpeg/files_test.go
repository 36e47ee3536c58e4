package nvjpeg

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/pinion-gpu/pinion/internal/samplephotos"
)

// readFile reads a JPEG of this package's testdata or of imaging's.
func readFile(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		data, err = os.ReadFile(filepath.Join("..", "testdata", name))
	}
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func photo(t testing.TB, number int) []byte {
	t.Helper()
	data, err := samplephotos.Photo(number)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func parse(t testing.TB, data []byte) JPEG {
	t.Helper()
	j, err := Parse(data)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// segmentAt finds the first segment with that marker.
func segmentAt(data []byte, marker byte) int {
	return bytes.Index(data, []byte{0xFF, marker})
}

// with returns a copy of data after change.
func with(data []byte, change func(b []byte)) []byte {
	b := slices.Clone(data)
	change(b)
	return b
}

// without returns data without its segments of that marker.
func without(data []byte, marker byte) []byte {
	for {
		at := segmentAt(data[:segmentAt(data, markSOS)], marker)
		if at < 0 {
			return data
		}
		n := 2 + int(data[at+2])<<8 + int(data[at+3])
		data = slices.Delete(slices.Clone(data), at, at+n)
	}
}

// inserted returns data with a segment behind the start marker.
func inserted(data []byte, marker byte, body string) []byte {
	n := len(body) + 2
	return slices.Concat(data[:2], []byte{0xFF, marker, byte(n >> 8), byte(n)}, []byte(body), data[2:])
}

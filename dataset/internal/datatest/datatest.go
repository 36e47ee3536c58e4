// Package datatest is what tests of datasets share.
package datatest

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

// PNG is a PNG of one grey.
func PNG(t testing.TB, gray byte) []byte {
	t.Helper()
	m := image.NewGray(image.Rect(0, 0, 12, 9))
	for i := range m.Pix {
		m.Pix[i] = gray
	}
	var buf bytes.Buffer
	if err := png.Encode(&buf, m); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// Mask is a PNG with a palette, of 8 x 8 indexes, all of them v.
func Mask(t testing.TB, v byte) []byte {
	t.Helper()
	palette := make(color.Palette, 256)
	for i := range palette {
		palette[i] = color.RGBA{byte(i * 3), 0, byte(255 - i), 255}
	}
	m := image.NewPaletted(image.Rect(0, 0, 8, 8), palette)
	for i := range m.Pix {
		m.Pix[i] = v
	}
	var b bytes.Buffer
	if err := png.Encode(&b, m); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// Folder writes files; their content is a PNG if it is nil.
func Folder(t testing.TB, files map[string][]byte) string {
	t.Helper()
	dir := t.TempDir()
	for name, data := range files {
		if data == nil {
			data = PNG(t, 7)
		}
		WriteFile(t, filepath.Join(dir, filepath.FromSlash(name)), data)
	}
	return dir
}

// WriteFile writes a file and the folders that it is in, and returns its path.
func WriteFile(t testing.TB, path string, data []byte) string {
	t.Helper()
	return testkit.WriteFile(t, data, path)
}

// Link makes a symbolic link, or skips the test where there are none.
func Link(t testing.TB, target, name string) {
	t.Helper()
	if err := os.Symlink(target, name); err != nil {
		t.Skip("no symbolic links here: ", err)
	}
}

// Listing is "name label" of every sample.
func Listing(t testing.TB, d dataset.Dataset, dir string) []string {
	t.Helper()
	var list []string
	for i := range d.Len() {
		name, err := filepath.Rel(dir, d.Name(i))
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, fmt.Sprint(filepath.ToSlash(name), " ", d.Label(i)))
	}
	return list
}

// ReadAll reads every sample, checks that wrong arguments and a closed reader
// are refused, and returns the samples and the labels.
func ReadAll(t testing.TB, d dataset.Dataset) (samples [][]byte, labels []int32) {
	t.Helper()
	r, err := d.NewReader()
	if err != nil {
		t.Fatal(err)
	}
	for i := range d.Len() {
		dst := make([]byte, dataset.SampleBytes(d, i))
		if err := r.Read(t.Context(), dataset.Visit{Index: i, Timing: new(dataset.Timing)}, dst); err != nil {
			t.Fatal(err)
		}
		samples, labels = append(samples, dst), append(labels, d.Label(i))
	}
	dst := make([]byte, dataset.SampleBytes(d, 0)+1)
	for _, i := range []int{-1, d.Len()} {
		if err := r.Read(t.Context(), dataset.Visit{Index: i}, dst); !errors.Is(err, dataset.ErrArgument) {
			t.Errorf("sample %d: %v", i, err)
		}
	}
	if err := r.Read(t.Context(), dataset.Visit{Index: 0}, dst); !errors.Is(err, dataset.ErrArgument) {
		t.Errorf("long destination: %v", err)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if err := r.Read(t.Context(), dataset.Visit{Index: 0}, dst[1:]); !errors.Is(err, fs.ErrClosed) || !strings.Contains(err.Error(), d.Name(0)) {
		t.Errorf("after Close: %v", err)
	}
	return samples, labels
}

// Samples is [ReadAll] for samples that differ in length: it checks the lengths
// too.
func Samples(t testing.TB, d dataset.Dataset) [][]byte {
	t.Helper()
	spec := d.Spec()
	if !spec.Ragged {
		t.Fatalf("%v is not ragged", spec)
	}
	longest := 0
	for i := range d.Len() {
		n := dataset.Length(d, i)
		longest = max(longest, n)
		if bytes := dataset.SampleBytes(d, i); bytes != n*spec.RowBytes() {
			t.Errorf("sample %d: %d rows in %d bytes", i, n, bytes)
		}
	}
	if longest > spec.Shape[0] {
		t.Errorf("%d rows, %v", longest, spec)
	}
	samples, _ := ReadAll(t, d)
	return samples
}

// NPY makes a .npy file as numpy.save does: the header padded to 64 bytes.
func NPY(version byte, header string, data []byte) []byte {
	lengthBytes := 2
	if version >= 2 {
		lengthBytes = 4
	}
	for (8+lengthBytes+len(header)+1)%64 != 0 {
		header += " "
	}
	header += "\n"
	file := append([]byte("\x93NUMPY"), version, 0)
	if version >= 2 {
		file = binary.LittleEndian.AppendUint32(file, uint32(len(header)))
	} else {
		file = binary.LittleEndian.AppendUint16(file, uint16(len(header)))
	}
	return append(append(file, header...), data...)
}

// NPYHeader is the text of a header.
func NPYHeader(descr string, shape ...int) string {
	s := strings.Trim(fmt.Sprint(shape), "[]")
	s = strings.ReplaceAll(s, " ", ", ")
	if len(shape) == 1 {
		s += ","
	}
	return fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", descr, s)
}

// Together calls read with n readers at once.
func Together(t testing.TB, d dataset.Dataset, n int, read func(worker int, r dataset.Reader)) {
	t.Helper()
	var workers sync.WaitGroup
	for w := range n {
		workers.Go(func() {
			r, err := d.NewReader()
			if err != nil {
				t.Error(err)
				return
			}
			defer r.Close()
			read(w, r)
		})
	}
	workers.Wait()
}

// Count is a dataset of samples of one byte: from, from+1, …, with ten times that
// as labels.
func Count(t testing.TB, from, n int) *dataset.Memory {
	t.Helper()
	data, labels := make([]byte, n), make([]int32, n)
	for i := range data {
		data[i], labels[i] = byte(from+i), int32(10*(from+i))
	}
	d, err := dataset.NewMemory(data, dataset.Spec{DType: dtype.U8}, dataset.MemoryOptions{Labels: labels, Name: fmt.Sprint("from", from)})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// Ending is a context that ends when it was asked After times whether it has.
type Ending struct {
	context.Context
	Asked, After atomic.Int64
}

// Err implements [context.Context].
func (c *Ending) Err() error {
	if c.Asked.Add(1) > c.After.Load() {
		return context.Canceled
	}
	return nil
}

// ErrOf returns the error of a call that returns something else too.
func ErrOf[T any](_ T, err error) error { return err }

// Floats is the bytes of numbers.
func Floats(values ...float32) (b []byte) {
	for _, v := range values {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
	}
	return b
}

package safetensors

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"github.com/pinion-gpu/pinion/internal/testkit"
)

// written makes a file of tensors and returns it with their data.
func written(t *testing.T, tensors ...Tensor) (*File, map[string][]byte) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "model.safetensors")
	w := testkit.Must(Create(path, tensors, WriterOptions{}))(t)
	data := map[string][]byte{}
	for i, x := range w.Tensors() {
		data[x.Name] = testkit.RandomBytes(int(x.Bytes), uint64(i))
		testkit.OK(t, w.Write(x.Name, data[x.Name]))
	}
	testkit.OK(t, w.Commit())
	f := testkit.Must(OpenFile(path))(t)
	t.Cleanup(func() { f.Close() })
	return f, data
}

// Parts of parts are the bytes that they should be.
func TestRange(t *testing.T) {
	f, data := written(t, Tensor{Name: "x", DType: I32, Shape: []int64{5, 4, 3}}, Tensor{Name: "packed", DType: F4, Shape: []int64{4, 3}},
		Tensor{Name: "none", DType: I32, Shape: []int64{0, 1 << 62}}, Tensor{Name: "scalar", DType: F64})
	read := func(x Tensor, err error) (Tensor, string) {
		t.Helper()
		testkit.OK(t, err)
		b := testkit.Must(io.ReadAll(x.Data()))(t)
		return x, string(b)
	}
	x, _ := f.Find("x")
	for from := range int64(6) {
		for to := from; to <= 5; to++ {
			part, got := read(x.Range(from, to))
			if got != string(data["x"][48*from:48*to]) || !slices.Equal(part.Shape, []int64{to - from, 4, 3}) || part.Bytes != 48*(to-from) {
				t.Errorf("%d to %d: %+v", from, to, part)
			}
		}
	}
	row := testkit.Must(x.At(3))(t)
	part, got := read(row.Range(1, 3))
	if got != string(data["x"][3*48+12:3*48+36]) || fmt.Sprint(part.Shape) != "[2 3]" || fmt.Sprint(x.Shape) != "[5 4 3]" {
		t.Errorf("%+v of %+v", part, x)
	}
	one := testkit.Must(testkit.Must(row.At(2))(t).At(1))(t)
	if one, got = read(one, nil); len(one.Shape) != 0 || got != string(data["x"][3*48+2*12+4:][:4]) {
		t.Errorf("%+v", one)
	}
	none, _ := f.Find("none")
	if none, got = read(none.Range(0, 0)); got != "" || none.Bytes != 0 {
		t.Errorf("%+v", none)
	}
	packed, _ := f.Find("packed")
	if _, got = read(packed.Range(2, 4)); got != string(data["packed"][3:]) {
		t.Errorf("%q", got)
	}
	_, err := packed.Range(1, 2)
	testkit.WantError(t, "half a byte", err, ErrArgument, "of 12 bits each, are no whole bytes")
	scalar, _ := f.Find("scalar")
	_, err = scalar.At(0)
	testkit.WantError(t, "scalar", err, ErrArgument, `"scalar" is a scalar`)
	for _, r := range [][2]int64{{-1, 2}, {3, 2}, {0, 6}, {1 << 62, 1<<63 - 1}} {
		_, err := x.Range(r[0], r[1])
		testkit.WantError(t, fmt.Sprint(r), err, ErrArgument, `first axis of "x", which has 5`)
	}
	_, err = x.At(5)
	testkit.WantError(t, "behind", err, ErrArgument, "5 to 6")
	_, err = x.At(1<<63 - 1)
	testkit.WantError(t, "overflow", err, ErrArgument, "which has 5")
}

func TestRead(t *testing.T) {
	testkit.NoLeaks(t)
	r := rand.New(rand.NewPCG(1, 2))
	var tensors []Tensor
	for i := range 20 {
		tensors = append(tensors, Tensor{Name: fmt.Sprint(i), DType: U8, Shape: []int64{r.Int64N(1000), r.Int64N(50)}})
	}
	tensors = append(tensors, Tensor{Name: "large", DType: U8, Shape: []int64{3, readPiece - 1}})
	f, data := written(t, tensors...)
	var into []Into
	var want [][]byte
	for _, x := range f.Tensors {
		from := r.Int64N(x.Shape[0] + 1)
		part := testkit.Must(x.Range(from, from+r.Int64N(x.Shape[0]-from+1)))(t)
		into = append(into, Into{part, make([]byte, part.Bytes)}, Into{x, make([]byte, x.Bytes)})
		want = append(want, data[x.Name][part.Offset-x.Offset:][:part.Bytes], data[x.Name])
	}
	testkit.OK(t, Read(t.Context(), into...))
	for i := range into {
		if !bytes.Equal(into[i].Memory, want[i]) {
			t.Errorf("%q: other bytes", into[i].Name)
		}
	}
	testkit.OK(t, Read(t.Context()))

	testkit.WantError(t, "size", Read(t.Context(), Into{f.Tensors[20], make([]byte, 7)}), ErrArgument, "7 bytes of memory for")
	testkit.WantError(t, "no file", Read(t.Context(), Into{Tensor{Name: "x"}, nil}), ErrArgument, "is in no file")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Read(ended, into...); err != context.Canceled {
		t.Errorf("%v, want the context's error", err)
	}
	if runtime.GOOS != "windows" { // which does not cut a file that is open
		testkit.OK(t, os.Truncate(f.Path(), f.Size()-1000))
		testkit.WantError(t, "shrunk", Read(t.Context(), into...), io.ErrUnexpectedEOF, f.Path(), "has shrunk")
	}
	testkit.OK(t, f.Close())
	testkit.WantError(t, "closed", Read(t.Context(), into...), os.ErrClosed, f.Path())
}

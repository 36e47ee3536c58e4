package chunks

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

// pack writes numbers of width bits side by side.
func pack(list []uint64, width uint) []byte {
	b := make([]byte, (uint(len(list))*width+7)/8)
	for i, v := range list {
		for k := range width {
			if v>>k&1 != 0 {
				at := uint(i)*width + k
				b[at/8] |= 1 << (at % 8)
			}
		}
	}
	return b
}

func TestBitsAt(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	for width := uint(1); width <= 64; width++ {
		list := make([]uint64, 40)
		for i := range list {
			list[i] = rng.Uint64() >> (64 - width)
		}
		b := pack(list, width)
		for i, want := range list {
			if got := bitsAt(b, width, i); got != want {
				t.Fatalf("number %d of %d bits: %d, want %d", i, width, got, want)
			}
		}
	}
}

// TestHybrid: runs and packed numbers in any order come back, and a stream that is
// cut short is an error.
func TestHybrid(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 2))
	for round := range 200 {
		width := uint(1 + round%32)
		var want []uint32
		var b []byte
		for range 1 + rng.IntN(6) {
			if rng.IntN(2) == 0 {
				n, v := 1+rng.IntN(100), uint32(rng.Uint64()>>(64-width))
				b = binary.AppendUvarint(b, uint64(n)<<1)
				b = append(b, binary.LittleEndian.AppendUint32(nil, v)[:(width+7)/8]...)
				want = append(want, slices.Repeat([]uint32{v}, n)...)
				continue
			}
			list := make([]uint64, 8*(1+rng.IntN(10)))
			for i := range list {
				list[i] = rng.Uint64() >> (64 - width)
				want = append(want, uint32(list[i]))
			}
			b = append(binary.AppendUvarint(b, uint64(len(list)/8)<<1|1), pack(list, width)...)
		}
		got := make([]uint32, len(want))
		testkit.OK(t, hybrid(got, b, width))
		if !slices.Equal(got, want) {
			t.Fatalf("%d bits: other numbers", width)
		}
		testkit.WantError(t, "cut short", hybrid(got, b[:len(b)-1], width), dataset.ErrDamaged)
		testkit.WantError(t, "more than there are", hybrid(make([]uint32, len(want)+1), b, width), dataset.ErrDamaged)
	}
	zeros := []uint8{1, 2, 3}
	testkit.OK(t, hybrid(zeros, nil, 0))
	if !bytes.Equal(zeros, make([]byte, 3)) {
		t.Error("numbers of no bits are not 0")
	}
	// A run that claims more than is wanted takes no more room.
	testkit.OK(t, hybrid(zeros, append(binary.AppendUvarint(nil, 1<<63), 7), 8))
	testkit.OK(t, hybrid(zeros, append(binary.AppendUvarint(nil, 1<<63|1), 7, 7, 7), 8))
}

// readAll reads all columns of a file that can be read.
func readAll(t testing.TB, b []byte) (levels int) {
	f, err := ReadFooter(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		known(t, err)
		return 0
	}
	for _, g := range f.Groups {
		for i, c := range g.Chunks {
			r, err := NewReader(bytes.NewReader(b), int64(len(b)), c, f.Leaves[i], 64<<10)
			if err != nil {
				known(t, err)
				continue
			}
			var batch Batch
			for {
				more, err := r.Next(&batch)
				known(t, err)
				if !more || err != nil || levels > 1<<16 {
					break
				}
				levels += len(batch.Defs)
				if n := len(batch.Ints) + len(batch.Floats) + len(batch.Blobs); n != r.there(batch.Defs) || len(batch.Defs) > BatchSize || len(batch.Reps) != len(batch.Defs) {
					t.Fatalf("%d values at %d levels of definition, %d of repetition", n, len(batch.Defs), len(batch.Reps))
				}
			}
		}
	}
	return levels
}

func known(t testing.TB, err error) {
	t.Helper()
	if err != nil && !errors.Is(err, dataset.ErrDamaged) && !errors.Is(err, dataset.ErrFormat) && !errors.Is(err, dataset.ErrTooLarge) {
		t.Errorf("an error of no kind: %v", err)
	}
}

func sample(t testing.TB) []byte {
	b, err := os.ReadFile("../../testdata/parquet-go.parquet")
	testkit.OK(t, err)
	return b
}

func TestReadAll(t *testing.T) {
	// 5 rows of a, b, image.bytes, image.path and label; lists of 0 to 4 numbers, of which the empty
	// one has a level too, twice.
	if n := readAll(t, sample(t)); n != 5*5+2*11 {
		t.Errorf("%d levels", n)
	}
}

func FuzzRead(f *testing.F) {
	f.Add(sample(f))
	f.Fuzz(func(t *testing.T, b []byte) { readAll(t, b) })
}

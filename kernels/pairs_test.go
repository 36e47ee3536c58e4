package kernels_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"
	"unsafe"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/kernels"
)

func pairList(pairs []kernels.Pair) []byte {
	b := make([]byte, 8*len(pairs))
	for i, p := range pairs {
		kernels.PutPair(b[8*i:], p)
	}
	return b
}

// A Go function and a compiled kernel read what PutPair writes.
func TestPutPair(t *testing.T) {
	b := pairList([]kernels.Pair{{Dst: 0x04030201, Src: 0x08070605}})
	if want := []byte{1, 2, 3, 4, 5, 6, 7, 8}; !bytes.Equal(b, want) || unsafe.Sizeof(kernels.Pair{}) != 8 {
		t.Errorf("%v, want %v", b, want)
	}
}

// TestCopyPairs copies random blocks of many sizes, with lists in memory of the
// device and in mapped host memory.
func TestCopyPairs(t *testing.T) {
	f := open(t)
	rng := rand.New(rand.NewPCG(3, 3))
	list, mapped := f.mapped(8 * 3000)
	sizes := []int{1, 33, 256, 1025, 31, 32, 255, 257, 300, 1023, 1024, 3000}
	if testing.Short() {
		sizes = sizes[:4]
	}
	for _, units := range sizes {
		for _, n := range []int{1, 2, 7, 100, 3000} {
			for _, blocks := range []int{0, 1, 3} {
				size := 16 * units
				content := random(rng, min(n, 50)*size+160)
				src, dst := f.upload(content, 16), f.result(n*size, 48)
				pairs := make([]kernels.Pair, n)
				want := bytes.Repeat([]byte{poison}, n*size)
				for i, to := range rng.Perm(n) {
					if rng.IntN(10) == 0 {
						to, pairs[i] = 0, kernels.Pair{} // as another one, perhaps
					}
					from := rng.IntN((len(content)-size)/16 + 1)
					if to == 0 {
						from = 0
					}
					pairs[i] = kernels.Pair{Dst: uint32(to * units), Src: uint32(from)}
					copy(want[to*size:][:size], content[16*from:])
				}
				l := kernels.PairList{Dst: dst.p, Src: src.p, Pairs: mapped, N: int64(n), Bytes: int64(size), Blocks: blocks}
				copy(list, pairList(pairs))
				there := buffer{}
				if blocks == 1 {
					there = f.upload(pairList(pairs), 0)
					l.Pairs = there.p
				}
				testkit.OK(t, f.set.CopyPairs(f.stream, l))
				if got := dst.download(); !bytes.Equal(got, want) {
					t.Fatalf("%d blocks of %d bytes, %d thread blocks: wrong", n, size, blocks)
				}
				if there.f != nil {
					there.free()
				}
				src.free()
				dst.free()
			}
		}
	}
}

func TestCopyPairsBad(t *testing.T) {
	f := open(t)
	b := f.result(4096, 0)
	defer b.free()
	good := kernels.PairList{Dst: b.p, Src: b.p.Add(2048), Pairs: b.p.Add(1024), N: 1, Bytes: 16}
	for name, change := range map[string]func(*kernels.PairList){
		"negative N":      func(l *kernels.PairList) { l.N = -1 },
		"negative Bytes":  func(l *kernels.PairList) { l.Bytes = -16 },
		"odd Bytes":       func(l *kernels.PairList) { l.Bytes = 24 },
		"negative Blocks": func(l *kernels.PairList) { l.Blocks = -1 },
		"odd Dst":         func(l *kernels.PairList) { l.Dst += 8 },
		"odd Src":         func(l *kernels.PairList) { l.Src += 4 },
		"odd Pairs":       func(l *kernels.PairList) { l.Pairs += 4 },
		"no Dst":          func(l *kernels.PairList) { l.Dst = 0 },
		"no Pairs":        func(l *kernels.PairList) { l.Pairs = 0 },
		"overflow":        func(l *kernels.PairList) { l.N, l.Bytes = 1<<40, 1<<40 },
	} {
		l := good
		change(&l)
		if err := f.set.CopyPairs(f.stream, l); !errors.Is(err, device.ErrArgument) {
			t.Errorf("%s: %v, want ErrArgument", name, err)
		}
	}
	for _, nothing := range []kernels.PairList{{}, {N: 5}, {Bytes: 16}} {
		testkit.OK(t, f.set.CopyPairs(f.stream, nothing))
	}
	if _, ok := device.As[device.Caller](f.dev); !ok {
		return // compiled kernels cannot check the list
	}
	list := f.upload(pairList([]kernels.Pair{{Dst: 1 << 30}}), 0)
	defer list.free()
	l := good
	l.Pairs = list.p
	testkit.OK(t, f.set.CopyPairs(f.stream, l))
	if err := f.stream.Synchronize(); !errors.Is(err, device.ErrPointer) {
		t.Errorf("a block outside: %v, want ErrPointer", err)
	}
}

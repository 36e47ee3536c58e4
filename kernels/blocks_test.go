package kernels_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/pagemem"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/kernels"
)

type blocksCase struct {
	n, total, blockBytes           int
	dstOffset, srcOffset, idOffset int
}

func blocksCases(rng *rand.Rand) []blocksCase {
	cases := []blocksCase{
		{0, 5, 16, 0, 0, 0}, {5, 0, 16, 0, 0, 0}, {7, 9, 16, 0, 0, 8}, {7, 9, 16, 4, 0, 0}, {7, 9, 16, 0, 1, 0}, {7, 9, 20, 0, 0, 0},
		{9, 3, 1, 3, 5, 8}, {20, 40, 16384, 0, 0, 0}, {3, 5, 16400, 16, 32, 0}, {3, 5, 16388, 4, 8, 0}, {2, 2, 5000, 1, 1, 0},
	}
	for range 60 {
		c := blocksCase{rng.IntN(50), rng.IntN(50), 1 + rng.IntN(80), rng.IntN(20), rng.IntN(20), 8 * rng.IntN(3)}
		if rng.IntN(2) == 0 {
			c.blockBytes, c.dstOffset, c.srcOffset = c.blockBytes*4, c.dstOffset*4, c.srcOffset*4
		}
		cases = append(cases, c)
	}
	return cases
}

// index makes n block numbers below total, or not: some are out of range.
func index(rng *rand.Rand, n, total int, distinct bool) []int64 {
	outside := []int64{-1, int64(total), math.MinInt64, math.MaxInt64, 1 << 32, -1 << 32}
	order := rng.Perm(total)
	list := make([]int64, n)
	for i := range list {
		switch {
		case rng.IntN(4) == 0 || total == 0 || distinct && len(order) == 0:
			list[i] = outside[rng.IntN(len(outside))]
		case distinct:
			list[i], order = int64(order[0]), order[1:]
		default:
			list[i] = int64(rng.IntN(total))
		}
	}
	return list
}

func indexBytes(list []int64) []byte {
	b, _ := binary.Append(nil, binary.LittleEndian, list)
	return b
}

func random(rng *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return b
}

func TestGather(t *testing.T) {
	f := open(t)
	rng := rand.New(rand.NewPCG(4, 4))
	for _, c := range blocksCases(rng) {
		list := index(rng, c.n, c.total, false)
		content := random(rng, c.total*c.blockBytes)
		f.checkBlocks(c, list, content, c.n, f.set.Gather, func(want []byte, i, at int) {
			copy(want[i*c.blockBytes:][:c.blockBytes], content[at*c.blockBytes:])
		})
	}
}

func TestScatter(t *testing.T) {
	f := open(t)
	rng := rand.New(rand.NewPCG(5, 5))
	for _, c := range blocksCases(rng) {
		list := index(rng, c.n, c.total, true)
		content := random(rng, c.n*c.blockBytes)
		f.checkBlocks(c, list, content, c.total, f.set.Scatter, func(want []byte, i, at int) {
			copy(want[at*c.blockBytes:][:c.blockBytes], content[i*c.blockBytes:])
		})
	}
}

// checkBlocks runs one case into dstBlocks blocks; one is what an index entry
// i that names block at should do to the result.
func (f *fixture) checkBlocks(c blocksCase, list []int64, content []byte, dstBlocks int,
	run func(device.Stream, kernels.Blocks) error, one func(want []byte, i, at int)) {
	f.Helper()
	src, ids := f.upload(content, c.srcOffset), f.upload(indexBytes(list), c.idOffset)
	dst := f.result(dstBlocks*c.blockBytes, c.dstOffset)
	defer src.free()
	defer ids.free()
	defer dst.free()
	testkit.OK(f, run(f.stream, kernels.Blocks{
		Dst: dst.p, Src: src.p, Index: ids.p,
		N: int64(c.n), Total: int64(c.total), BlockBytes: int64(c.blockBytes),
	}))
	want := bytes.Repeat([]byte{poison}, dst.n)
	for i, at := range list {
		if at >= 0 && at < int64(c.total) {
			one(want, i, int(at))
		}
	}
	if got := dst.download(); !bytes.Equal(got, want) {
		for i := range want {
			if got[i] != want[i] {
				f.Fatalf("%+v, index %v: byte %d of block %d is %#x, want %#x", c, list, i%c.blockBytes, i/c.blockBytes, got[i], want[i])
			}
		}
	}
}

// TestScatterDuplicates: every byte comes from a block that the index sent
// there.
func TestScatterDuplicates(t *testing.T) {
	f := open(t)
	const n, blockBytes = 40, 4096
	content := make([]byte, n*blockBytes)
	for i := range content {
		content[i] = byte(i / blockBytes)
	}
	src, ids := f.upload(content, 0), f.upload(make([]byte, 8*n), 0)
	dst := f.result(2*blockBytes, 0)
	defer src.free()
	defer ids.free()
	defer dst.free()
	testkit.OK(t, f.set.Scatter(f.stream, kernels.Blocks{Dst: dst.p, Src: src.p, Index: ids.p, N: n, Total: 2, BlockBytes: blockBytes}))
	got := dst.download()
	for i, x := range got[:blockBytes] {
		if x >= n {
			t.Fatalf("byte %d of block 0 is %#x, from none of the blocks", i, x)
		}
	}
	if !bytes.Equal(got[blockBytes:], bytes.Repeat([]byte{poison}, blockBytes)) {
		t.Fatal("block 1 changed, and no index named it")
	}
}

// mapped makes pinned host memory and its device address.
func (f *fixture) mapped(n int64) ([]byte, device.Ptr) {
	f.Helper()
	pinner, ok := device.As[device.Pinner](f.dev)
	if !ok || !pinner.CanMap() {
		f.Skip("the device cannot map host memory")
	}
	b, err := pagemem.Map(pagemem.RoundUp(n))
	testkit.OK(f, err)
	f.Cleanup(func() { testkit.OK(f, pagemem.Unmap(b)) })
	if err := pinner.Pin(b, device.PinMapped); err != nil {
		f.Skipf("cannot pin %d bytes here: %v", len(b), err)
	}
	f.Cleanup(func() { testkit.OK(f, pinner.Unpin(b)) })
	p, err := pinner.Mapped(b)
	testkit.OK(f, err)
	return b[:n], p
}

func TestGatherFromMappedMemory(t *testing.T) {
	f := open(t)
	const total, n, blockBytes = 9, 50, 1040
	rng := rand.New(rand.NewPCG(6, 6))
	host, p := f.mapped(total * blockBytes)
	copy(host, random(rng, len(host)))
	list := index(rng, n, total, false)
	ids, dst := f.upload(indexBytes(list), 0), f.result(n*blockBytes, 0)
	defer ids.free()
	defer dst.free()
	testkit.OK(t, f.set.Gather(f.stream, kernels.Blocks{Dst: dst.p, Src: p, Index: ids.p, N: n, Total: total, BlockBytes: blockBytes}))
	got := dst.download()
	for i, at := range list {
		want := bytes.Repeat([]byte{poison}, blockBytes)
		if at >= 0 && at < total {
			want = host[at*blockBytes:][:blockBytes]
		}
		if !bytes.Equal(got[i*blockBytes:][:blockBytes], want) {
			t.Fatalf("block %d, from block %d, is wrong", i, at)
		}
	}
}

// BenchmarkGather reads blocks in random order, from mapped pinned memory and
// from device memory.
func BenchmarkGather(b *testing.B) {
	f := open(b)
	rng := rand.New(rand.NewPCG(7, 7))
	const bytes = 64 << 20
	for _, blockBytes := range []int{512, 4 << 10, 16 << 10, 256 << 10} {
		for _, from := range []string{"mapped", "device"} {
			b.Run(fmt.Sprintf("%s/block=%d", from, blockBytes), func(b *testing.B) {
				n := bytes / blockBytes
				list := make([]int64, n)
				for i, at := range rng.Perm(n) {
					list[i] = int64(at)
				}
				g := *f
				g.TB = b
				j := kernels.Blocks{N: int64(n), Total: int64(n), BlockBytes: int64(blockBytes)}
				if from == "mapped" {
					_, j.Src = g.mapped(bytes)
				} else {
					src := g.upload(make([]byte, bytes), 0)
					defer src.free()
					j.Src = src.p
				}
				ids, dst := g.upload(indexBytes(list), 0), g.result(bytes, 0)
				defer ids.free()
				defer dst.free()
				j.Index, j.Dst = ids.p, dst.p
				b.SetBytes(bytes)
				for b.Loop() {
					testkit.OK(b, g.set.Gather(g.stream, j))
					testkit.OK(b, g.stream.Synchronize())
				}
			})
		}
	}
}

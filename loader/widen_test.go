package loader_test

import (
	"bytes"
	"testing"

	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/loader"
)

// rowless is one batch, of samples without a row.
type rowless struct{}

func (rowless) Len() int                               { return 1 }
func (rowless) AppendAt(dst []int, epoch, k int) []int { return append(dst, 0, 11, 22) } // of length 0

// A sample that is replaced by a longer one widens its batch.
func TestReplaceByLonger(t *testing.T) {
	dev := devicetest.Open(t)
	ds := newRagged(29)
	ds.fail = map[int]bool{11: true}
	s := stream(t, dev)
	for seed := range 20 {
		ld := start(t, dev, ds, loader.Options{Batch: 3, Batches: rowless{}, OnError: loader.Replace, Pad: -1, Mask: true, Seed: uint64(seed), Epochs: 2})
		for range 2 {
			b, err := next(t, ld)
			testkit.OK(t, err)
			g := use(t, s, b)
			rows := b.Shape[1]
			for slot, i := range b.Indexes {
				want := append(ds.sample(i)[:8*ds.Length(i)], bytes.Repeat([]byte{0, 0, 0x80, 0xbf}, 2*(rows-ds.Length(i)))...)
				if !bytes.Equal(g.data[slot*rows*8:][:rows*8], want) {
					t.Errorf("seed %d: sample %d of length %d in %d rows: % x", seed, i, ds.Length(i), rows, g.data[slot*rows*8:][:rows*8])
				}
			}
			testkit.OK(t, b.Release())
		}
	}
}

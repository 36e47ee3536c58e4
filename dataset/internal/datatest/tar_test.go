package datatest

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

func TestSqueezeTar(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		shard := make([]byte, rng.IntN(2000))
		for range rng.IntN(6) {
			if len(shard) > 0 {
				shard[rng.IntN(len(shard))] = byte(rng.IntN(256))
			}
		}
		if b := SqueezeTar(shard); !bytes.Equal(StretchTar(b), shard) || len(b) > 60 {
			t.Fatalf("%d bytes squeezed to %d are others again", len(shard), len(b))
		}
	}
}

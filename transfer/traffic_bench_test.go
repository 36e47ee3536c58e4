package transfer

import (
	"context"
	"testing"
)

// What counting a copy takes, three updates, by goroutines that copy the same way at
// once: run it with -cpu 8.
func BenchmarkTraffic(b *testing.B) {
	var t traffics
	ctx := context.Background()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			t.begin(hostToDevice, wayPlain).end(ctx, 4096, nil)
		}
	})
}

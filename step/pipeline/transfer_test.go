package pipeline_test

import (
	"testing"

	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/step/pipeline"
)

// Exchanges, which come one after the other on each rank, hold up no pass that they are not
// for: where backward takes twice as long, ranks wait as long as the formula says.
func TestExchangeOrder(t *testing.T) {
	testkit.OnlyComputes(t)
	n := gpt(t)
	for _, c := range []struct{ ranks, chunks, micro int }{{2, 1, 8}, {2, 2, 8}, {3, 1, 9}, {4, 1, 16}, {4, 2, 16}} {
		got, err := pipeline.Clock(n.Step, c.ranks, pipeline.Options{Micro: c.micro, Chunks: c.chunks}, 2)
		testkit.OK(t, err)
		want := float64(c.micro*c.chunks) * 3 * (1 + pipeline.Bubble(c.ranks, c.chunks, c.micro))
		if got < want-1e-9 || got > 1.001*want {
			t.Errorf("%d ranks with %d stages each, %d micro-batches: %.2f passes, %.2f by the formula", c.ranks, c.chunks, c.micro, got, want)
		}
	}
}

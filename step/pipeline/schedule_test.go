package pipeline_test

import (
	"math"
	"testing"

	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/step/pipeline"
)

// sizes calls fn with ranks, chunks and micro-batches of all schedules up to some size.
func sizes(fn func(ranks, chunks, micro int, eager bool)) {
	for ranks := 1; ranks <= 8; ranks++ {
		for chunks := 1; chunks <= 4; chunks++ {
			for micro := 1; micro <= 4*ranks; micro++ {
				if chunks == 1 || micro%ranks == 0 {
					fn(ranks, chunks, micro, false)
					fn(ranks, chunks, micro, true)
				}
			}
		}
	}
}

func even(n int, seconds float64) []float64 {
	list := make([]float64, n)
	for i := range list {
		list[i] = seconds
	}
	return list
}

// A schedule has each pass once, none waits for another in a circle, and no more
// micro-batches are under way than there have to be.
func TestSchedule(t *testing.T) {
	testkit.OnlyComputes(t)
	sizes(func(ranks, chunks, micro int, eager bool) {
		schedule := testkit.Must(pipeline.Schedule(ranks, chunks, micro, eager))(t)
		for rank, ops := range schedule {
			seen, now, most := map[pipeline.Op]bool{}, 0, ranks-rank
			switch {
			case chunks > 1:
				most = 2*(ranks-rank-1) + (chunks-1)*ranks + 1
			case eager:
				most = 2*(ranks-rank) - 1
			}
			for _, op := range ops {
				if seen[op] || op.Micro < 0 || op.Micro >= micro || op.Chunk < 0 || op.Chunk >= chunks {
					t.Fatalf("%d x %d, %d micro-batches: rank %d has %v again, or it is none", ranks, chunks, micro, rank, op)
				}
				seen[op] = true
				if op.Kind == pipeline.Forward {
					now++
				} else {
					now--
				}
				if now > most {
					t.Fatalf("%d x %d, %d micro-batches: rank %d has %d under way", ranks, chunks, micro, rank, now)
				}
			}
			if len(seen) != 2*chunks*micro {
				t.Fatalf("%d x %d, %d micro-batches: rank %d has %d passes", ranks, chunks, micro, rank, len(seen))
			}
		}
		_, _, err := pipeline.Simulate(schedule, even(ranks*chunks, 1), even(ranks*chunks, 1), 0)
		testkit.OK(t, err)
	})
}

// With equal stages and sends that take no time, the clock says what the formula says.
func TestBubble(t *testing.T) {
	testkit.OnlyComputes(t)
	sizes(func(ranks, chunks, micro int, eager bool) {
		schedule := testkit.Must(pipeline.Schedule(ranks, chunks, micro, eager))(t)
		for _, backward := range []float64{1, 2, 3} {
			total, bubble, err := pipeline.Simulate(schedule, even(ranks*chunks, 1), even(ranks*chunks, backward), 0)
			testkit.OK(t, err)
			want := pipeline.Bubble(ranks, chunks, micro)
			if math.Abs(bubble-want) > 1e-12 || math.Abs(total-float64(micro*chunks)*(1+backward)*(1+want)) > 1e-9 {
				t.Errorf("%d x %d, %d micro-batches, backward %v: %v, %v by the formula", ranks, chunks, micro, backward, bubble, want)
			}
		}
	})
}

// Sends and uneven stages take longer.
func TestSimulate(t *testing.T) {
	schedule := testkit.Must(pipeline.Schedule(2, 1, 2, false))(t)
	total, bubble, err := pipeline.Simulate(schedule, []float64{1, 2}, []float64{1, 2}, 0.5)
	testkit.OK(t, err)
	// Forward 0 to 1, 1.5 to 3.5 on the second rank, back to 5.5; then 9.5, and 10 to 11.
	if total != 11 || math.Abs(bubble-(11*2/12.-1)) > 1e-12 {
		t.Errorf("%v seconds, bubble %v", total, bubble)
	}
}

func TestScheduleErrors(t *testing.T) {
	for _, bad := range [][3]int{{0, 1, 1}, {1, 0, 1}, {1, 1, 0}} {
		_, err := pipeline.Schedule(bad[0], bad[1], bad[2], false)
		testkit.WantError(t, "sizes", err, pipeline.ErrArgument)
	}
	_, err := pipeline.Schedule(4, 2, 6, true)
	testkit.WantError(t, "interleaved", err, pipeline.ErrArgument, "multiple of the ranks: 6 of 4 ranks")
	_, _, err = pipeline.Simulate([][]pipeline.Op{{{Kind: pipeline.Backward}}}, even(1, 1), even(1, 1), 0)
	testkit.WantError(t, "a circle", err, pipeline.ErrArgument, "wait for each other")
	_, _, err = pipeline.Simulate([][]pipeline.Op{{{Chunk: 1}}}, even(1, 1), even(1, 1), 0)
	testkit.WantError(t, "times", err, pipeline.ErrArgument, "times of 1 and 1 stages")
}

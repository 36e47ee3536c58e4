package vram

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/vram/internal/space"
)

// situation makes an error of a pool on a device of 80 GiB, of which other
// programs have 2.
func situation(live, free, fragmented, asked int64) *OutOfMemoryError {
	reserved := live + free
	e := &OutOfMemoryError{
		Device: "cuda:0", Asked: asked, Purpose: Activations, Name: "layer 12",
		Stats: Stats{
			Requested: account(live), Allocated: account(live), Active: account(live), Reserved: account(reserved),
			Blocks: account(321), Free: free, Fragmented: fragmented, LargestFree: free / 2, ChunkUnit: 2 * mib, ChunkBytes: 8 * mib,
		},
		Memory: device.Memory{TotalBytes: 80 * gib, FreeBytes: 78*gib - reserved},
		cause:  device.ErrOutOfMemory,
	}
	e.Stats.Purposes[Weights].Allocated = account(live / 4)
	e.Stats.Purposes[Activations].Allocated = account(live - live/4)
	e.Holders = []Holder{
		{Purpose: Activations, Name: "layer 3", Blocks: 40, Allocated: live / 2},
		{Purpose: Weights, Blocks: 200, Allocated: live / 4},
		{Purpose: Activations, Name: "a name\nof two lines", Blocks: 1, Allocated: 512},
	}
	return e
}

// situations are what goes wrong, with words of the advice that must, and must
// not, be given.
func situations() map[string]struct {
	e        *OutOfMemoryError
	yes, not []string
} {
	type test = struct {
		e        *OutOfMemoryError
		yes, not []string
	}
	change := func(e *OutOfMemoryError, f func(*OutOfMemoryError)) *OutOfMemoryError {
		f(e)
		return e
	}
	return map[string]test{
		"device_full": {
			situation(77*gib, 0, 0, 4*gib),
			[]string{"exceed what the device has for this pool (78 GiB) by 3 GiB", "largest holder is activations \"layer 3\" with 38.5 GiB"},
			[]string{"Other programs", "in chunks", "budget", "ChunkBytes"},
		},
		"other_programs": {
			change(situation(50*gib, 0, 0, 4*gib), func(e *OutOfMemoryError) { e.Memory.FreeBytes = gib }),
			[]string{"by 3 GiB", "Other programs and the driver hold 29 GiB of the device's 80 GiB"},
			[]string{"in chunks", "budget"},
		},
		"fragmented": {
			situation(70*gib, 8*gib, 6*gib, 4*gib),
			[]string{"8 GiB is free. That is enough, but 6 GiB of it is in chunks", "Options.ChunkBytes to 2 MiB, the least there is"},
			[]string{"exceed", "Other programs", "SourceChunks"},
		},
		"fragmented_with_room": {
			situation(70*gib, 7*gib, 6*gib, 8*gib),
			[]string{"7 GiB is free, and the pool may take 1 GiB more. That is enough, but 6 GiB"},
			[]string{"exceed"},
		},
		"fragmented_least": { // no smaller chunks are to be had
			change(situation(70*gib, 8*gib, 6*gib, 4*gib), func(e *OutOfMemoryError) { e.Stats.ChunkBytes = 2 * mib }),
			[]string{"6 GiB of it is in chunks that live blocks share: allocate what lives long before the rest"},
			[]string{"ChunkBytes"},
		},
		"remainder": { // the room that the budget leaves is no chunk
			change(situation(10*gib, 0, 0, mib), func(e *OutOfMemoryError) {
				e.Stats.Budget = 10*gib + mib
				e.cause = fmt.Errorf("%w", space.ErrBudget)
			}),
			[]string{"0 B is free, and the pool may take 1 MiB more. That is enough, but 1 MiB of it is less than a chunk, which has 2 MiB at least"},
			[]string{"ChunkBytes", "exceed"},
		},
		"segments": {
			change(situation(70*gib, 8*gib, 8*gib, 6*gib), func(e *OutOfMemoryError) { e.Stats.ChunkBytes, e.Stats.ChunkUnit = 0, 0 }),
			[]string{"8 GiB is free. That is enough, but the largest block is 4 GiB", "SourceChunks"},
			[]string{"exceed", "ChunkBytes"},
		},
		"budget": {
			change(situation(10*gib, 0, 0, gib), func(e *OutOfMemoryError) {
				e.Stats.Budget = 10*gib + 512*mib
				e.cause = fmt.Errorf("%w", space.ErrBudget)
			}),
			[]string{"exceed the budget (10.5 GiB) by 512 MiB", "The budget of 10.5 GiB is the limit, while the device has 68 GiB left: raise Options.Budget."},
			[]string{"Other programs", "in chunks"},
		},
		"budget_and_device": {
			change(situation(60*gib, 0, 0, 30*gib), func(e *OutOfMemoryError) {
				e.Stats.Budget = 60 * gib
				e.cause = space.ErrBudget
			}),
			[]string{"by 30 GiB", "has 18 GiB left: a larger Options.Budget would help, but is not enough"},
			[]string{"raise Options.Budget"},
		},
		"budget_beyond_device": {
			change(situation(77*gib, 0, 0, 4*gib), func(e *OutOfMemoryError) { e.Stats.Budget = 200 * gib }),
			[]string{"what the device has for this pool"},
			[]string{"udget"},
		},
		"limit": {
			change(situation(40*gib, gib, gib, 2*gib), func(e *OutOfMemoryError) {
				e.Stats.Purposes[Activations].Limit = 31 * gib
				e.cause = fmt.Errorf("%w: activations", ErrLimit)
			}),
			[]string{"The limit of activations is 31 GiB and 30 GiB is allocated: the 2 GiB asked for is 1 GiB too much", "Options.Limits", "layer 3"},
			[]string{"exceed", "in chunks", "weights"},
		},
		"pending": {
			change(situation(60*gib, 4*gib, 0, 10*gib), func(e *OutOfMemoryError) {
				e.Stats.Active = account(64 * gib)
				e.Stats.Free = 0
			}),
			[]string{"4 GiB is freed but still in use by streams"},
			[]string{"exceed", "in chunks"},
		},
		"unknown": { // the device did not say
			change(situation(0, 0, 0, 1000), func(e *OutOfMemoryError) {
				e.Memory = device.Memory{}
				e.Name, e.cause, e.Purpose = "", nil, Other
				e.Holders = nil
			}),
			nil,
			[]string{"exceed", "limit", "in chunks", "programs"},
		},
		"huge": {
			change(situation(3*pib, 0, 0, 1<<60), func(e *OutOfMemoryError) { e.Memory = device.Memory{TotalBytes: 3 * pib} }),
			[]string{"by 1 EiB"},
			[]string{"Other programs"},
		},
	}
}

func TestReport(t *testing.T) {
	for name, test := range situations() {
		t.Run(name, func(t *testing.T) {
			e := test.e
			e.Advice = e.advise()
			advice := strings.Join(e.Advice, "\n")
			for _, words := range test.yes {
				if !strings.Contains(advice, words) {
					t.Errorf("the advice lacks %q:\n%s", words, advice)
				}
			}
			for _, words := range test.not {
				if strings.Contains(advice, words) {
					t.Errorf("the advice has %q:\n%s", words, advice)
				}
			}
			if len(test.yes) == 0 && len(e.Advice) > 0 {
				t.Errorf("advice from nothing: %q", e.Advice)
			}
			golden(t, "report_"+name+".txt", e.Report())
		})
	}
}

// TestReportOdd gives errors that a pool does not make, and wants no panic and
// no advice that is not true.
func TestReportOdd(t *testing.T) {
	for name, e := range map[string]*OutOfMemoryError{
		"zero":      {},
		"purpose":   {Purpose: purposes, cause: ErrLimit, Holders: []Holder{{Purpose: 200, Allocated: 5}}},
		"no limit":  {Asked: 5, cause: ErrLimit, Stats: Stats{Purposes: [purposes]PurposeStats{{Limit: gib}}}},
		"no memory": {Asked: -5, Memory: device.Memory{TotalBytes: 1, FreeBytes: 1}},
	} {
		if advice := e.advise(); len(advice) > 0 {
			t.Errorf("%s: %q", name, advice)
		}
		if !strings.HasPrefix(e.Report(), "out of memory on ") || !errors.Is(e, device.ErrOutOfMemory) {
			t.Errorf("%s: %q", name, e.Report())
		}
	}
}

// TestAdviseHolder wants the largest holder wherever it stands.
func TestAdviseHolder(t *testing.T) {
	e := situation(70*gib, 0, 0, 20*gib)
	slices.Reverse(e.Holders)
	if advice := strings.Join(e.advise(), "\n"); !strings.Contains(advice, `"layer 3" with 35 GiB in 40 blocks`) {
		t.Error(advice)
	}
}

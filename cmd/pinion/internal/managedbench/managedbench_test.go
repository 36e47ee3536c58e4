package managedbench_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/cmd/pinion/internal/managedbench"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/device/host"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

// Every way is measured at every size, or left out for a reason.
func TestRun(t *testing.T) {
	dev := devicetest.Open(t)
	const size = 32 << 20
	devicetest.NeedsPinned(t, dev, 2*size)
	before, err := dev.Memory()
	testkit.OK(t, err)
	last := -1
	r, err := managedbench.Run(t.Context(), dev, managedbench.Options{Size: size, Repeats: 2, Progress: func(step, of int, what string) {
		if step <= last || step >= of || what == "" {
			t.Errorf("step %d of %d (%s) comes after %d", step, of, what, last)
		}
		last = step
	}})
	testkit.OK(t, err)
	if want := []int64{size / 256, size / 16, size}; !slices.Equal(r.Sizes, want) || r.Repeats != 2 || r.SizeReason != "" {
		t.Errorf("%v (%s), %d repeats; want %v", r.Sizes, r.SizeReason, r.Repeats, want)
	}
	seen := map[string]int{}
	for _, row := range r.Rows {
		seen[row.Direction+" "+row.Way]++
		if !slices.Contains(r.Sizes, row.Bytes) || row.Median <= 0 || row.Least > row.Median || row.Most < row.Median || row.PerSecond() <= 0 {
			t.Errorf("%+v", row)
		}
	}
	for _, s := range r.Skipped {
		if seen[s.Direction+" "+s.Way] += 3; s.Why == nil {
			t.Errorf("%+v without a reason", s)
		}
	}
	for _, name := range strings.Split("h2d on demand,h2d prefetched,h2d in place,h2d pinned,h2d staged,h2d pageable,d2h on demand,d2h prefetched,d2h pinned,d2h staged,d2h pageable", ",") {
		if seen[name] != 3 {
			t.Errorf("%s: %d rows, want 3", name, seen[name])
		}
		delete(seen, name)
	}
	if len(seen) > 0 {
		t.Errorf("ways that nobody asked for: %v", seen)
	}
	moves := r.Migration == device.PageMigration
	for _, s := range r.Skipped {
		if prefetched := s.Way == managedbench.Prefetched || s.Way == managedbench.InPlace; prefetched == moves {
			t.Errorf("%s is left out where managed memory migrates by %v: %v", s.Way, r.Migration, s.Why)
		}
	}
	if after, err := dev.Memory(); err != nil || dev.Info().Backend == "host" && after != before {
		t.Errorf("memory was %+v and is %+v, %v", before, after, err)
	}
}

// No more than an eighth of what is free is used, whatever is asked for.
func TestSize(t *testing.T) {
	dev, err := host.Open(16 << 20)
	testkit.OK(t, err)
	defer dev.Close()
	r, err := managedbench.Run(t.Context(), dev, managedbench.Options{Repeats: 1})
	testkit.OK(t, err)
	if last := r.Sizes[len(r.Sizes)-1]; last != 2<<20 || !strings.Contains(r.SizeReason, "16 MiB") {
		t.Errorf("%d bytes because %q", last, r.SizeReason)
	}
	for _, size := range []int64{-1, 1, 4 << 20, managedbench.MinSize + 1} {
		_, err := managedbench.Run(t.Context(), dev, managedbench.Options{Size: size})
		if want := map[bool]error{true: device.ErrOutOfMemory, false: device.ErrArgument}[size == 4<<20]; !errors.Is(err, want) {
			t.Errorf("size %d: %v", size, err)
		}
	}
	tiny, err := host.Open(256 << 10)
	testkit.OK(t, err)
	defer tiny.Close()
	_, err = managedbench.Run(t.Context(), tiny, managedbench.Options{})
	testkit.WantError(t, "a device that is too small", err, device.ErrOutOfMemory)
}

func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := managedbench.Run(ctx, devicetest.Open(t), managedbench.Options{Size: 1 << 20})
	testkit.WantError(t, "a run that was cancelled", err, context.Canceled)
}

// A device without managed memory is told from one that fails.
func TestNotSupported(t *testing.T) {
	_, err := managedbench.Run(t.Context(), plain{devicetest.Open(t)}, managedbench.Options{})
	testkit.WantError(t, "a device without managed memory", err, device.ErrNotSupported)
}

// plain hides the abilities of a device.
type plain struct{ device.Device }

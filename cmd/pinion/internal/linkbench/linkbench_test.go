package linkbench_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/cmd/pinion/internal/linkbench"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/devicetest"
)

var ctx = context.Background()

// Every path of a device that can do everything has its row, with figures that
// can be. (Whether a test's process may page-lock is up to the system.)
func TestRun(t *testing.T) {
	dev := devicetest.Open(t)
	all := []string{"pageable h2d", "pageable d2h", "staged h2d", "staged d2h",
		"pinned h2d", "pinned d2h", "mapped h2d", "mapped d2h", "pinned both"}
	for _, size := range []int64{16 << 10, 64 << 10, 100_001, 1<<20 + 4096} {
		for _, repeats := range []int{1, 2, 3} {
			t.Run(fmt.Sprintf("%d bytes, %d repeats", size, repeats), func(t *testing.T) {
				r, err := linkbench.Run(ctx, dev, linkbench.Options{Size: size, Repeats: repeats, Copiers: 1})
				if err != nil {
					t.Fatal(err)
				}
				if r.Size != size || r.Repeats != repeats {
					t.Errorf("report of %d bytes, %d repeats", r.Size, r.Repeats)
				}
				check(t, r)
				if pinningRefused(r) {
					t.Skipf("the system does not let the test pin memory: %v", r.Skipped)
				}
				if got := append(rows(r), skipped(r)...); !sameSet(got, all) {
					t.Errorf("rows and skipped paths %q, want %q", got, all)
				}
				if len(r.Small) != 4 || len(r.Pin) == 0 {
					t.Errorf("%d rows of small copies, %d of pinning", len(r.Small), len(r.Pin))
				}
			})
		}
	}
}

// A device that cannot pin has the rest of the paths, and a reason.
func TestRunWithoutPinning(t *testing.T) {
	dev := struct{ device.Device }{devicetest.Open(t)}
	r, err := linkbench.Run(ctx, dev, linkbench.Options{Size: 64 << 10, Repeats: 2})
	if err != nil {
		t.Fatal(err)
	}
	check(t, r)
	for _, row := range r.Bulk {
		if row.Path != "pageable" {
			t.Errorf("a row for %s %s", row.Path, row.Direction)
		}
	}
	for _, want := range []string{"pageable h2d", "pageable d2h"} {
		if !slices.Contains(rows(r), want) {
			t.Errorf("rows %q, want one for %s", rows(r), want)
		}
	}
	for _, path := range []string{"staged", "pinned", "mapped"} {
		i := slices.IndexFunc(r.Skipped, func(s linkbench.Skipped) bool { return s.Path == path })
		if i < 0 || !errors.Is(r.Skipped[i].Why, device.ErrNotSupported) {
			t.Errorf("skipped %v, want %s because of %q", r.Skipped, path, device.ErrNotSupported)
		}
	}
	if len(r.Small) != 2 || len(r.Pin) != 0 {
		t.Errorf("%d rows of small copies, %d of pinning", len(r.Small), len(r.Pin))
	}
}

// Where the system refuses to pin, the report says so and has the rest; what
// was pinned before is given back.
func TestRunAtThePinLimit(t *testing.T) {
	inner := devicetest.Open(t)
	pinner, ok := device.As[device.Pinner](inner)
	if !ok {
		t.Skip("the device pins no memory")
	}
	if _, allocates := device.As[device.HostAllocator](inner); allocates {
		t.Skip("the driver allocates pinned memory by itself")
	}
	for _, allowed := range []int{0, 1} {
		t.Run(fmt.Sprint(allowed), func(t *testing.T) {
			dev := &limited{Wrapper: device.Wrapper{Device: inner}, Pinner: pinner, allowed: allowed}
			r, err := linkbench.Run(ctx, dev, linkbench.Options{Size: 64 << 10, Repeats: 1})
			if err != nil {
				t.Fatal(err)
			}
			check(t, r)
			// The one that is allowed is the memory to copy; none is left to time pinning.
			if !pinningRefused(r) || slices.Contains(rows(r), "pinned h2d") != (allowed == 1) || !slices.Contains(rows(r), "pageable h2d") || len(r.Pin) != 0 {
				t.Errorf("rows %q, pinning %v, skipped %v", rows(r), r.Pin, r.Skipped)
			}
			if dev.pinned != 0 {
				t.Errorf("%d segments are still pinned", dev.pinned)
			}
		})
	}
}

// limited is a device that pins only so many times.
type limited struct {
	device.Wrapper
	device.Pinner
	allowed, pinned int
}

func (d *limited) Pin(b []byte, flags device.PinFlags) error {
	if d.pinned == d.allowed {
		return device.ErrPinLimit
	}
	err := d.Pinner.Pin(b, flags)
	if err == nil {
		d.pinned++
	}
	return err
}

func (d *limited) Unpin(b []byte) error {
	d.pinned--
	return d.Pinner.Unpin(b)
}

// A driver that cannot register host memory, as CUDA's error 801 says, leaves
// all paths of ordinary memory, and a reason.
func TestRunWithoutRegistration(t *testing.T) {
	inner := devicetest.Open(t)
	pinner, ok := device.As[device.Pinner](inner)
	if !ok {
		t.Skip("the device pins no memory")
	}
	if _, allocates := device.As[device.HostAllocator](inner); allocates {
		t.Skip("the driver allocates pinned memory by itself")
	}
	r, err := linkbench.Run(ctx, &unregistering{device.Wrapper{Device: inner}, pinner}, linkbench.Options{Size: 64 << 10, Repeats: 1, Curves: true})
	if err != nil {
		t.Fatal(err)
	}
	check(t, r)
	if !slices.Contains(rows(r), "pageable d2h") || slices.Contains(rows(r), "pinned h2d") {
		t.Errorf("rows %q", rows(r))
	}
	i := slices.IndexFunc(r.Skipped, func(s linkbench.Skipped) bool { return s.Path == "pinned" })
	if i < 0 || !errors.Is(r.Skipped[i].Why, device.ErrNotSupported) {
		t.Errorf("skipped %v, want pinned because of %q", r.Skipped, device.ErrNotSupported)
	}
}

// unregistering is a device whose driver pins no memory, although it could.
type unregistering struct {
	device.Wrapper
	device.Pinner
}

func (*unregistering) Pin([]byte, device.PinFlags) error {
	return fmt.Errorf("cuMemHostRegister: %w", device.ErrNotSupported)
}

// Copies of n bytes take n bytes of device memory and twice as many of pinned
// memory, at most.
func TestMemoryTaken(t *testing.T) {
	inner := devicetest.Open(t)
	pinner, ok := device.As[device.Pinner](inner)
	if !ok {
		t.Skip("the device pins no memory")
	}
	const size = 16 << 20
	dev := &counting{Wrapper: device.Wrapper{Device: inner}, Pinner: pinner, sizes: map[device.Ptr]int64{}}
	r, err := linkbench.Run(ctx, dev, linkbench.Options{Size: size, Repeats: 2, Copiers: 1, Curves: true, CurveTime: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	if pinningRefused(r) {
		t.Skipf("the system does not let the test pin memory: %v", r.Skipped)
	}
	const besides = 1 << 20 // the list of blocks
	if dev.peak < size || dev.peak > size+besides {
		t.Errorf("%d bytes of device memory for copies of %d", dev.peak, size)
	}
	if dev.pinPeak < size || dev.pinPeak > 2*size {
		t.Errorf("%d bytes of pinned memory for copies of %d", dev.pinPeak, size)
	}
}

// counting is a device that counts what is taken of it. It leaves segments of
// less than 16 MiB out, which are the rings of copiers.
type counting struct {
	device.Wrapper
	device.Pinner
	mu           sync.Mutex
	sizes        map[device.Ptr]int64
	now, peak    int64
	pin, pinPeak int64
}

func (d *counting) Alloc(n int64) (device.Ptr, error) {
	p, err := d.Device.Alloc(n)
	d.mu.Lock()
	defer d.mu.Unlock()
	if err == nil {
		d.sizes[p] = n
		d.now += n
		d.peak = max(d.peak, d.now)
	}
	return p, err
}

func (d *counting) Free(p device.Ptr) error {
	d.mu.Lock()
	d.now -= d.sizes[p]
	d.mu.Unlock()
	return d.Device.Free(p)
}

func (d *counting) Pin(b []byte, flags device.PinFlags) error {
	d.count(b, 1)
	return d.Pinner.Pin(b, flags)
}

func (d *counting) Unpin(b []byte) error {
	d.count(b, -1)
	return d.Pinner.Unpin(b)
}

func (d *counting) count(b []byte, sign int64) {
	if len(b) < 16<<20 {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pin += sign * int64(len(b))
	d.pinPeak = max(d.pinPeak, d.pin)
}

// Where memory is short, the default size is smaller, and one that was asked for
// is an error that says which one fits.
func TestShortOfMemory(t *testing.T) {
	dev := devicetest.Open(t)
	const mib = 1 << 20
	linkbench.SetAvailable(t, 8*mib)
	r, err := linkbench.Run(ctx, dev, linkbench.Options{Repeats: 1})
	if err != nil {
		t.Fatal(err)
	}
	check(t, r)
	if r.Size != mib || !strings.Contains(r.SizeReason, "1 GiB") || !strings.Contains(r.SizeReason, "8 MiB are available") {
		t.Errorf("%d bytes, because %q", r.Size, r.SizeReason)
	}
	for _, size := range []int64{2 * mib, 1 << 30, math.MaxInt64} {
		r, err := linkbench.Run(ctx, dev, linkbench.Options{Size: size})
		if r != nil || !errors.Is(err, linkbench.ErrMemory) && !errors.Is(err, device.ErrOutOfMemory) || !strings.Contains(fmt.Sprint(err), "--size 1MiB fits") {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
	linkbench.SetAvailable(t, 1000)
	if r, err := linkbench.Run(ctx, dev, linkbench.Options{}); r != nil || !errors.Is(err, linkbench.ErrMemory) {
		t.Errorf("%v, want %q", err, linkbench.ErrMemory)
	}
}

// A device that brings other bytes than were sent is found out.
func TestWrongBytes(t *testing.T) {
	for _, toHost := range []bool{false, true} {
		dev := &garbling{Wrapper: device.Wrapper{Device: devicetest.Open(t)}, toHost: toHost}
		if r, err := linkbench.Run(ctx, dev, linkbench.Options{Size: 64 << 10, Repeats: 1}); err == nil {
			t.Errorf("to host %t: a report about copies that bring the wrong bytes: %q", toHost, rows(r))
		}
	}
}

// garbling is a device that drops the last byte of copies in one direction.
type garbling struct {
	device.Wrapper
	toHost bool
}

func (d *garbling) NewStream() (device.Stream, error) {
	s, err := d.Device.NewStream()
	return garblingStream{device.StreamWrapper{Stream: s}, d.toHost}, err
}

type garblingStream struct {
	device.StreamWrapper
	toHost bool
}

func (s garblingStream) CopyH2D(dst device.Ptr, src []byte) error {
	if !s.toHost && len(src) > 0 {
		src = src[:len(src)-1]
	}
	return s.Stream.CopyH2D(dst, src)
}

func (s garblingStream) CopyD2H(dst []byte, src device.Ptr) error {
	if s.toHost && len(dst) > 0 {
		dst = dst[:len(dst)-1]
	}
	return s.Stream.CopyD2H(dst, src)
}

func TestOptionsOutOfRange(t *testing.T) {
	dev := devicetest.Open(t)
	for _, o := range []linkbench.Options{
		{Size: -1}, {Size: 1}, {Size: 16<<10 - 1}, {Size: math.MinInt64},
		{Repeats: -1}, {Copiers: -1}, {CurveTime: -1},
	} {
		o.Progress = func(int, int, string) { t.Errorf("%+v: began", o) }
		if r, err := linkbench.Run(ctx, dev, o); r != nil || !errors.Is(err, device.ErrArgument) {
			t.Errorf("size %d, repeats %d, copiers %d: %v, want %q", o.Size, o.Repeats, o.Copiers, err, device.ErrArgument)
		}
	}
}

func TestTooLargeForDevice(t *testing.T) {
	dev := devicetest.Open(t)
	before, err := dev.Memory()
	if err != nil {
		t.Fatal(err)
	}
	size := before.TotalBytes + 1<<20
	if r, err := linkbench.Run(ctx, dev, linkbench.Options{Size: size}); r != nil || !errors.Is(err, device.ErrOutOfMemory) {
		t.Errorf("size %d of %d: %v, want %q", size, before.TotalBytes, err, device.ErrOutOfMemory)
	}
	if after, err := dev.Memory(); err != nil || after.TotalBytes-after.FreeBytes > before.TotalBytes-before.FreeBytes+16<<20 {
		t.Errorf("%d bytes free before, %d after (%v)", before.FreeBytes, after.FreeBytes, err)
	}
}

// A context that ends at any step ends the run there, and gives everything
// back.
func TestCancel(t *testing.T) {
	dev := devicetest.Open(t)
	options := linkbench.Options{Size: 64 << 10, Repeats: 2, Copiers: 1, Curves: true}
	steps, at, total := 0, 0, 0
	options.Progress = func(step, of int, what string) {
		steps++
		if step < 0 || step >= of || what == "" {
			t.Errorf("step %d of %d, %q", step, of, what)
		}
		if step < at || of < total {
			t.Errorf("step %d of %d comes after step %d of %d", step, of, at, total)
		}
		at, total = step, of
	}
	if _, err := linkbench.Run(ctx, dev, options); err != nil {
		t.Fatal(err)
	}
	if steps < 10 {
		t.Fatalf("%d steps", steps)
	}
	before, err := dev.Memory()
	if err != nil {
		t.Fatal(err)
	}
	stride := 1
	if dev.Info().Backend != "host" {
		stride = steps / 5 // each run loads kernels, which takes its time there
	}
	for at := 1; at <= steps; at += stride {
		ctx, cancel := context.WithCancel(ctx)
		step := 0
		options.Progress = func(int, int, string) {
			if step++; step == at {
				cancel()
			}
		}
		r, err := linkbench.Run(ctx, dev, options)
		cancel()
		if r != nil || !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled at step %d of %d: %v", at, steps, err)
		}
		if step != at && at > 1 { // the first is before anything could be stopped
			t.Errorf("cancelled at step %d, went on to %d", at, step)
		}
	}
	if dev.Info().Backend == "host" { // others may share the device
		if after, err := dev.Memory(); err != nil || after.FreeBytes != before.FreeBytes {
			t.Errorf("%d bytes free before, %d after (%v)", before.FreeBytes, after.FreeBytes, err)
		}
	}
}

// check looks for figures that cannot be.
func check(t *testing.T, r *linkbench.Report) {
	t.Helper()
	best := map[string]int{}
	for _, row := range r.Bulk {
		if !(row.Least > 0 && row.Least <= row.Median && row.Median <= row.Most) || math.IsInf(row.Most, 0) {
			t.Errorf("%+v: not ordered", row)
		}
		if !(row.OfBest > 0 && row.OfBest <= 1) {
			t.Errorf("%+v: not a share of the best", row)
		}
		if row.OfBest == 1 {
			best[row.Direction]++
		}
	}
	for _, direction := range []string{"h2d", "d2h"} {
		if best[direction] == 0 {
			t.Errorf("no best path %s in %+v", direction, r.Bulk)
		}
	}
	for _, row := range append(slices.Clone(r.Small), r.Pin...) {
		if row.What == "" || row.Least < 0 || row.Least > row.Median || row.Median > row.Most || row.Most > time.Hour {
			t.Errorf("%+v: not ordered", row)
		}
	}
	for _, s := range r.Skipped {
		if s.Path == "" || s.Why == nil {
			t.Errorf("skipped %+v", s)
		}
	}
}

func pinningRefused(r *linkbench.Report) bool {
	return slices.ContainsFunc(r.Skipped, func(s linkbench.Skipped) bool { return errors.Is(s.Why, device.ErrPinLimit) })
}

func rows(r *linkbench.Report) (list []string) {
	for _, row := range r.Bulk {
		list = append(list, row.Path+" "+row.Direction)
	}
	return list
}

// skipped lists the rows that skipped paths would have.
func skipped(r *linkbench.Report) (list []string) {
	for _, s := range r.Skipped {
		if s.Path == "pinned, both at once" {
			list = append(list, "pinned both")
			continue
		}
		list = append(list, s.Path+" h2d", s.Path+" d2h")
	}
	return list
}

func sameSet(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

package collbench

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/errs"
	"github.com/pinion-gpu/pinion/internal/measure"
	"github.com/pinion-gpu/pinion/internal/stats"
	"github.com/pinion-gpu/pinion/internal/sysmem"
	"github.com/pinion-gpu/pinion/internal/units"
	"github.com/pinion-gpu/pinion/parallel"
	"github.com/pinion-gpu/pinion/parallel/auto"
	"github.com/pinion-gpu/pinion/parallel/control"
	"github.com/pinion-gpu/pinion/parallel/launch"
	"github.com/pinion-gpu/pinion/parallel/local"
)

// SmallBytes is the largest size of which single calls are timed, too.
const SmallBytes = 64 << 10

// Options say what is measured, the same on all ranks. Every field is needed, but for
// those with a default.
type Options struct {
	Operations []string    // of Operations
	Min, Max   int64       // sizes in bytes, multiples of an element
	Exact      bool        // Max may not be less where memory is short; default: it may
	Factor     int         // from a size to the next, at least 2
	Repeats    int         // timed calls of each size, at least 1
	Warmup     int         // calls before them; default: none
	Type       dtype.DType // of elements
	Op         parallel.Op // of reductions

	Progress func(step, steps int, what string) // default: nobody is told
}

// Report is what was measured.
type Report struct {
	Options           // Max as it was
	SizeReason string // why Max is less than it was to be; "" if it is not

	World launch.World // of this rank
	Hosts int          // that the ranks were on
	Rows  []Row
}

// Row is an operation of a size.
type Row struct {
	Operation string
	Bytes     int64
	Wrong     string // which rank got something wrong; "" if all was right

	Apart, InPlace *Timing // nil where there is none
}

// Timing is what a call took, on the slowest rank.
type Timing struct {
	Mean   float64 // seconds, of calls back to back
	Single float64 // seconds, median of calls that are waited for; 0: not measured

	Algorithm, Bus float64 // bytes a second, by Mean
}

// Best is the timing of a row that pages draw: out of place, where there is one.
func (r *Row) Best() *Timing {
	if r.Apart != nil {
		return r.Apart
	}
	return r.InPlace
}

// errInterrupted is what other ranks hear of one whose context ended.
var errInterrupted = errors.New("interrupted")

// bench is a run, as a rank sees it.
type bench struct {
	*auto.Ranks
	*Options
	ctx      context.Context
	stream   device.Stream
	a, b     device.Ptr // of the largest size
	combined pattern    // what reductions give
}

// Run measures as one of several ranks. It fails on all if it fails on one, or if they do
// not have the same options, and with ctx's error when that ends.
func Run(ctx context.Context, ranks *auto.Ranks, o Options) (report *Report, err error) {
	defer context.AfterFunc(ctx, func() { ranks.Fail(errInterrupted) })()
	defer func() {
		if err == nil {
			return
		}
		report = nil
		ranks.Fail(err)
		var of *control.RankError
		if ctx.Err() != nil && errors.As(err, &of) && of.Reason == errInterrupted.Error() {
			err = ctx.Err()
		}
	}()
	report = &Report{Options: o, World: ranks.World}
	b := &bench{Ranks: ranks, Options: &report.Options, ctx: ctx}
	if err := b.agree(); err != nil {
		return nil, err
	}
	if report.Hosts, err = b.hosts(); err != nil {
		return nil, err
	}
	if report.SizeReason, err = b.fit(); err != nil {
		return nil, err
	}
	if err := b.alloc(); err != nil {
		return nil, err
	}
	defer func() { err = cmp.Or(err, b.free()) }()
	if report.Rows, err = b.rows(); err == nil {
		err = ctx.Err()
	}
	return report, err
}

// agree fails on all ranks if they do not measure the same.
func (b *bench) agree() error {
	sizes := fmt.Sprintf("%s to %s by %d", units.ExactBytes(b.Min), units.ExactBytes(b.Max), b.Factor)
	if !b.Exact {
		sizes += " or less"
	}
	for _, x := range [][2]string{
		{"the sizes", sizes},
		{"the elements", fmt.Sprintf("%v of %v", b.Op, b.Type)},
		{"the calls", fmt.Sprintf("%d, and %d to warm up", b.Repeats, b.Warmup)},
		{"the operations", strings.Join(b.Operations, ", ")},
	} {
		if err := b.Agree(b.ctx, x[0], x[1]); err != nil {
			return err
		}
	}
	return nil
}

// hosts counts those that the ranks are on.
func (b *bench) hosts() (int, error) {
	name, err := os.Hostname()
	if err != nil {
		return 0, err
	}
	names, err := b.Exchange(b.ctx, "hosts", []byte(name))
	seen := map[string]bool{}
	for _, n := range names {
		seen[string(n)] = true
	}
	return len(seen), err
}

// fit makes Max smaller, or fails, where there is no memory for it on a rank.
func (b *bench) fit() (reason string, err error) {
	dev := b.Comm.Device()
	memory, err := dev.Memory()
	if err != nil {
		return "", err
	}
	free := memory.FreeBytes
	if dev.Info().Integrated { // ranks of a host share it
		free = min(free, sysmem.Available()) / int64(b.World.LocalSize)
	}
	all, err := b.Exchange(b.ctx, "memory", strconv.AppendInt(nil, free, 10))
	if err != nil {
		return "", err
	}
	least, of := free, b.World.Rank
	for rank, text := range all {
		n, err := strconv.ParseInt(string(text), 10, 64)
		if err != nil {
			return "", err
		}
		if n < least {
			least, of = n, rank
		}
	}
	const buffers = 2
	most := b.Max
	if !b.Exact { // leave half to others
		for b.Max > b.Min && b.Max > least/2/buffers {
			b.Max = max(b.Min, b.Max/int64(b.Factor)/int64(b.Type.Size())*int64(b.Type.Size()))
		}
	}
	if b.Max > least/buffers {
		return "", fmt.Errorf("%w: each rank needs %d buffers of %s, and rank %d may have %s", sysmem.ErrMemory,
			buffers, units.Bytes(b.Max), of, units.Bytes(least))
	}
	if b.Max < most {
		reason = fmt.Sprintf("%d buffers of %s for each rank would be more than half of what rank %d may have, %s", buffers, units.Bytes(most), of, units.Bytes(least))
	}
	return reason, nil
}

func (b *bench) alloc() (err error) {
	dev, most := b.Comm.Device(), int64(0)
	for _, name := range b.Operations {
		most = max(most, slices.Max(b.sizes(name)))
	}
	if b.stream, err = dev.NewStream(); err != nil {
		return err
	}
	for _, p := range []*device.Ptr{&b.a, &b.b} {
		if *p, err = dev.Alloc(most); err != nil {
			return errors.Join(err, b.free())
		}
	}
	if slices.ContainsFunc(b.Operations, Reduces) {
		b.combined = combine(b.Type, b.Op, b.Comm.Size())
	}
	return nil
}

func (b *bench) free() error {
	err := b.stream.Close()
	for _, p := range []device.Ptr{b.a, b.b} {
		if p != 0 {
			err = errors.Join(err, b.Comm.Device().Free(p))
		}
	}
	return err
}

// rows measures everything.
func (b *bench) rows() (rows []Row, err error) {
	for _, name := range b.Operations {
		for _, size := range b.sizes(name) {
			rows = append(rows, Row{Operation: name, Bytes: size})
		}
	}
	for i := range rows {
		row := &rows[i]
		what := fmt.Sprintf("%s of %s", row.Operation, units.Bytes(row.Bytes))
		if b.Progress != nil {
			b.Progress(i, len(rows), what)
		}
		if err := b.Do(what, func() error { return b.measure(row, what) }); err != nil {
			return nil, err
		}
	}
	return rows, nil
}

// measured is what a rank tells the others of a row.
type measured struct {
	Wrong          string
	Apart, InPlace *Timing
}

// measure fills in a row, the same on all ranks.
func (b *bench) measure(row *Row, what string) (err error) {
	var own measured
	o := b.operation(row.Operation, row.Bytes)
	if o.apart {
		if own.Apart, err = b.place(row, o, b.a, b.b, &own.Wrong); err != nil {
			return err
		}
	}
	if o.inPlace {
		send, recv := b.a, b.a.Add(o.share)
		if o.gets > o.sends {
			send, recv = recv, send
		}
		if own.InPlace, err = b.place(row, o, send, recv, &own.Wrong); err != nil {
			return err
		}
	}
	text, err := json.Marshal(own)
	if err != nil {
		return err
	}
	all, err := b.Exchange(b.ctx, what, text)
	if err != nil {
		return err
	}
	for rank, text := range all {
		var x measured
		if err := json.Unmarshal(text, &x); err != nil {
			return fmt.Errorf("what rank %d measured: %w", rank, err)
		}
		if x.Wrong != "" && row.Wrong == "" {
			row.Wrong = fmt.Sprintf("%s, rank %d: %s", what, rank, x.Wrong)
		}
		row.Apart, row.InPlace = slower(row.Apart, x.Apart), slower(row.InPlace, x.InPlace)
	}
	for _, t := range []*Timing{row.Apart, row.InPlace} {
		if t != nil {
			t.Algorithm = float64(row.Bytes) / t.Mean
			t.Bus = t.Algorithm * BusFactor(row.Operation, b.Comm.Size())
		}
	}
	return nil
}

// slower has the longer times of two ranks.
func slower(a, b *Timing) *Timing {
	if a == nil || b == nil {
		return b
	}
	return &Timing{Mean: max(a.Mean, b.Mean), Single: max(a.Single, b.Single)}
}

// place checks an operation, and then times it.
func (b *bench) place(row *Row, o operation, send, recv device.Ptr, wrong *string) (*Timing, error) {
	what, t := bytesOf(b.Comm.Rank()), dtype.DType(0)
	if Reduces(row.Operation) {
		what, t = elements(b.Type, b.Op, b.Comm.Rank(), b.Comm.Size()), b.Type
	}
	call := func() error { return o.queue(send, recv) }
	if err := errors.Join(b.stream.Memset(recv, 0, o.gets), b.fill(send, o.sends, what), call(), b.stream.Synchronize()); err != nil {
		return nil, err
	}
	text, err := b.check(recv, t, o.wants)
	if err != nil {
		return nil, err
	}
	if *wrong == "" {
		*wrong = text
	}
	if _, err := b.calls(b.Warmup, call); err != nil {
		return nil, err
	}
	took, err := b.calls(b.Repeats, call)
	if err != nil || row.Bytes > SmallBytes {
		return &Timing{Mean: took / float64(b.Repeats)}, err
	}
	var single []float64
	for range b.Repeats {
		start := time.Now()
		if err := errors.Join(call(), b.stream.Synchronize()); err != nil {
			return nil, err
		}
		single = append(single, measure.Since(start, time.Second))
	}
	return &Timing{Mean: took / float64(b.Repeats), Single: stats.Median(single)}, nil
}

// calls makes calls back to back, which begin on all ranks together, and returns the
// seconds that they took.
func (b *bench) calls(n int, call func() error) (float64, error) {
	if err := b.Comm.Barrier(b.ctx); err != nil {
		return 0, err
	}
	start := time.Now()
	for range n {
		if err := call(); err != nil {
			return 0, err
		}
	}
	err := b.stream.Synchronize()
	return measure.Since(start, time.Second), err
}

// Local is Run with goroutines as ranks, all on one device, and returns what the first one
// measured. It fails with [device.ErrNotSupported] for a device that runs no Go functions.
func Local(ctx context.Context, dev device.Device, ranks int, o Options) (*Report, error) {
	if ranks < 1 {
		return nil, fmt.Errorf("%w: %d ranks", errs.ErrArgument, ranks)
	}
	comms, err := local.New(slices.Repeat([]device.Device{dev}, ranks)...)
	if err != nil {
		return nil, err
	}
	reports, failed := make([]*Report, ranks), make([]error, ranks)
	var all sync.WaitGroup
	for rank, c := range comms {
		o := o
		if rank > 0 {
			o.Progress = nil
		}
		all.Go(func() {
			r, err := auto.Over(ctx, c, auto.Options{})
			if err == nil {
				reports[rank], err = Run(ctx, r, o)
				err = cmp.Or(err, r.Close())
			}
			failed[rank] = err
		})
	}
	all.Wait()
	return reports[0], reason(failed)
}

// reason is the error of the rank that failed first: others only heard of it.
func reason(failed []error) (first error) {
	for rank, err := range failed {
		var heard *control.RankError
		switch {
		case err == nil:
		case errors.Is(err, context.Canceled):
			return err
		case !errors.As(err, &heard) || heard.Rank == rank:
			return fmt.Errorf("rank %d: %w", rank, err)
		case first == nil:
			first = err
		}
	}
	return first
}

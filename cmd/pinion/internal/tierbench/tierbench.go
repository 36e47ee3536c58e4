package tierbench

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/sysmem"
	"github.com/pinion-gpu/pinion/internal/tierdoc"
	"github.com/pinion-gpu/pinion/internal/units"
	"github.com/pinion-gpu/pinion/internal/workload"
	"github.com/pinion-gpu/pinion/pinned"
	"github.com/pinion-gpu/pinion/tier"
)

// LeastArray is how small an array may be: host memory is taken by pages.
const LeastArray = 4096

// Options say what is measured. Every field is needed, but for those with a default.
type Options struct {
	Budget     int64     // of device memory, bytes
	ArrayBytes int64     // size of an array
	Ratios     []float64 // working set / budget
	Access     []string  // ways of using arrays, of tierdoc.Accesses; default: all
	Seconds    float64   // least time of a row
	Folders    []string  // for arrays in files; none leaves that out
	Progress   func(step, steps int, what string)
}

// Report is what was measured.
type Report struct {
	LinkH2D float64 // bytes a second, arrays of pinned memory one after the other
	LinkD2H float64
	Rows    []Row

	Pressure Pressure

	NotAvailable []NotAvailable
}

// NotAvailable is who cannot hold arrays here, and why.
type NotAvailable struct{ Name, Reason string }

// Row is one working set, used in one way.
type Row struct {
	tierdoc.Use
	Ratio   float64
	By      string // who held the arrays: one of tierdoc.Holders
	Arrays  int
	Uses    int64
	Bytes   int64 // used
	Seconds float64
	Filled  int64 // bytes brought to the device
	Written int64 // bytes brought back
	Least   int64 // bytes that the best schedule brings to the device
	Fetched int64 // bytes read from files
	Saved   int64 // bytes written to files
	LRU     int64 // bytes that least recently used brings to the device
}

// Rate is the bytes used a second.
func (r Row) Rate() float64 { return float64(r.Bytes) / r.Seconds }

// Moved is the bytes moved a second, both directions together.
func (r Row) Moved() float64 { return float64(r.Filled+r.Written) / r.Seconds }

const array = "array %d" // name of an array

// bench is a run.
type bench struct {
	Options
	dev    device.Device
	stream device.Stream
	echo   device.Ptr // what uses write to, or read from
	report *Report
	step   int
	steps  int
}

// check refuses at once what would fail, or take the machine's last memory, after
// minutes: too little room, and folders that cannot be written.
func (o *Options) check(dev device.Device, available int64) error {
	most := 2.0 // of the pool under pressure
	for _, r := range o.Ratios {
		most = max(most, r)
	}
	need := o.Budget + 4*o.ArrayBytes // with what uses write to, and a ring of three
	host := int64(most*float64(o.Budget)) + 2*o.ArrayBytes
	memory, err := dev.Memory()
	if err != nil {
		return err
	}
	if memory.FreeBytes < need {
		return fmt.Errorf("%w: the run needs %s of device memory, of which %s are free", device.ErrOutOfMemory,
			units.Bytes(need), units.Bytes(memory.FreeBytes))
	}
	if dev.Info().Integrated {
		host += need
	}
	if available > 0 && available < host {
		return fmt.Errorf("%w: the run needs %s, of which %s are available", sysmem.ErrMemory, units.Bytes(host), units.Bytes(available))
	}
	if len(o.Folders) == 0 {
		return nil
	}
	s, err := tier.New(dev, tier.Options{DeviceBytes: 4 * o.ArrayBytes, HostBytes: 4 * o.ArrayBytes,
		Files: tier.Files{Folders: o.Folders, Bytes: o.ArrayBytes}})
	if err != nil {
		return err
	}
	return s.Close()
}

// Run measures on dev.
func Run(ctx context.Context, dev device.Device, o Options) (report *Report, err error) {
	if err := o.check(dev, sysmem.Available()); err != nil {
		return nil, err
	}
	var chosen []kind
	for _, k := range kinds {
		if len(o.Access) == 0 || slices.Contains(o.Access, k.Access) {
			chosen = append(chosen, k)
		}
	}
	b := &bench{Options: o, dev: dev, report: &Report{}, steps: 2 + len(o.Ratios)*len(chosen)}
	if len(o.Folders) > 0 {
		b.steps += len(o.Ratios)
	}
	if b.stream, err = dev.NewStream(); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.stream.Close()) }()
	if b.echo, err = dev.Alloc(o.ArrayBytes); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, dev.Free(b.echo)) }()
	if err := b.link(); err != nil {
		return nil, fmt.Errorf("the link: %w", err)
	}
	for _, ratio := range o.Ratios {
		for _, k := range chosen {
			if err := b.measure(ctx, ratio, k); err != nil {
				return nil, fmt.Errorf("%s, working set %gx: %w", k.Access, ratio, err)
			}
		}
	}
	for _, ratio := range o.Ratios {
		if len(o.Folders) > 0 {
			if err := b.measure(ctx, ratio, filed); err != nil {
				return nil, fmt.Errorf("files, working set %gx: %w", ratio, err)
			}
		}
	}
	b.progress("pressure")
	if b.report.Pressure, err = b.pressure(ctx); err != nil {
		return nil, fmt.Errorf("pressure: %w", err)
	}
	return b.report, nil
}

// kind is a way of using arrays, and who is measured at it.
type kind struct {
	tierdoc.Use
	by []string
}

var kinds = []kind{
	{tierdoc.Use{Access: tierdoc.Sequential}, []string{tierdoc.Store, tierdoc.Announced, tierdoc.Layers, tierdoc.Managed, tierdoc.CopyAnew}},
	{tierdoc.Use{Access: tierdoc.Sequential, Write: true}, []string{tierdoc.Announced, tierdoc.CopyAnew}},
	{tierdoc.Use{Access: tierdoc.Random}, []string{tierdoc.Store, tierdoc.Announced, tierdoc.CopyAnew}},
	{tierdoc.Use{Access: tierdoc.Zipf}, []string{tierdoc.Store, tierdoc.Announced, tierdoc.Managed, tierdoc.CopyAnew}},
}

// filed is what is measured where there are folders.
var filed = kind{tierdoc.Use{Access: tierdoc.Sequential}, []string{tierdoc.Files}}

// missing notes once that nothing is held by that name, and why.
func (b *bench) missing(name, why string) {
	if n := (NotAvailable{name, why}); !slices.Contains(b.report.NotAvailable, n) {
		b.report.NotAvailable = append(b.report.NotAvailable, n)
	}
}

func (b *bench) progress(what string) {
	if b.step++; b.Progress != nil {
		b.Progress(b.step, b.steps, what)
	}
}

// link times arrays of pinned memory, copied one after the other.
func (b *bench) link() (err error) {
	b.progress("link")
	const arrays = 4
	pool, err := pinned.NewPool(b.dev, pinned.Options{Budget: arrays*b.ArrayBytes + 1<<20, AllowPageable: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, pool.Close()) }()
	var bufs []*pinned.Buffer
	defer func() {
		for _, x := range bufs {
			err = errors.Join(err, x.Free())
		}
	}()
	for range arrays {
		x, err := pool.Alloc(context.Background(), b.ArrayBytes)
		if err != nil {
			return err
		}
		bufs = append(bufs, x)
	}
	for _, toHost := range []bool{false, true} {
		var bytes int64
		var start time.Time
		for i := 0; ; i++ {
			if i == 1 {
				start = time.Now()
			}
			for _, x := range bufs {
				if toHost {
					err = b.stream.CopyD2H(x.Bytes(), b.echo)
				} else {
					err = b.stream.CopyH2D(b.echo, x.Bytes())
				}
				if err != nil {
					return err
				}
			}
			if err := b.stream.Synchronize(); err != nil {
				return err
			}
			if i == 0 {
				continue
			}
			bytes += arrays * b.ArrayBytes
			if t := time.Since(start).Seconds(); t > b.Seconds {
				if toHost {
					b.report.LinkD2H = float64(bytes) / t
				} else {
					b.report.LinkH2D = float64(bytes) / t
				}
				break
			}
		}
	}
	return nil
}

func (b *bench) measure(ctx context.Context, ratio float64, k kind) error {
	b.progress(fmt.Sprintf("%v, %gx", k.Use, ratio))
	n := max(int(ratio*float64(b.Budget)/float64(b.ArrayBytes)), 1)
	uses := trace(k.Access, n)
	for _, by := range k.by {
		row := Row{Use: k.Use, Ratio: ratio, By: by, Arrays: n}
		var err error
		switch by {
		case tierdoc.CopyAnew:
			err = b.copyAll(ctx, &row, uses, k.Write)
		case tierdoc.Managed:
			var why string
			if why, err = b.managed(ctx, &row, uses, k.Write); why != "" {
				b.missing(tierdoc.Managed, why)
				continue
			}
		case tierdoc.Layers:
			err = b.layers(ctx, &row, uses)
		default:
			err = b.store(ctx, &row, uses, k.Write)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", by, err)
		}
		b.report.Rows = append(b.report.Rows, row)
	}
	return nil
}

// touch queues work that reads all of an array, or writes all of it.
func (b *bench) touch(p device.Ptr, write bool) error {
	if write {
		return b.stream.CopyD2D(p, b.echo, b.ArrayBytes)
	}
	return b.stream.CopyD2D(b.echo, p, b.ArrayBytes)
}

// rounds repeats a trace until a row has its time: one round to warm up, and then
// counted ones, all of them whole. The host is a round ahead of the device.
func (b *bench) rounds(row *Row, uses []int, use func(i int) error, begin func(), end func()) (err error) {
	var marks [2]device.Event
	defer func() {
		for _, e := range marks {
			if e != nil {
				err = errors.Join(err, e.Close())
			}
		}
	}()
	for i := range marks {
		if marks[i], err = b.dev.NewEvent(device.EventNoTiming); err != nil {
			return err
		}
	}
	var start time.Time
	rounds := 0
	for ; rounds == 0 || time.Since(start).Seconds() < b.Seconds; rounds++ {
		for _, i := range uses {
			if err := use(i); err != nil {
				return err
			}
		}
		if rounds == 0 {
			if err := b.stream.Synchronize(); err != nil {
				return err
			}
			begin()
			start = time.Now()
			continue
		}
		if err := errors.Join(b.stream.Record(marks[rounds%2]), marks[(rounds+1)%2].Synchronize()); err != nil {
			return err
		}
	}
	if err := b.stream.Synchronize(); err != nil {
		return err
	}
	row.Seconds = time.Since(start).Seconds()
	b.count(row, uses, 1, rounds-1)
	end()
	return nil
}

// count notes the uses of the rounds that were counted, after others, and what the best
// schedule and least recently used would have brought in for the same ones.
func (b *bench) count(row *Row, uses []int, before, rounds int) {
	slots := int(b.Budget / b.ArrayBytes)
	row.Uses = int64(rounds) * int64(len(uses))
	row.Bytes = row.Uses * b.ArrayBytes
	row.Least = int64(workload.LeastMisses(uses, slots, before, rounds)) * b.ArrayBytes
	row.LRU = int64(workload.LRUMisses(uses, slots, before, rounds)) * b.ArrayBytes
}

// hold makes a tier.Store for a row, with its arrays.
func (b *bench) hold(ctx context.Context, row *Row) (s *tier.Store, arrays []*tier.Array, err error) {
	o := tier.Options{DeviceBytes: b.Budget, HostBytes: int64(row.Arrays+1) * b.ArrayBytes}
	if row.By == tierdoc.Files {
		o.HostBytes = b.Budget / 2
		o.Files = tier.Files{Folders: b.Folders, Bytes: int64(row.Arrays+1) * b.ArrayBytes}
	}
	if s, err = tier.New(b.dev, o); err != nil {
		return nil, nil, err
	}
	if arrays, err = b.fill(ctx, s, row.Arrays); err != nil {
		return nil, nil, errors.Join(err, s.Close())
	}
	return s, arrays, nil
}

// store measures a tier.Store.
func (b *bench) store(ctx context.Context, row *Row, uses []int, write bool) (err error) {
	s, arrays, err := b.hold(ctx, row)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if row.By != tierdoc.Store {
		order := make([]*tier.Array, len(uses))
		for i, x := range uses {
			order[i] = arrays[x]
		}
		if row.Access == tierdoc.Sequential {
			s.Sequential(arrays...)
		} else {
			s.Replay(order)
		}
	}
	head := make([]byte, stampBytes)
	check := !write
	var before tier.Stats
	return b.rounds(row, uses, func(i int) error {
		access := tier.Read(arrays[i])
		if write {
			access = tier.Write(arrays[i])
		}
		lease, err := s.Use(ctx, b.stream, access)
		if err != nil {
			return err
		}
		if check { // in the first round
			if err := errors.Join(b.stream.CopyD2H(head, lease.Ptr(arrays[i])), b.stream.Synchronize()); err != nil {
				return err
			}
			if want := stamped(i); !bytes.Equal(head, want) {
				return fmt.Errorf("array %d begins with %x, want %x", i, head, want)
			}
		}
		return errors.Join(b.touch(lease.Ptr(arrays[i]), write), lease.Release())
	}, func() {
		check = false
		before = s.Stats()
	}, func() {
		now := s.Stats()
		row.Filled = now.FilledBytes - before.FilledBytes
		row.Written = now.WrittenBytes - before.WrittenBytes
		row.Fetched = now.FetchedBytes - before.FetchedBytes
		row.Saved = now.SavedBytes - before.SavedBytes
	})
}

// layers measures a tier.Stream with a step for each array.
func (b *bench) layers(ctx context.Context, row *Row, uses []int) (err error) {
	s, arrays, err := b.hold(ctx, row)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	heads := make([]byte, len(uses)*stampBytes)
	check := true
	var steps []tier.Step
	for k, i := range uses {
		steps = append(steps, tier.Step{Name: arrays[i].Name(), Use: []tier.Access{tier.Read(arrays[i])},
			Run: func(stream device.Stream, l *tier.Lease) error {
				if check {
					return stream.CopyD2H(heads[k*stampBytes:(k+1)*stampBytes], l.Ptr(arrays[i]))
				}
				return b.touch(l.Ptr(arrays[i]), false)
			}})
	}
	network, err := s.NewStream(steps...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, network.Close()) }()
	if _, err := network.Run(ctx, b.stream, 1); err != nil {
		return errors.Join(err, b.stream.Synchronize())
	}
	for k, i := range uses {
		if got := heads[k*stampBytes : (k+1)*stampBytes]; !bytes.Equal(got, stamped(i)) {
			return fmt.Errorf("array %d begins with %x, want %x", i, got, stamped(i))
		}
	}
	check = false
	before, rounds, r := 1, 1, tier.StreamReport{}
	for i := range 2 { // the first round says how many take the time of a row
		if r, err = network.Run(ctx, b.stream, rounds); err != nil {
			return errors.Join(err, b.stream.Synchronize())
		}
		if i == 0 {
			before, rounds = 2, int(min(max(b.Seconds/r.Time.Seconds(), 1), 1e6))
		}
	}
	row.Seconds = r.Time.Seconds()
	b.count(row, uses, before, r.Rounds)
	row.Filled, row.Written = r.Filled, r.Written
	return nil
}

// copyAll measures what a program does that holds nothing: it copies each array in
// before its use, and out after it was written, with three buffers in turn.
func (b *bench) copyAll(ctx context.Context, row *Row, uses []int, write bool) (err error) {
	pool, err := pinned.NewPool(b.dev, pinned.Options{Budget: int64(row.Arrays)*b.ArrayBytes + 1<<20, AllowPageable: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, pool.Close()) }()
	host := make([]*pinned.Buffer, row.Arrays)
	defer func() {
		for _, x := range host {
			if x != nil {
				err = errors.Join(err, x.Free())
			}
		}
	}()
	for i := range host {
		if host[i], err = pool.Alloc(ctx, b.ArrayBytes); err != nil {
			return err
		}
	}
	ring, err := newRing(b)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ring.close()) }()
	err = b.rounds(row, uses, func(i int) error { return ring.use(host[i].Bytes(), write) }, func() {}, func() {})
	if err == nil {
		err = ring.out.Synchronize()
	}
	row.Filled = row.Bytes
	if write {
		row.Written = row.Bytes
	}
	return err
}

const stampBytes = 8

func stamped(i int) []byte { return binary.LittleEndian.AppendUint64(nil, uint64(i)+0x5151) }

// fill makes arrays that begin with their stamps.
func (b *bench) fill(ctx context.Context, s *tier.Store, n int) ([]*tier.Array, error) {
	arrays := make([]*tier.Array, n)
	for i := range arrays {
		var err error
		if arrays[i], err = s.NewArray(fmt.Sprintf(array, i), b.ArrayBytes); err != nil {
			return nil, err
		}
	}
	var all sync.WaitGroup
	workers := runtime.GOMAXPROCS(0)
	errs := make([]error, workers)
	for w := range workers {
		all.Go(func() {
			for i := w; i < n && errs[w] == nil; i += workers {
				errs[w] = arrays[i].WriteAt(ctx, stamped(i), 0)
			}
		})
	}
	all.Wait()
	return arrays, errors.Join(errs...)
}

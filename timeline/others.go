package timeline

import (
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/cupti"
)

// others records what other libraries of the process queue on GPUs, as CUPTI tells it.
// CUPTI tells of all work, Pinion's own too. Streams of wrapped devices tell of theirs
// themselves, with its call, and so are left out here.
type others struct {
	r      *Recording
	tracer *cupti.Tracer

	mu      sync.Mutex
	offset  int64 // what CUPTI's clock is ahead of the recording's
	error   int64 // by which that may be off
	sampled bool
	own     map[streamKey]struct{}
	rows    map[streamKey]int32
	streams map[uint32]int // how many of a device have rows
	devices map[string]struct{}
	names   map[string]int32 // of kernels, as CUPTI has them
	refused int64
}

// streamKey is a stream as CUPTI numbers it.
type streamKey struct{ device, stream uint32 }

// mostEarly is by how much a time may lie outside of the recording, in nanoseconds: two
// clocks are compared.
const mostEarly = 10_000_000

func startOthers(r *Recording) (*others, error) {
	o := &others{r: r, own: map[streamKey]struct{}{}, rows: map[streamKey]int32{}, streams: map[uint32]int{}, devices: map[string]struct{}{}, names: map[string]int32{}}
	o.mu.Lock() // nothing is recorded before the clocks were compared
	var err error
	if o.tracer, err = cupti.Start(o.record); err == nil {
		err = o.compare()
	}
	o.mu.Unlock()
	if err != nil && o.tracer != nil {
		_ = o.tracer.Stop() // it waits for what is being recorded
	}
	if err != nil {
		return nil, err
	}
	return o, nil
}

// compare compares the clocks: of a few tries, the one that took the least. The caller
// holds mu.
func (o *others) compare() error {
	best, offset := int64(-1), int64(0)
	for range 8 {
		before := o.r.now()
		theirs, err := o.tracer.Now()
		after := o.r.now()
		if err != nil {
			return err
		}
		if took := after - before; best < 0 || took < best {
			best, offset = took, theirs-(before+took/2)
		}
	}
	bound := (best + 1) / 2
	if o.sampled {
		bound += max(offset-o.offset, o.offset-offset) // what it was wrong by meanwhile
	}
	o.offset, o.error, o.sampled = offset, max(o.error, bound), true
	for id := range o.devices {
		o.r.clock(id, o.error)
	}
	return nil
}

// renew compares the clocks again: they part.
func (o *others) renew() {
	o.mu.Lock()
	defer o.mu.Unlock()
	_ = o.compare() // the old difference is still good
}

// leaveOut notes a stream that records itself, of a device that is called id.
func (o *others) leaveOut(dev device.Device, id string, s device.Stream) {
	n, ok := device.As[device.Native](dev)
	number, err := strconv.ParseUint(strings.TrimPrefix(id, "cuda:"), 10, 32)
	if !ok || n.API() != device.CUDA || err != nil {
		return
	}
	// A stream of which CUPTI knows nothing is told of twice.
	_ = n.WithStream(s, func(handle uintptr) error {
		stream, err := o.tracer.StreamID(handle)
		if err != nil {
			return err
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		o.own[streamKey{uint32(number), stream}] = struct{}{}
		return nil
	})
}

// kinds are what work of CUPTI's kinds is called, and where it runs.
var kinds = map[cupti.Kind]struct {
	engine Engine
	call   int
}{
	cupti.H2D: {H2D, callH2D}, cupti.D2H: {D2H, callD2H}, cupti.D2D: {D2D, callD2D}, cupti.P2P: {P2P, callP2P}, cupti.Memset: {Compute, callMemset},
}

// record records work that has ended. Work that lies outside of the recording is
// refused.
func (o *others) record(list []cupti.Work) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.sampled {
		return // the clocks cannot be compared
	}
	r := o.r
	now := r.now()
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range list {
		w := &list[i]
		key := streamKey{w.Device, w.Stream}
		if _, own := o.own[key]; own || w.Kind == cupti.H2H {
			continue
		}
		from, to := w.Start-o.offset, w.End-o.offset
		if from < -mostEarly || to > now+mostEarly {
			o.refused++
			continue
		}
		from = max(from, 0)
		x := record{kind: kindWork, engine: Compute, timed: true, from: from, to: max(to, from), bytes: w.Bytes}
		if w.Kind == cupti.Kernel {
			x.name = o.kernel(w.Name)
		} else {
			k := kinds[w.Kind]
			x.engine, x.name = k.engine, r.store.name(callNames[k.call])
		}
		x.row = o.row(key)
		x.lane, x.start, x.end = x.row, x.from, x.to
		r.store.put(x)
	}
}

// mostStreams is how many streams of others have rows of their own on a device. More share
// one: each kernel of a graph may be on a stream that CUPTI has made up for it.
const mostStreams = 16

// row is the number of the row of a stream. The caller holds both locks.
func (o *others) row(key streamKey) int32 {
	row, ok := o.rows[key]
	if !ok {
		id, name := fmt.Sprintf("cuda:%d", key.device), "other streams"
		if o.streams[key.device] < mostStreams {
			name = fmt.Sprintf("other stream %d", key.stream)
		}
		o.streams[key.device]++
		row = o.r.store.row(id, name)
		o.rows[key] = row
		o.devices[id] = struct{}{}
		o.r.clocks[id] = max(o.r.clocks[id], o.error)
	}
	return row
}

// kernel is the number of the name of a kernel. The caller holds both locks.
func (o *others) kernel(name string) int32 {
	id, ok := o.names[name]
	if !ok {
		id = o.r.store.name(kernelName(cupti.Demangle(name)))
		if len(o.names) < mostNames {
			o.names[name] = id
		}
	}
	return id
}

// longestName is where names of kernels are cut: those of templates have no end.
const longestName = 200

// kernelName is the name of a function of C++ without its arguments and result:
// "void f<int>(int*, g(*)(int))" becomes "f<int>".
func kernelName(name string) string {
	if strings.HasSuffix(name, ")") {
		for i, open := len(name)-1, 0; i >= 0; i-- {
			switch name[i] {
			case ')':
				open++
			case '(':
				open--
			}
			if open == 0 {
				name = name[:i]
				break
			}
		}
	}
	name = strings.TrimPrefix(name, "void ")
	if len(name) > longestName {
		name = strings.ToValidUTF8(name[:longestName], "") + "…"
	}
	if name == "" {
		name = "kernel"
	}
	return name
}

// lost is how many records of CUPTI's are not in the recording, though they should be.
func (o *others) lost() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.refused + o.tracer.Dropped() + o.tracer.Refused()
}

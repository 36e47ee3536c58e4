package cupti

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"
)

// flushEvery is how often CUPTI is asked for the records of buffers that are not full.
const flushEvery = time.Second

// forced makes a flush give back buffers with records of work that has not ended, too.
const forced = 1

// kinds are what is traced. Not all need to be known to the library.
var kinds = [...]uintptr{kindKernel, kindMemcpy, kindMemset, kindMemcpy2}

// Tracer tells of the work of this process's GPUs until it is stopped.
type Tracer struct {
	a          *api
	sink       func([]Work)
	subscriber *uintptr
	enabled    []uintptr
	ready      chan struct{}
	quit       chan struct{}
	ended      chan struct{}
	stopping   sync.Once
	stopped    error

	dropped, refused atomic.Int64

	// Of the goroutine that reads.
	list   []Work
	names  map[uintptr]string
	record *uintptr
	count  *uintptr
}

// active is the tracer of the process.
var active atomic.Pointer[Tracer]

// Start begins to tell sink of the work of this process's GPUs, some time after it was
// done. One goroutine calls sink; it must not keep the list. Stop the tracer.
func Start(sink func([]Work)) (*Tracer, error) {
	a, err := library()
	if err != nil {
		return nil, fmt.Errorf("cupti: %w", err)
	}
	t := &Tracer{
		a: a, sink: sink, subscriber: new(uintptr), ready: make(chan struct{}, 1), quit: make(chan struct{}), ended: make(chan struct{}),
		names: map[uintptr]string{}, record: new(uintptr), count: new(uintptr),
	}
	if !active.CompareAndSwap(nil, t) {
		return nil, fmt.Errorf("cupti: %w", ErrBusy)
	}
	if err := t.begin(); err != nil {
		active.Store(nil)
		return nil, fmt.Errorf("cupti: %w", err)
	}
	go t.run()
	return t, nil
}

func (t *Tracer) begin() error {
	f := callbacks()
	// No callback of an API is asked for. The subscriber only keeps others from using
	// CUPTI at the same time, whose callbacks for buffers these would replace.
	if err := t.a.check("cuptiSubscribe", t.a.subscribe.Call(uintptr(unsafe.Pointer(t.subscriber)), f.event, 0)); err != nil {
		return err
	}
	open(t.ready)
	err := t.a.check("cuptiActivityRegisterCallbacks", t.a.register.Call(f.requested, f.completed))
	for _, kind := range kinds {
		if err != nil {
			break
		}
		if err = t.a.check("cuptiActivityEnable", t.a.enable.Call(kind)); err == nil {
			t.enabled = append(t.enabled, kind)
		}
	}
	if err != nil {
		_ = t.end()
	}
	return err
}

// end undoes begin.
func (t *Tracer) end() error {
	failed := []error{t.flush(0)}
	for _, kind := range t.enabled {
		failed = append(failed, t.a.check("cuptiActivityDisable", t.a.disable.Call(kind)))
	}
	failed = append(failed, t.flush(forced))
	open(nil)
	return errors.Join(append(failed, t.a.check("cuptiUnsubscribe", t.a.unsubscribe.Call(*t.subscriber)))...)
}

// Stop ends the tracing, once sink has all that there is. Work that has not ended is
// left out: wait for the GPUs first. A second Stop does nothing.
func (t *Tracer) Stop() error {
	t.stopping.Do(func() {
		close(t.quit)
		<-t.ended
		t.stopped = t.end()
		t.read()
		active.CompareAndSwap(t, nil)
	})
	return t.stopped
}

func (t *Tracer) run() {
	defer close(t.ended)
	flush := time.NewTicker(flushEvery)
	defer flush.Stop()
	for {
		select {
		case <-t.ready:
			t.read()
		case <-flush.C:
			_ = t.flush(0) // what it fails with, Stop's fails with
		case <-t.quit:
			return
		}
	}
}

// flush makes CUPTI give back the buffers whose work has ended.
func (t *Tracer) flush(flag uintptr) error {
	return t.a.check("cuptiActivityFlushAll", t.a.flush.Call(flag))
}

// read reads what CUPTI has given back.
func (t *Tracer) read() {
	for _, f := range fullBuffers() {
		clear(t.names) // a module that was unloaded may have left them to another
		t.records(f)
		giveBack(f)
		*t.count = 0
		if t.a.dropped.Call(0, 0, uintptr(unsafe.Pointer(t.count))) == 0 {
			t.dropped.Add(int64(*t.count))
		}
		if len(t.list) > 0 {
			t.sink(t.list)
		}
	}
}

// records reads the records of a buffer into list.
func (t *Tracer) records(f full) {
	t.list = t.list[:0]
	*t.record = 0
	for last := uintptr(0); ; last = *t.record {
		if t.a.next.Call(f.address, f.valid, uintptr(unsafe.Pointer(t.record))) != 0 {
			return // the end, or a record that CUPTI itself does not know
		}
		p := *t.record
		if p <= last || p < f.address || p >= f.address+f.valid {
			t.refused.Add(1)
			return
		}
		if w, ok := read(p, f.address+f.valid-p, t.names); ok {
			t.list = append(t.list, w)
		} else {
			t.refused.Add(1)
		}
	}
}

// Now is CUPTI's time, in nanoseconds of a clock of its own.
func (t *Tracer) Now() (int64, error) {
	now := new(int64)
	err := t.a.check("cuptiGetTimestamp", t.a.clock.Call(uintptr(unsafe.Pointer(now))))
	return *now, err
}

// StreamID is what [Work].Stream has for a stream of the context that is current for the
// calling thread.
func (t *Tracer) StreamID(handle uintptr) (uint32, error) {
	id := new(uint32)
	err := t.a.check("cuptiGetStreamIdEx", t.a.streamID.Call(0, handle, 0, uintptr(unsafe.Pointer(id))))
	return *id, err
}

// Dropped is how many records CUPTI had no room for.
func (t *Tracer) Dropped() int64 { return t.dropped.Load() }

// Refused is how many records were not believed, or had no times.
func (t *Tracer) Refused() int64 { return t.refused.Load() }

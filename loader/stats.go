package loader

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pinion-gpu/pinion/dtype"
)

// Stats counts what a loader has done so far.
type Stats struct {
	Samples       int64 // delivered by Next
	Batches       int64
	Errors        int64 // samples that could not be read and were left out or replaced
	Replaced      int64 // of those, the ones with another in their place
	BytesToDevice int64 // copied over the link, for the batches delivered

	// DeviceWait is the time that was spent waiting in Next: how long a device
	// that does nothing else would have been idle for want of data.
	DeviceWait time.Duration

	// Stages is the time spent in each stage, in the order of the pipeline.
	Stages []Stage

	Batch    int    // Options.Batch, or what AutoBatch came to
	BatchWhy string // why AutoBatch is not larger; else empty

	Shape []int       // of a full batch on the device
	DType dtype.DType // of its elements

	Workers       int
	Devices       int
	Slabs         int    // batches of host memory
	DeviceBuffers int    // batches of device memory
	Reading       int    // slabs that hold batches now: being read, waiting, on their way
	Ready         int    // batches queued to devices now that Next has not returned
	HostBytes     int64  // of the slabs
	DeviceBytes   int64  // of the device buffers
	Pinned        bool   // whether the slabs are page-locked
	PageableWhy   string // why not
	StagingBytes  int64  // pinned memory that slabs are copied through where they are not
	DecodeDevice  bool   // whether the device decodes pictures
	DecodeWhy     string // why not, where there are pictures to decode
	TakenPictures int64  // that workers took from the device, see [AutoShare]
}

// Stage is one stage of the pipeline. Stages run at the same time, those of
// workers in every worker, so times do not add up to the time that passed.
type Stage struct {
	Name  string        // "read", "decode", "resize", "idle", "h2d", "transform"
	Where string        // "worker" or "device"
	Time  time.Duration // over all workers
}

type counters struct {
	samples, batches, bytes atomic.Int64
	skipped, replaced       atomic.Int64
	deviceWait              waits
	copyTime, transformTime atomic.Int64
	deviceDecode            atomic.Int64
}

// waits adds up time that one goroutine at a time waits. What it waits now counts as it
// passes: who looks every second must not find nothing in a wait of a minute.
type waits struct {
	mu    sync.Mutex
	ended time.Duration
	since time.Time // zero: nobody waits
}

func (w *waits) begin() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.since = time.Now()
	return w.since
}

func (w *waits) end(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended += now.Sub(w.since)
	w.since = time.Time{}
}

func (w *waits) sum() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.since.IsZero() {
		return w.ended
	}
	return w.ended + time.Since(w.since)
}

// arrived counts a batch that is with the caller.
func (c *counters) arrived(b *Batch) {
	c.samples.Add(int64(b.Shape[0]))
	c.batches.Add(1)
	c.bytes.Add(b.buffer.queued)
}

// moved counts the times of a batch that is complete on the device.
func (c *counters) moved(d *deviceBuffer) {
	if d.timed == 0 {
		return
	}
	if !d.staged {
		if t, err := d.events.copied.Since(d.events.copyBegin); err == nil {
			c.copyTime.Add(int64(d.timed) * int64(t))
		}
	}
	if d.feeder.form.queue == nil {
		return
	}
	if t, err := d.events.complete.Since(d.events.transformBegin); err == nil {
		c.transformTime.Add(int64(d.timed) * int64(t))
	}
}

// Stats reports what the loader has done. It may be called at any time from
// any goroutine.
func (l *Loader) Stats() Stats {
	c := &l.counters
	work, idle := l.times.Spent()
	l.position.Lock()
	ready := len(l.ready)
	l.position.Unlock()
	slabs, free, buffers, deviceBytes, stagingBytes := 0, 0, 0, int64(0), int64(0)
	for _, n := range l.feeders {
		slabs += cap(n.free)
		free += len(n.free)
		made := int(n.buffersMade.Load())
		buffers += made
		each := l.layout.Bytes()
		if n.form.queue != nil {
			each += n.batchBytes()
		}
		deviceBytes += int64(made) * each
		stagingBytes += n.staging.Bytes()
	}
	first := l.feeders[0]
	onDevice := func(name string, nanoseconds *atomic.Int64) Stage {
		return Stage{name, "device", time.Duration(nanoseconds.Load())}
	}
	return Stats{
		Samples:       c.samples.Load(),
		Batches:       c.batches.Load(),
		Errors:        c.skipped.Load() + c.replaced.Load(),
		Replaced:      c.replaced.Load(),
		BytesToDevice: c.bytes.Load(),
		DeviceWait:    c.deviceWait.sum(),
		Stages: []Stage{
			{"read", "worker", work.Read},
			{"decode", "worker", work.Decode},
			{"resize", "worker", work.Resize},
			{"idle", "worker", idle},
			onDevice("h2d", &c.copyTime),
			onDevice("decode on device", &c.deviceDecode),
			onDevice("transform", &c.transformTime),
		},
		Batch:         l.options.Batch,
		BatchWhy:      l.batchWhy,
		Shape:         first.form.batchShape(l.order.largest, l.layout.Samples.Rows),
		DType:         l.options.DType,
		Workers:       l.options.Workers,
		Devices:       len(l.feeders),
		Slabs:         slabs,
		Reading:       slabs - free,
		Ready:         ready,
		DeviceBuffers: buffers,
		HostBytes:     int64(slabs) * l.layout.Bytes(),
		DeviceBytes:   deviceBytes,
		Pinned:        first.slabs.Pinned,
		PageableWhy:   first.slabs.Reason,
		StagingBytes:  stagingBytes,
		DecodeDevice:  first.decoder != nil,
		DecodeWhy:     first.notDecoding,
		TakenPictures: l.times.Helped(),
	}
}

// Sub returns s with the counts and times since an earlier report of the same
// loader.
func (s Stats) Sub(earlier Stats) Stats {
	s.Samples -= earlier.Samples
	s.Batches -= earlier.Batches
	s.Errors -= earlier.Errors
	s.Replaced -= earlier.Replaced
	s.BytesToDevice -= earlier.BytesToDevice
	s.DeviceWait -= earlier.DeviceWait
	s.TakenPictures -= earlier.TakenPictures
	s.Stages = slices.Clone(s.Stages)
	for i := range earlier.Stages {
		s.Stages[i].Time -= earlier.Stages[i].Time
	}
	return s
}

// Limit names what held the pipeline up over a time: "device" if Next nearly
// always found a batch ready, so that the caller's own work is the limit;
// otherwise the stage that was busy nearly all the time (of the workers' stages,
// the longest one); "latency" if none was, so that more workers or more prefetch
// would help; or "" if nothing was done.
func (s Stats) Limit(over time.Duration) string {
	switch {
	case s.idle() && s.Ready > 0:
		return "device" // its step takes longer than this time
	case s.idle():
		return ""
	}
	if over <= 0 || s.DeviceWait < over/20 {
		return "device"
	}
	longest, busy := Stage{}, time.Duration(0)
	for _, g := range s.Stages {
		if g.Where == "device" {
			if g.Time > over*time.Duration(s.Devices)*3/4 {
				return g.Name
			}
		} else if g.Name != "idle" {
			busy += g.Time
			if g.Time > longest.Time {
				longest = g
			}
		}
	}
	if busy > over*time.Duration(s.Workers)*3/4 {
		return longest.Name
	}
	return "latency"
}

// idle reports whether nothing was done at all.
func (s Stats) idle() bool {
	return s.Batches == 0 && !slices.ContainsFunc(s.Stages, func(g Stage) bool { return g.Name != "idle" && g.Time > 0 })
}

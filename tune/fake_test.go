package tune

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"
)

// fake is a made-up pipeline. Its clock is its own: trials take no time.
type fake struct {
	read, decode, extra float64 // seconds a sample of one worker
	contention          float64 // of the decoders
	disk                float64 // samples a second that it gives at most; 0: any
	cores               int
	pinned, pageable    float64 // seconds a sample over the link
	copier              float64 // seconds a sample of one copier, of which many share the work until the link is full
	chunk               float64 // how much more a copy costs in chunks of half the size
	takes               float64 // processors that each copier takes from the workers
	transform           float64
	perBatch            float64 // seconds a batch of everything
	jitter              float64 // how much shallow prefetch costs: rate x (1 - jitter/(prefetch+1))
	jitterFor           float64 // how many workers it takes to cost all of that; fewer cost less
	odd                 func(Setting) float64
	gpu                 func(Setting) float64 // the rate where the device decodes; nil: as elsewhere
	setup               float64               // seconds before such a trial measures
	step                float64               // seconds of the device a batch
	noise               float64               // standard deviation of the logarithm of a rate
	drift               float64               // how far the rate goes up and down, slowly
	bursts              float64               // share of the trials that others on the machine slow down, by up to 40 %
	sample              int64                 // bytes
	room                Memory                // 0: any; less pinned: slabs cannot be
	short               map[Setting]bool      // does not fit, as a trial finds
	places              int                   // for samples, so many workers have something to do; 0: any
	rng                 *rand.Rand
	clock               float64
	tries               int
	fail                error
}

// workerSeconds is what the stages cost with that many workers.
func (f *fake) workerSeconds(s Setting) (read, decode, extra float64) {
	w := float64(s.Workers)
	slow := max(1, (w+f.takes*float64(s.Copiers))/float64(f.cores))
	decode = f.decode * (1 + f.contention*(w-1)) * slow
	extra = f.extra * slow
	read = f.read
	if f.disk > 0 {
		read = max(read, w/f.disk-decode-extra)
	}
	return read, decode, extra
}

func (f *fake) linkSeconds(s Setting) float64 {
	switch {
	case s.Pin:
		return f.pinned
	case s.Copiers > 0:
		return max(f.copier/float64(s.Copiers), f.pinned) * (1 + f.chunk*math.Log2(float64(4<<20)/float64(s.ChunkBytes)))
	}
	return f.pageable
}

// rate is the truth: samples a second without a step.
func (f *fake) rate(s Setting) float64 {
	if s.Decode == "gpu" && f.gpu != nil {
		return f.gpu(s)
	}
	read, decode, extra := f.workerSeconds(s)
	sample := max((read+decode+extra)/float64(s.Workers), f.linkSeconds(s), f.transform)
	share := 1.
	if f.jitterFor > 0 {
		share = float64(s.Workers) / f.jitterFor
	}
	rate := 1 / (sample + f.perBatch/float64(s.Batch)) * (1 - f.jitter/float64(s.Prefetch+1)*share)
	if f.odd != nil {
		rate *= f.odd(s)
	}
	return rate
}

// stepped is the truth with the step.
func (f *fake) stepped(s Setting) (rate, wait float64) {
	rate = f.rate(s)
	if f.step == 0 {
		return rate, 1
	}
	most := float64(s.Batch) / f.step
	return min(rate, most), max(0, 1-rate/most)
}

func (f *fake) Need(s Setting) (Memory, error) {
	m := Memory{HostBytes: int64(s.Prefetch+1) * int64(s.Batch) * f.sample, DeviceBytes: 3 * int64(s.Batch) * f.sample}
	if s.Pin {
		m.PinnedBytes = m.HostBytes
	}
	m.PinnedBytes += rings(s.Copiers, s.ChunkBytes)
	m.HostBytes += rings(s.Copiers, s.ChunkBytes)
	if f.room.DeviceBytes > 0 && m.DeviceBytes > f.room.DeviceBytes {
		return m, &DoesNotFitError{What: "device memory", AskedBytes: m.DeviceBytes, FreeBytes: f.room.DeviceBytes}
	}
	if f.room.PinnedBytes < 0 && s.Pin {
		return m, &DoesNotFitError{What: "pinned memory", AskedBytes: m.PinnedBytes}
	}
	if f.room.PinnedBytes > 0 && m.PinnedBytes > f.room.PinnedBytes {
		return m, &DoesNotFitError{What: "pinned memory", AskedBytes: m.PinnedBytes, FreeBytes: f.room.PinnedBytes}
	}
	if f.places > 0 && s.Workers > f.places {
		return m, ErrDoesNotFit
	}
	return m, nil
}

func (f *fake) Try(ctx context.Context, s Setting, r Run) (m Measurement, err error) {
	f.tries++
	if f.fail != nil {
		return m, f.fail
	}
	if f.short[s] {
		return m, &DoesNotFitError{What: "device memory", AskedBytes: 2, FreeBytes: 1}
	}
	took := r.For.Seconds() * 1.3
	if s.Decode == "gpu" {
		took += f.setup
	}
	if end, limited := ctx.Deadline(); limited && time.Until(end).Seconds() < took { // whose clock is another one
		took = max(time.Until(end).Seconds(), 0)
		f.clock += took
		return Measurement{Took: time.Duration(took * 1e9)}, context.DeadlineExceeded
	}
	f.clock += took
	luck := math.Exp(f.noise*f.rng.NormFloat64()) * (1 + f.drift*math.Sin(f.clock/5))
	if f.bursts > 0 && f.rng.Float64() < f.bursts {
		luck *= between(f.rng, 0.6, 1)
	}
	rate := f.rate(s) * luck
	most := math.Inf(1)
	if r.Step && f.step > 0 {
		most = float64(s.Batch) / f.step
	}
	got := min(rate, most)
	seconds := func(v float64) time.Duration { return time.Duration(v * 1e9) }
	m = Measurement{Took: seconds(took), Elapsed: r.For}
	m.Samples = max(int64(math.Round(got*r.For.Seconds())), 1)
	// Samples are whole, so that short trials measure roughly; the time is not.
	m.Elapsed = seconds(float64(m.Samples) / got)
	m.Batches = max(m.Samples/int64(s.Batch), 1)
	wait := 1.
	if r.Step && f.step > 0 {
		wait = max(0, 1-rate/most)
		m.Step = time.Duration(m.Batches) * seconds(f.step)
	}
	m.DeviceWait = seconds(wait * m.Elapsed.Seconds())
	m.LinkBytes = m.Samples * f.sample
	read, decode, extra := f.workerSeconds(s)
	n := float64(m.Samples) / luck
	stage := func(name, where string, v float64) {
		m.Stages = append(m.Stages, Stage{name, where, seconds(v)})
	}
	stage("read", worker, read*n)
	stage("decode", worker, decode*n)
	stage(idle, worker, max(0, float64(s.Workers)*m.Elapsed.Seconds()-(read+decode+extra)*n))
	stage(link, "device", f.linkSeconds(s)*n)
	stage("transform", "device", f.transform*n)
	return m, ctx.Err()
}

// kinds of pipelines, each drawn from a seed.
var kinds = map[string]func(*fake, *rand.Rand){
	"decode": func(f *fake, r *rand.Rand) { f.decode = between(r, 0.5e-3, 4e-3); f.read = 5e-5 },
	"contended decode": func(f *fake, r *rand.Rand) {
		f.decode, f.contention = between(r, 0.5e-3, 2e-3), between(r, 0.02, 0.2)
	},
	"disk": func(f *fake, r *rand.Rand) {
		f.read, f.decode, f.disk = 1e-3, 2e-4, between(r, 500, 4000)
	},
	"link": func(f *fake, r *rand.Rand) {
		f.read, f.decode = 1e-5, 0
		f.pinned, f.pageable = between(r, 1e-5, 3e-5), between(r, 1e-5, 9e-5)
	},
	"transform":        func(f *fake, r *rand.Rand) { f.transform = between(r, 1e-4, 4e-4) },
	"per batch":        func(f *fake, r *rand.Rand) { f.perBatch = between(r, 1e-3, 2e-2) },
	"shallow":          func(f *fake, r *rand.Rand) { f.jitter = between(r, 0.2, 0.7) },
	"shallow for many": func(f *fake, r *rand.Rand) { f.jitter, f.jitterFor = between(r, 0.4, 1.2), 32 },
	"pinning cost":     func(f *fake, r *rand.Rand) { f.odd = onlyIf(func(s Setting) bool { return !s.Pin }, 0.8) },
	"an odd number of workers": func(f *fake, r *rand.Rand) {
		w := []int{2, 4, 8, 12}[r.IntN(4)]
		f.read, f.decode, f.pinned, f.pageable = 1e-5, 1e-4, 1e-4, 1e-4
		f.odd = onlyIf(func(s Setting) bool { return s.Workers == w }, 0.85)
	},
	"staging fills the link": func(f *fake, r *rand.Rand) {
		f.read, f.decode, f.pinned = 1e-5, 0, between(r, 3e-6, 1e-5)
		f.copier = f.pinned * between(r, 1, 20)
	},
	"staging, and nothing can be pinned": func(f *fake, r *rand.Rand) {
		f.read, f.decode, f.pinned, f.chunk = 1e-5, 0, 1e-5, between(r, -0.1, 0.2)
		f.copier, f.room.PinnedBytes = f.pinned*between(r, 1, 20), -1
	},
	"staging takes from the workers": func(f *fake, r *rand.Rand) {
		f.decode, f.takes, f.cores = between(r, 1e-4, 1e-3), between(r, 0.2, 1), 8
		f.copier, f.pinned, f.room.PinnedBytes = between(r, 5e-5, 4e-4), 5e-6, -1
	},
	"chunks matter": func(f *fake, r *rand.Rand) {
		f.read, f.decode, f.pinned, f.room.PinnedBytes = 1e-5, 0, 1e-5, -1
		f.copier, f.chunk = between(r, 4e-5, 2e-4), []float64{-0.2, 0.5}[r.IntN(2)]
	},
	"an odd number of copiers": func(f *fake, r *rand.Rand) {
		n := []int{2, 4, 8, 16}[r.IntN(4)]
		f.room.PinnedBytes, f.odd = -1, onlyIf(func(s Setting) bool { return s.Copiers == n }, 0.85)
	},
	"an odd prefetch": func(f *fake, r *rand.Rand) {
		p := []int{1, 2, 4, 8}[r.IntN(4)]
		f.odd = onlyIf(func(s Setting) bool { return s.Prefetch == p }, 0.9)
	},
}

func onlyIf(good func(Setting) bool, share float64) func(Setting) float64 {
	return func(s Setting) float64 {
		if good(s) {
			return 1
		}
		return share
	}
}

func between(r *rand.Rand, low, high float64) float64 { return low + r.Float64()*(high-low) }

// newFake draws a pipeline of a kind.
func newFake(kind string, seed uint64) *fake {
	r := rand.New(rand.NewPCG(seed, 1))
	f := &fake{
		read: 1e-4, decode: 1e-3, extra: 1e-5, cores: 16, pinned: 5e-6, pageable: 1e-5, copier: 4e-5, transform: 2e-6,
		noise: 0.02, drift: 0.1, sample: 150528, rng: r,
	}
	kinds[kind](f, r)
	return f
}

// grid is the space of these tests.
var grid = Space{Workers: []int{1, 2, 4, 8, 12, 16, 32}, Batch: []int{64}, Prefetch: []int{1, 2, 4, 8}, Pin: []bool{true, false}}

// staging is one with copiers.
var staging = Space{Workers: grid.Workers, Batch: grid.Batch, Prefetch: grid.Prefetch, Pin: grid.Pin, Copiers: []int{2, 4, 8, 16}, ChunkBytes: []int64{512 << 10, 2 << 20}}

// optimum is the fastest there is, in truth.
func optimum(f *fake, space Space) (best float64) {
	for _, s := range space.Settings() {
		if _, err := f.Need(s); err == nil && !f.short[s] {
			rate, _ := f.stepped(s)
			best = max(best, rate)
		}
	}
	return best
}

func find(t testing.TB, f *fake, space Space, o SearchOptions) *Result {
	t.Helper()
	var r *Result
	var err error
	search := func() { r, err = Search(context.Background(), f, space, o) }
	if t, is := t.(*testing.T); is {
		// By a clock that stands still: trials take as long as they say, however slow the machine is.
		synctest.Test(t, func(*testing.T) { search() })
	} else {
		search()
	}
	if err != nil {
		t.Fatal(err)
	}
	return r
}

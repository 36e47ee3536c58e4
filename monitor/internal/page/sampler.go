package page

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"
)

// maxWatchers is how many may watch at once.
const maxWatchers = 256

// errWatched: there are as many watchers as may be.
var errWatched = errors.New("too many streams of events")

// sampler takes samples while somebody watches.
type sampler struct {
	interval time.Duration
	call     call[*Sample]
	health   *health
	leaks    *leakWatch

	mu       sync.Mutex
	before   *Sample // the latest sample
	kept     *history
	watchers map[*watcher]struct{}
	stop     context.CancelFunc // ends the goroutines that take samples and look for leaks
	latest   message

	history call[[]byte] // as JSON
	text    []byte       // the latest answer; nil: there was a sample since, or nobody watches
}

// watcher is who is told of samples. It has room for one message: who is slow misses
// some.
type watcher struct{ messages chan message }

// message is what watchers are sent: a kind, and a line of JSON.
type message struct {
	kind string
	text []byte
}

// sampleMessage is the content of a message "sample".
type sampleMessage struct {
	MeasuredAt time.Time      `json:"measured_at"`
	Snapshot   any            `json:"snapshot"`
	Values     []Value        `json:"values"`
	Limits     []Limit        `json:"limits"`
	Devices    []deviceHealth `json:"devices"`
}

// failureMessage is the content of a message "failure": there is no sample.
type failureMessage struct {
	Error string `json:"error"`
}

func newSampler(source Source) *sampler {
	s := &sampler{interval: source.Interval, health: newHealth(source.Devices), leaks: newLeakWatch(source.Interval), kept: newHistory(), watchers: map[*watcher]struct{}{}}
	s.call.do = func() *Sample {
		s.mu.Lock()
		before := s.before
		s.mu.Unlock()
		return source.Sample(before)
	}
	s.history.do = s.pack
	return s
}

// watch adds a watcher, and begins to take samples if it is the first.
func (s *sampler) watch() (w *watcher, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.watchers) == maxWatchers {
		return nil, fmt.Errorf("%w: there may be %d", errWatched, maxWatchers)
	}
	w = &watcher{make(chan message, 1)}
	s.watchers[w] = struct{}{}
	if s.stop == nil {
		ctx, stop := context.WithCancel(context.Background())
		s.stop, s.before, s.latest = stop, nil, message{}
		go s.run(ctx)
		go s.leaks.run(ctx)
	} else if s.latest.text != nil {
		w.messages <- s.latest
	}
	return w, nil
}

// leave takes a watcher off. With the last one no more samples are taken.
func (s *sampler) leave(w *watcher) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.watchers, w)
	if len(s.watchers) == 0 {
		s.stop()
		s.stop, s.text = nil, nil
	}
}

// run takes samples until ctx is done.
func (s *sampler) run(ctx context.Context) {
	tick := time.NewTicker(s.interval)
	defer tick.Stop()
	defer s.health.forget() // another run may have begun; it asks again
	for {
		sample, err := s.call.get(ctx, patience)
		devices := s.health.look(ctx)
		s.tell(ctx, sample, err, devices)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// tell sends a sample, or an error, to all watchers.
func (s *sampler) tell(ctx context.Context, sample *Sample, err error, devices []deviceHealth) {
	m := message{kind: "failure"}
	if err == nil {
		m.kind = "sample"
		m.text, err = json.Marshal(sampleMessage{sample.At, sample.Snapshot, sample.Values, sample.Limits, devices})
	}
	if err != nil {
		m.kind = "failure"
		m.text, _ = json.Marshal(failureMessage{err.Error()})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if ctx.Err() != nil {
		return
	}
	if m.kind == "sample" && (s.before == nil || sample.At.After(s.before.At)) {
		s.before = sample
		s.kept.add(sample.At, sample.Values)
		s.text = nil
	}
	s.latest = m
	for w := range s.watchers {
		select {
		case <-w.messages: // which it has not read
		default:
		}
		w.messages <- m
	}
}

// past is what the history has, as JSON. It may be some MB: all who ask between two
// samples get one text.
func (s *sampler) past(ctx context.Context) ([]byte, error) { return s.history.get(ctx, patience) }

func (s *sampler) pack() []byte {
	s.mu.Lock()
	text, before := s.text, s.before
	if text != nil {
		s.mu.Unlock()
		return text
	}
	d := s.kept.document()
	s.mu.Unlock()
	text, _ = json.Marshal(d) // of numbers that are finite
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stop != nil && s.before == before {
		s.text = text
	}
	return text
}

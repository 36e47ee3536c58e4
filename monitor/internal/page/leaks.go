package page

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/pinion-gpu/pinion/monitor/leaks"
)

// leakShare is the most of the time that looking for leaks takes.
const leakShare = 1.0 / 400

// leakWatch looks for leaks while somebody watches: a step is a second, or more where
// looking takes long. It notes no stacks, which would cost each allocation.
type leakWatch struct {
	interval time.Duration
	report   call[leaks.Report]

	mu    sync.Mutex
	watch *leaks.Watch // nil: nobody watches, or looking has not begun
}

func newLeakWatch(interval time.Duration) *leakWatch {
	l := &leakWatch{interval: interval}
	l.report.do = func() (r leaks.Report) {
		if w := l.current(); w != nil {
			r = w.Report()
		}
		return r
	}
	return l
}

// run looks until ctx is done. It has a goroutine of its own: looking waits for pools.
func (l *leakWatch) run(ctx context.Context) {
	w := leaks.Start(leaks.Options{NoStacks: true})
	defer w.Stop()
	if ctx.Err() != nil {
		return // it took long, and another may have begun
	}
	l.set(w, nil)
	defer l.set(nil, w)
	for {
		began := time.Now()
		w.Step()
		took := time.Since(began)
		select {
		case <-ctx.Done():
			return
		case <-time.After(max(l.interval-took, time.Duration(float64(took)/leakShare))):
		}
	}
}

// set makes w the watch. None replaces only old, as another may have begun.
func (l *leakWatch) set(w, old *leaks.Watch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w != nil || l.watch == old {
		l.watch = w
	}
}

func (l *leakWatch) current() *leaks.Watch {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.watch
}

// leaksDocument is the answer of api/leaks.
type leaksDocument struct {
	Watching bool `json:"watching"` // somebody listens to events; else there is no report
	leaks.Report
}

func (s *server) leaks(r *http.Request) (any, error) {
	if _, err := parse(r); err != nil {
		return nil, err
	}
	watching := s.samples.leaks.current() != nil
	report, err := s.samples.leaks.report.get(r.Context(), patience)
	if err != nil {
		return nil, err
	}
	for _, list := range []*[]leaks.Site{&report.Leaks, &report.Others} {
		*list = append([]leaks.Site{}, (*list)[:min(len(*list), maxHolders)]...)
		for i := range *list {
			(*list)[i].Name = clip((*list)[i].Name)
		}
	}
	report.Caches = append([]leaks.Cache{}, report.Caches...)
	return leaksDocument{watching, report}, nil
}

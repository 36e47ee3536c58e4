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
	mu    sync.Mutex
	watch *leaks.Watch // nil: nobody watches
	next  time.Time    // of a step
	step  call[struct{}]
	ask   call[leaks.Report]
}

func (l *leakWatch) start() {
	w := leaks.Start(leaks.Options{NoStacks: true})
	l.mu.Lock()
	defer l.mu.Unlock()
	l.watch = w
}

func (l *leakWatch) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.watch.Stop()
	l.watch = nil
}

func (l *leakWatch) current() *leaks.Watch {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.watch
}

// tick takes a step, if it is time, and does not wait for it.
func (l *leakWatch) tick(ctx context.Context) {
	l.mu.Lock()
	wait := time.Now().Before(l.next)
	l.mu.Unlock()
	if !wait {
		_, _ = l.step.get(ctx, 0)
	}
}

func newLeakWatch() *leakWatch {
	l := new(leakWatch)
	l.step.do = func() (none struct{}) {
		w := l.current()
		if w == nil {
			return none
		}
		began := time.Now()
		w.Step()
		took := time.Since(began)
		l.mu.Lock()
		defer l.mu.Unlock()
		l.next = time.Now().Add(time.Duration(float64(took) / leakShare))
		return none
	}
	l.ask.do = func() (r leaks.Report) {
		if w := l.current(); w != nil {
			r = w.Report()
		}
		return r
	}
	return l
}

// leaksDocument is the answer of api/leaks.
type leaksDocument struct {
	Watching bool `json:"watching"` // somebody listens to events; else there is no report
	leaks.Report
}

func (s *server) leaks(w http.ResponseWriter, r *http.Request) {
	if _, err := parse(r); err != nil {
		refuse(w, err)
		return
	}
	watching := s.samples.leaks.current() != nil
	report, err := s.samples.leaks.ask.get(r.Context(), patience)
	if err != nil {
		refuse(w, err)
		return
	}
	for _, list := range []*[]leaks.Site{&report.Leaks, &report.Others} {
		*list = append([]leaks.Site{}, (*list)[:min(len(*list), maxHolders)]...)
		for i := range *list {
			(*list)[i].Name = clip((*list)[i].Name)
		}
	}
	report.Caches = append([]leaks.Cache{}, report.Caches...)
	answer(w, leaksDocument{watching, report})
}

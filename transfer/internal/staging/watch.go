package staging

import (
	"context"
)

// watch is what the goroutine that asked for a task looks after.
type watch struct {
	stager    *Stager
	task      *task
	ctx       context.Context
	cancelled <-chan struct{} // nil once it was seen
	stop      error           // the context's error
}

// poll looks at the context without waiting.
func (w *watch) poll() {
	select {
	case <-w.cancelled:
		w.cancel()
	default:
	}
}

func (w *watch) report() {
	w.stager.mu.Lock()
	copied, failed := w.task.total-w.task.left, w.task.failed
	w.stager.mu.Unlock()
	if failed == nil && copied < w.task.total {
		w.task.progress(copied, w.task.total)
	}
}

func (w *watch) cancel() {
	w.cancelled = nil
	w.stop = w.ctx.Err()
	w.stager.abandon(w.task, w.stop)
}

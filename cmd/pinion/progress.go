package main

import (
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/pinion-gpu/pinion/cmd/pinion/internal/statusline"
	"github.com/pinion-gpu/pinion/dataset/shard"
)

// progress is the status line of a command on standard error.
type progress struct {
	line *statusline.Line

	mu      sync.Mutex
	retried time.Time // when a retry was last reported
}

func newProgress(cmd *cobra.Command) *progress {
	return &progress{line: statusline.New(cmd.ErrOrStderr())}
}

// show shows that done of total is done, and what is being done.
func (p *progress) show(done, total int, what string) { p.line.Show(done, total, what) }

// message prints a line of its own, above the status line.
func (p *progress) message(format string, args ...any) { p.line.Message(format, args...) }

// clear takes the status line off the screen.
func (p *progress) clear() { p.line.Clear() }

// retryPace is how often retries are reported: many requests may fail at once.
const retryPace = 10 * time.Second

// retry reports now and then that a server fails or stalls: it takes minutes
// until the last try has failed.
func (p *progress) retry(r shard.Retry) {
	p.mu.Lock()
	due := p.retried.IsZero() || time.Since(p.retried) >= retryPace
	if due {
		p.retried = time.Now()
	}
	p.mu.Unlock()
	if due {
		p.message("%s: %v; trying again, %d of %d", r.URL, r.Err, r.Try+1, r.Tries)
	}
}

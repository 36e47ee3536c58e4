package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/pinion-gpu/pinion/dataset/shard"
)

// progress is a bar on standard error, where that is a terminal. Elsewhere
// only its messages are seen. It is safe for concurrent use.
type progress struct {
	mu  sync.Mutex
	w   io.Writer
	bar *progressbar.ProgressBar // nil where there is no terminal

	retried time.Time // when a retry was told of
}

func newProgress(cmd *cobra.Command) *progress {
	p := &progress{w: cmd.ErrOrStderr()}
	f, ok := p.w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return p
	}
	p.bar = progressbar.NewOptions(-1,
		progressbar.OptionSetWriter(f),
		progressbar.OptionClearOnFinish(),
		progressbar.OptionThrottle(100_000_000),
		progressbar.OptionShowCount(),
		progressbar.OptionSetPredictTime(true),
		progressbar.OptionSetWidth(24),
	)
	return p
}

// show shows that done of total is done, with a word on what is going on.
func (p *progress) show(done, total int, what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bar == nil {
		return
	}
	if p.bar.GetMax() != total {
		p.bar.ChangeMax(total)
	}
	p.bar.Describe(what)
	_ = p.bar.Set(done)
}

// message prints a line of its own, above the bar.
func (p *progress) message(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wipe()
	fmt.Fprintf(p.w, format+"\n", args...)
}

// retryPace is how often retries are told of: many requests may fail at once.
const retryPace = 10 * time.Second

// retry says now and then that a server fails or stalls, since a stalled one is
// given up only after minutes.
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

// clear takes the bar off the screen.
func (p *progress) clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wipe()
}

func (p *progress) wipe() {
	if p.bar != nil {
		_ = p.bar.Clear()
	}
}

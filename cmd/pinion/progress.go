package main

import (
	"os"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"
	"golang.org/x/term"
)

// progress is a bar on standard error, where that is a terminal. Elsewhere it
// shows nothing.
type progress struct {
	bar *progressbar.ProgressBar
}

func newProgress(cmd *cobra.Command) *progress {
	f, ok := cmd.ErrOrStderr().(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return &progress{}
	}
	return &progress{progressbar.NewOptions(-1,
		progressbar.OptionSetWriter(f),
		progressbar.OptionClearOnFinish(),
		progressbar.OptionThrottle(100_000_000),
		progressbar.OptionShowCount(),
		progressbar.OptionSetPredictTime(true),
		progressbar.OptionSetWidth(24),
	)}
}

// show shows that done of total is done, with a word on what is going on.
func (p *progress) show(done, total int, what string) {
	if p.bar == nil {
		return
	}
	if p.bar.GetMax() != total {
		p.bar.ChangeMax(total)
	}
	p.bar.Describe(what)
	_ = p.bar.Set(done)
}

// clear takes the bar off the screen.
func (p *progress) clear() {
	if p.bar != nil {
		_ = p.bar.Clear()
	}
}

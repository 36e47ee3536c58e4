package cli

import (
	"github.com/spf13/cobra"

	"github.com/pinion-gpu/pinion/cmd/pinion/internal/statusline"
)

// Progress is the status line of a command on standard error. It is safe for
// concurrent use.
type Progress struct{ line *statusline.Line }

// NewProgress makes the status line of cmd.
func NewProgress(cmd *cobra.Command) *Progress {
	return &Progress{statusline.New(cmd.ErrOrStderr())}
}

// Show shows that done of total is done, and what is being done.
func (p *Progress) Show(done, total int, what string) { p.line.Show(done, total, what) }

// ShowFacts is [Progress.Show] with facts, the most important first. Those that
// do not fit into the line are left out.
func (p *Progress) ShowFacts(done, total int, what string, facts ...string) {
	p.line.Show(done, total, what, facts...)
}

// Message prints a line of its own, above the status line.
func (p *Progress) Message(format string, args ...any) { p.line.Message(format, args...) }

// Clear takes the status line off the screen.
func (p *Progress) Clear() { p.line.Clear() }

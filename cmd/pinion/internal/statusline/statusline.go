// Package statusline shows progress in one line of a terminal that is drawn
// over and over. The line fits the terminal, also after a resize, and leaves
// nothing behind. Where there is no terminal, only messages are written.
package statusline

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/rivo/uniseg"

	"github.com/pinion-gpu/pinion/cmd/pinion/internal/terminal"
)

// Line is a status line. It is safe for concurrent use.
type Line struct {
	mu    sync.Mutex
	w     io.Writer
	width func() int       // columns of the terminal; nil: there is none
	now   func() time.Time // the clock

	shown int       // columns of what is on the screen now
	drawn time.Time // when it was drawn
	job   job
}

// job is what the time left is estimated from.
type job struct {
	what        string
	total, done int
	first       int // what was done when it was first seen
	begun       time.Time
}

// New makes a status line on w, which shows progress if it is a terminal.
func New(w io.Writer) *Line {
	return &Line{w: w, now: time.Now, width: terminal.Width(w)}
}

// pace is the least time between two drawings.
const pace = 100 * time.Millisecond

// Show shows that done of total is done, with what is being done and more
// facts about it, the most important first: those that do not fit are left
// out. A total of 0 or less is unknown.
func (l *Line) Show(done, total int, what string, facts ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.width == nil {
		return
	}
	now := l.now()
	if l.job.what != what || l.job.total != total || done < l.job.done {
		l.job = job{what: what, total: total, first: done, begun: now}
	}
	l.job.done = done
	if l.shown > 0 && now.Sub(l.drawn) < pace {
		return
	}
	l.drawn = now
	width := l.width()
	l.draw(compose(width-1, &l.job, now, facts), width) // a full line would wrap
}

// Message writes a message above the status line, wrapped to the terminal.
func (l *Line) Message(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clear()
	text := fmt.Sprintf(format+"\n", args...)
	if l.width != nil {
		text = terminal.Wrap(text, l.width())
	}
	io.WriteString(l.w, text)
}

// Clear takes the line off the screen.
func (l *Line) Clear() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.clear()
}

func (l *Line) clear() {
	if l.shown > 0 {
		l.draw("", l.width())
		l.drawn = time.Time{}
	}
}

// draw replaces what is on the screen by text. The cursor rests at the start of
// the line: a terminal that becomes narrower wraps the line, and keeps the
// cursor there, so that all of its rows can be erased.
func (l *Line) draw(text string, width int) {
	columns := uniseg.StringWidth(text)
	if l.shown >= width {
		text = "\x1b[J" + text
	} else if more := l.shown - columns; more > 0 {
		text += strings.Repeat(" ", more)
	}
	l.shown = columns
	io.WriteString(l.w, text+"\r")
}

const (
	gap      = "  "
	barCells = 20
	barFrom  = 100 // columns from which on there is a bar
)

// compose makes a text of at most so many columns.
func compose(columns int, j *job, now time.Time, facts []string) string {
	var count string
	if j.total > 0 {
		count = fmt.Sprintf("%d/%d", j.done, j.total)
		part := min(max(float64(j.done)/float64(j.total), 0), 1)
		count = fmt.Sprintf("%3.0f %%", 100*part) + gap + count
		if columns >= barFrom {
			full := int(part * barCells)
			count = "[" + strings.Repeat("#", full) + strings.Repeat("-", barCells-full) + "]" + gap + count
		}
		if left := j.left(now); left > 0 {
			facts = append(facts[:len(facts):len(facts)], fmt.Sprintf("%v left", left))
		}
	} else {
		count = fmt.Sprint(j.done)
	}
	room := columns - uniseg.StringWidth(count) - len(gap)
	text := terminal.Cut(j.what, max(room, columns/2)) + gap + count
	for _, fact := range facts {
		if longer := text + gap + fact; uniseg.StringWidth(longer) <= columns {
			text = longer
		}
	}
	return terminal.Cut(text, columns)
}

// left estimates the time that is left; 0: it is unknown, or next to nothing.
func (j *job) left(now time.Time) time.Duration {
	took := now.Sub(j.begun)
	if j.done <= j.first || took < time.Second {
		return 0
	}
	left := took.Seconds() / float64(j.done-j.first) * float64(j.total-j.done)
	return time.Duration(left) * time.Second
}

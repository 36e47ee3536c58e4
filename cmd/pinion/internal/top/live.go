package top

import (
	"context"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/pinion-gpu/pinion/cmd/pinion/internal/screen"
	"github.com/pinion-gpu/pinion/internal/panicked"
)

// NewView makes the view of a machine and a user.
func NewView(every time.Duration) *View {
	v := &View{Every: every, Folder: os.Getenv("PINION_TOP")}
	if !filepath.IsAbs(v.Folder) { // off, or what cannot be, which a look tells
		v.Folder = ""
	}
	v.Host, _ = os.Hostname()
	if u, err := user.Current(); err == nil {
		v.User = u.Username
	}
	return v
}

// Options say what Live shows.
type Options struct {
	Every  time.Duration // between two looks
	Colour bool
	// Look takes a look.
	Look func(context.Context) (Look, error)
}

// noteTime is how long a note is shown in place of the keys.
const noteTime = 5 * time.Second

// Live shows looks on a screen until the user quits, or ctx ends, which it returns
// as an error.
func Live(ctx context.Context, s *screen.Screen, o Options) error {
	ctx, cancel := context.WithCancel(ctx)
	looks, failed := make(chan Look), make(chan error, 1)
	var looking sync.WaitGroup
	looking.Go(func() {
		defer func() {
			if p := recover(); p != nil {
				failed <- panicked.Error(p)
			}
		}()
		failed <- lookOften(ctx, o, looks)
	})
	defer looking.Wait()
	defer cancel()
	v := NewView(o.Every)
	v.Look.At = time.Now()
	for {
		width, height := s.Size()
		lines := make([]string, height)
		if v.begun {
			for i, l := range v.Lines(width, height) {
				lines[i] = l.ANSI(o.Colour)
			}
		}
		if err := s.Draw(lines); err != nil {
			return err
		}
		select {
		case l := <-looks:
			v.take(l)
		case <-s.Resized():
			s.Redraw()
		case k, ok := <-s.Keys():
			if !ok { // the terminal is gone
				return ctx.Err()
			}
			if k == screen.Suspend {
				if err := s.Suspend(); err != nil {
					return err
				}
			} else if !v.press(k, height) {
				return nil
			}
		case err := <-failed:
			return err
		}
	}
}

// take shows a look, unless the view is paused, and notes which processes ended since
// the one before.
func (v *View) take(l Look) {
	if note := ended(v.last, l); note != "" {
		v.Note, v.noted = note, l.At
	} else if l.At.Sub(v.noted) > noteTime {
		v.Note = ""
	}
	v.last = l
	if !v.Paused || !v.begun {
		v.Look, v.begun = l, true
	}
}

// lookOften sends looks until ctx ends.
func lookOften(ctx context.Context, o Options, looks chan<- Look) error {
	ticker := time.NewTicker(o.Every)
	defer ticker.Stop()
	for {
		l, err := o.Look(ctx)
		if err != nil {
			return err
		}
		select {
		case looks <- l:
		case <-ctx.Done():
			return ctx.Err()
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// press does what a key says, and reports whether to go on.
func (v *View) press(k screen.Key, height int) bool {
	jump := max(1, height-5)
	switch k {
	case 'q', 'Q', screen.Interrupt:
		return false
	case 'p', ' ':
		v.Paused = !v.Paused
	case 's':
		v.Order, v.Offset = (v.Order+1)%orders, 0
	case screen.Up, 'k':
		v.Offset--
	case screen.Down, 'j':
		v.Offset++
	case screen.PageUp:
		v.Offset -= jump
	case screen.PageDown:
		v.Offset += jump
	case screen.Home, 'g':
		v.Offset = 0
	case screen.End, 'G':
		v.Offset = 1 << 30
	}
	return true
}

// ended says which process was there before and is no more; "" if none.
func ended(before, now Look) string {
	there := map[string]bool{}
	for _, p := range now.Processes {
		there[p.path] = true
	}
	var gone []string
	for _, p := range before.Processes {
		if !there[p.path] {
			gone = append(gone, fmt.Sprintf("%d %s", p.PID, shortCommand(p.Command)))
		}
	}
	if len(gone) == 0 {
		return ""
	}
	return "ended: " + strings.Join(gone, ", ")
}

package leaks

import (
	"fmt"
	"path"
	"strings"

	"github.com/pinion-gpu/pinion/internal/errs"
	"github.com/pinion-gpu/pinion/internal/texttable"
	"github.com/pinion-gpu/pinion/internal/units"
)

// Err returns an error that wraps [ErrLeak] and names the leaks, and nil if there are
// none, for tests to end with. It fails too if the steps were too few to tell.
func (r Report) Err() error {
	if r.WindowSteps == 0 {
		return fmt.Errorf("leaks: %w: %s, of at least %d", errs.ErrArgument, units.Count(r.Steps, "step"), fewest)
	}
	if len(r.Leaks) == 0 {
		return nil
	}
	var list []string
	for _, s := range r.Leaks {
		what := s.perStep() + " of " + s.title()
		if s.Kind == Goroutine {
			what = s.perStep() + " goroutines"
		}
		list = append(list, what+" from "+s.Where())
	}
	return fmt.Errorf("leaks: %w: in each step %s", ErrLeak, strings.Join(list, "; "))
}

// Where is the innermost call of the stack that is not Pinion's own, or else the
// innermost; of a goroutine, where it was started.
func (s Site) Where() string {
	if len(s.Stack) == 0 {
		return "an unknown place"
	}
	at := s.Stack[0]
	if s.Kind == Goroutine {
		at = s.Stack[len(s.Stack)-1]
	}
	for _, f := range s.Stack {
		if s.Kind != Goroutine && !f.own() {
			at = f
			break
		}
	}
	return at.String()
}

// own reports whether a frame is Pinion's own, and not of its tests and examples.
func (f Frame) own() bool {
	in, ok := strings.CutPrefix(f.Function, module)
	return ok && !strings.HasPrefix(in, "examples/") && !strings.Contains(in, "_test.")
}

// String is the function without the path of its package, and the line.
func (f Frame) String() string {
	return fmt.Sprintf("%s (%s:%d)", path.Base(f.Function), path.Base(f.File), f.Line)
}

// title says what a site has.
func (s Site) title() string {
	var b strings.Builder
	b.WriteString(s.Kind)
	for _, word := range []string{s.Device, s.Purpose} {
		if word != "" {
			b.WriteString(" " + word)
		}
	}
	if s.Name != "" {
		fmt.Fprintf(&b, " %q", s.Name)
	}
	return b.String()
}

// perStep is what a step leaves, in bytes where there are any.
func (s Site) perStep() string {
	if s.BytesPerStep > 0 {
		return units.Bytes(int64(s.BytesPerStep + 0.5))
	}
	return units.Digits(s.ItemsPerStep)
}

// leftBytes is empty for goroutines.
func (s Site) leftBytes() string {
	if s.Kind == Goroutine {
		return ""
	}
	return units.Bytes(s.LeftBytes)
}

// String writes the report as tables.
func (r Report) String() string {
	var b strings.Builder
	if r.WindowSteps == 0 {
		fmt.Fprintf(&b, "%s: %d are needed to tell what leaks\n", units.Count(r.Steps, "step"), fewest)
	} else {
		fmt.Fprintf(&b, "%s in the last %s of %d\n", units.Count(len(r.Leaks), "leak"), units.Count(r.WindowSteps, "step"), r.Steps)
	}
	if len(r.Leaks) > 0 {
		t := texttable.New("LEAKS", ">A STEP", ">ITEMS LEFT", ">BYTES LEFT", "FROM")
		for _, s := range r.Leaks {
			t.Add(s.title(), s.perStep(), units.Grouped(s.LeftItems), s.leftBytes(), s.Where())
			if len(s.Stack) == 1 {
				continue // it is the place
			}
			for _, f := range s.Stack[:min(len(s.Stack), 8)] {
				t.Line("    " + f.String())
			}
		}
		b.WriteString("\n" + t.String())
	}
	if len(r.Others) > 0 {
		t := texttable.New("NO LEAKS, BUT STILL THERE", ">ITEMS LEFT", ">BYTES LEFT", "FROM")
		for _, s := range r.Others {
			t.Add(s.title(), units.Grouped(s.LeftItems), s.leftBytes(), s.Where())
		}
		b.WriteString("\n" + t.String())
	}
	if len(r.Caches) > 0 {
		t := texttable.New("KEPT FOR REUSE", ">RESERVED", ">IN USE", ">PENDING", ">FREE", ">GROWN")
		for _, c := range r.Caches {
			t.Add(c.Kind+" "+c.Device, units.Bytes(c.ReservedBytes), units.Bytes(c.ActiveBytes),
				units.Bytes(c.PendingBytes), units.Bytes(c.FreeBytes), signed(c.GrownBytes))
		}
		b.WriteString("\n" + t.String())
	}
	return b.String()
}

func signed(n int64) string {
	if n < 0 {
		return "-" + units.Bytes(-n)
	}
	return units.Bytes(n)
}

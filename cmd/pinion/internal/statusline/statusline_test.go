package statusline

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/pinion-gpu/pinion/cmd/pinion/internal/terminal"
)

// screen is a terminal as far as a status line needs one: it wraps, and wraps
// lines anew when its width changes.
type screen struct {
	width    int
	lines    [][]rune // without wrapping
	row, col int      // of the cursor, in lines
	unknown  []string // sequences it does not know
}

func (s *screen) Write(p []byte) (int, error) {
	for text := string(p); text != ""; {
		if rest, ok := strings.CutPrefix(text, "\x1b["); ok {
			end := strings.IndexAny(rest, "ABCDJKHm")
			s.escape(rest[:end], rest[end])
			text = rest[end+1:]
			continue
		}
		r, n := utf8.DecodeRuneInString(text)
		text = text[n:]
		for len(s.lines) <= s.row {
			s.lines = append(s.lines, nil)
		}
		switch r {
		case '\r':
			s.col = s.col / s.width * s.width // the start of the row, not of what wrapped
		case '\n':
			s.row, s.col = s.row+1, 0
		default:
			line := s.lines[s.row]
			for len(line) <= s.col {
				line = append(line, ' ')
			}
			line[s.col] = r
			s.lines[s.row] = line
			s.col++
		}
	}
	return len(p), nil
}

func (s *screen) escape(args string, kind byte) {
	switch kind {
	case 'J':
		s.lines[s.row] = s.lines[s.row][:min(s.col, len(s.lines[s.row]))]
		s.lines = s.lines[:s.row+1]
	default:
		s.unknown = append(s.unknown, args+string(kind))
	}
}

func (s *screen) text() string {
	var out []string
	for _, line := range s.lines {
		out = append(out, strings.TrimRight(string(line), " "))
	}
	return strings.TrimRight(strings.Join(out, "\n"), "\n")
}

func newLine(w *screen) *Line {
	at := time.Unix(0, 0)
	return &Line{w: w, width: func() int { return w.width }, now: func() time.Time { at = at.Add(pace); return at }}
}

// Whatever is shown on a terminal of whatever width, and however that changes
// meanwhile: one line, that fits, and nothing of it afterwards.
func TestFits(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 300 {
		s := &screen{width: 45 + random.IntN(80)}
		l := newLine(s)
		var messages []string
		for i := range 40 {
			switch random.IntN(8) {
			case 0:
				l.Clear()
			case 1:
				messages = append(messages, fmt.Sprintf("message %d", i))
				l.Message("message %d", i)
			case 2:
				s.width = 45 + random.IntN(80)
			}
			l.Show(i, random.IntN(2)*40, strings.Repeat("w", random.IntN(60)), strings.Repeat("a", random.IntN(40)), strings.Repeat("b", random.IntN(40)))
			lines := strings.Split(s.text(), "\n")
			if len(lines) != len(messages)+1 {
				t.Fatalf("%d messages and a line, but the screen has\n%s", len(messages), s.text())
			}
			if n := len([]rune(lines[len(lines)-1])); n >= s.width {
				t.Fatalf("a line of %d columns on a terminal of %d", n, s.width)
			}
		}
		l.Clear()
		if got := s.text(); got != strings.Join(messages, "\n") || s.unknown != nil {
			t.Fatalf("in the end the screen has\n%s\nand %q", got, s.unknown)
		}
	}
}

// What matters most is kept.
func TestCompose(t *testing.T) {
	j := &job{what: "feeding host", total: 200, done: 50, begun: time.Unix(0, 0)}
	facts := []string{"2345 samples/s", "held up by decoding", "0.35 GB/s to the device"}
	for columns, want := range map[int]string{
		20:  "feeding ho…   25 %…",
		44:  "feeding host   25 %  50/200  2345 samples/s",
		60:  "feeding host   25 %  50/200  2345 samples/s  30s left",
		79:  "feeding host   25 %  50/200  2345 samples/s  held up by decoding  30s left",
		130: "feeding host  [#####---------------]   25 %  50/200  2345 samples/s  held up by decoding  0.35 GB/s to the device  30s left",
	} {
		got := compose(columns, j, time.Unix(10, 0), facts)
		if columns == 20 {
			if n := utf8.RuneCountInString(got); n > 20 {
				t.Errorf("%d columns in 20: %q", n, got)
			}
			continue
		}
		if got != want {
			t.Errorf("%d columns: %q, want %q", columns, got, want)
		}
	}
	if got := compose(44, &job{what: "reading", done: 7}, time.Unix(0, 0), nil); got != "reading  7" {
		t.Errorf("%q", got)
	}
	if got := terminal.Cut("日本語のテキスト", 9); got != "日本語の…" {
		t.Errorf("%q", got)
	}
}

// Without a terminal there are only messages.
func TestNoTerminal(t *testing.T) {
	var out bytes.Buffer
	l := New(&out)
	l.Show(1, 2, "working")
	l.Message("one %d", 1)
	l.Clear()
	if out.String() != "one 1\n" {
		t.Errorf("%q", out.String())
	}
}

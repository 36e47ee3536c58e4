package top

import (
	"path"
	"strings"
	"unicode"

	"github.com/rivo/uniseg"

	"github.com/pinion-gpu/pinion/cmd/pinion/internal/terminal"
)

// Style is how a line stands out.
type Style int

// Styles of lines.
const (
	Plain   Style = iota
	Title         // the bar at the top
	Heading       // a GPU, a process
	Warning       // what limits, what is wrong
	Faint         // keys, advice
)

// codes are those of xterm's manual. Only a warning has a colour.
var codes = map[Style]string{Title: "\x1b[7m", Heading: "\x1b[1m", Warning: "\x1b[33;1m", Faint: "\x1b[2m"}

// Line is a line of text, with nothing in it that a terminal would obey.
type Line struct {
	Text  string
	Style Style
}

// ANSI is the line for a terminal, in colour or not.
func (l Line) ANSI(colour bool) string {
	code := codes[l.Style]
	if l.Style == Warning && !colour {
		code = codes[Heading]
	}
	if code == "" {
		return l.Text
	}
	return code + l.Text + "\x1b[0m"
}

// clean makes text of others fit to be shown: one line of printable characters, of
// which there are not too many. It keeps no character that moves the cursor, hides, or
// turns the order of others around.
func clean(text string) string {
	const most = 256
	var b strings.Builder
	n := 0
	for _, r := range text {
		if n++; n > most {
			b.WriteString("…")
			break
		}
		switch {
		case r == '\t' || r == '\n' || unicode.Is(unicode.Zs, r):
			b.WriteByte(' ')
		case !unicode.IsPrint(r):
			b.WriteByte('?')
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// shortCommand is a command line without the folders of the program.
func shortCommand(command string) string {
	program, arguments, more := strings.Cut(command, " ")
	switch {
	case program == "":
		return command
	case more:
		return path.Base(program) + " " + arguments
	}
	return path.Base(program)
}

// page is lines of a width.
type page struct {
	width int
	lines []Line

	gpus bool // the machine has some
	full bool // its processors are all busy
}

func (p *page) add(style Style, text string) {
	p.lines = append(p.lines, Line{terminal.Cut(text, p.width), style})
}

// ends adds a line with text at both ends. Where there is no room for both, the left
// one is cut, unless little would be left of it.
func (p *page) ends(style Style, left, right string) {
	room := p.width - uniseg.StringWidth(right) - 2
	if right == "" || room < p.width/3 {
		p.add(style, left)
		return
	}
	left = terminal.Cut(left, room)
	p.add(style, left+strings.Repeat(" ", p.width-uniseg.StringWidth(left)-uniseg.StringWidth(right))+right)
}

// labelWidth is that of the labels in front of facts.
const labelWidth = 9

// facts adds facts behind a label, in as many lines as they need. Empty ones are left
// out; none is broken, only cut where it is wider than the page.
func (p *page) facts(style Style, indent int, label string, facts ...string) {
	p.flow(style, indent, label, "  ", facts)
}

// sentence adds a text behind a label, in as many lines as it needs.
func (p *page) sentence(style Style, indent int, label, text string) {
	p.flow(style, indent, label, " ", strings.Fields(text))
}

func (p *page) flow(style Style, indent int, label, gap string, facts []string) {
	start := strings.Repeat(" ", indent) + label + strings.Repeat(" ", max(1, labelWidth-uniseg.StringWidth(label)))
	hang := strings.Repeat(" ", uniseg.StringWidth(start))
	line, empty := start, true
	for _, fact := range facts {
		switch {
		case fact == "":
			continue
		case empty:
			line += fact
		case uniseg.StringWidth(line+gap+fact) <= p.width:
			line += gap + fact
		default:
			p.add(style, line)
			line = hang + fact
		}
		empty = false
	}
	if !empty {
		p.add(style, line)
	}
}

// words adds a text, wrapped between its words.
func (p *page) words(style Style, indent int, text string) {
	for line := range strings.SplitSeq(terminal.Wrap(strings.Repeat(" ", indent)+text, p.width), "\n") {
		p.add(style, line)
	}
}

// bar draws a part of a whole. Only the whole fills it.
func bar(part float64, columns int) string {
	full := int(min(max(part, 0), 1)*float64(columns) + 0.5)
	if part < 0.995 {
		full = min(full, columns-1)
	}
	return "[" + strings.Repeat("#", full) + strings.Repeat(".", columns-full) + "]"
}

package screen

import "strings"

// Key is a key: its character, or one of the constants.
type Key rune

// Keys that have no character.
const (
	Unknown Key = -1 - iota
	Interrupt
	Suspend
	Escape
	Up
	Down
	PageUp
	PageDown
	Home
	End
)

// sequences are what terminals send for keys, behind ESC.
var sequences = map[string]Key{
	"[A": Up, "OA": Up, "[B": Down, "OB": Down,
	"[5~": PageUp, "[6~": PageDown,
	"[H": Home, "OH": Home, "[1~": Home, "[7~": Home,
	"[F": End, "OF": End, "[4~": End, "[8~": End,
}

// decoder makes keys of what a terminal sends. A sequence may come in two parts, over
// a slow line.
type decoder struct{ pending string }

func (d *decoder) decode(b []byte) (keys []Key) {
	text := d.pending + string(b)
	d.pending = ""
	for text != "" {
		switch c := text[0]; {
		case c != 0x1b:
			keys, text = append(keys, plain(c)), text[1:]
		case len(text) == 1: // ESC itself comes alone, and sequences mostly in one piece
			return append(keys, Escape)
		case text[1] != '[' && text[1] != 'O':
			keys, text = append(keys, Escape), text[1:]
		default:
			end := 2 + strings.IndexFunc(text[2:], final)
			if end < 2 {
				if len(text) < 16 {
					d.pending = text
				}
				return keys
			}
			k, known := sequences[text[1:end+1]]
			if !known {
				k = Unknown
			}
			keys, text = append(keys, k), text[end+1:]
		}
	}
	return keys
}

// final reports whether a character ends a sequence.
func final(r rune) bool { return r >= '@' && r <= '~' }

func plain(c byte) Key {
	switch {
	case c == 3:
		return Interrupt
	case c == 26:
		return Suspend
	case c < ' ' || c > '~':
		return Unknown
	}
	return Key(c)
}

package terminal

import (
	"bytes"
	"testing"
)

func TestWrap(t *testing.T) {
	for _, c := range []struct {
		text  string
		width int
		want  string
	}{
		{"short\n", 10, "short\n"},
		{"one two three four\n", 9, "one two\n  three\n  four\n"},
		{"  one two three\n\nend\n", 10, "  one two\n    three\n\nend\n"},
		{"STAGE   WHERE    TOTAL\n", 10, "STAGE   WHERE    TOTAL\n"},         // a row
		{"  Next:  pinion feed a b c\n", 10, "  Next:  pinion feed a b c\n"}, // to copy
		{"/a/very/long/path is here", 10, "/a/very/long/path\n  is here"},
		{"12 µs is 8", 10, "12 µs is 8"}, // columns, not bytes
	} {
		if got := Wrap(c.text, c.width); got != c.want {
			t.Errorf("%q in %d columns: %q, want %q", c.text, c.width, got, c.want)
		}
	}
}

// What goes to a file or a pipe is never wrapped.
func TestFitElsewhere(t *testing.T) {
	text := "a line that is a good deal longer than any terminal that a person has, with more words behind\n"
	if got := Fit(&bytes.Buffer{}, text); got != text {
		t.Errorf("%q", got)
	}
}

package cli

import (
	"fmt"
	"io"
	"testing"

	"github.com/pinion-gpu/pinion/internal/texttable"
)

// Sentences and tables fit a narrow terminal, and are whole elsewhere.
func TestTextFor(t *testing.T) {
	print := func(w io.Writer) {
		fmt.Fprintln(w, "three words here")
		table := texttable.New("A", "B")
		table.Add("one", "two three four")
		table.Write(w)
	}
	for width, want := range map[int]string{
		0:  "three words here\nA    B\none  two three four\n",
		12: "three words\n  here\nA    B\none  two\n     three\n     four\n",
	} {
		if got := textFor(width, print); got != want {
			t.Errorf("in %d columns:\n%s\nwant\n%s", width, got, want)
		}
	}
}

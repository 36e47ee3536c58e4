package panicked_test

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/internal/panicked"
)

func boom(value any) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = panicked.Error(p)
		}
	}()
	panic(value)
}

func TestOneLine(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{boom("a text"), "panic: a text"},
		{boom(fs.ErrExist), "panic: file already exists"},
		{fmt.Errorf("chunk 3: %w", boom(7)), "chunk 3: panic: 7"},
	} {
		err := panicked.WithStack(c.err)
		for _, format := range []string{"%v", "%s"} {
			if got := fmt.Sprintf(format, err); got != c.want {
				t.Errorf("%s: %q, want %q", format, got, c.want)
			}
		}
		if got := fmt.Sprintf("%q", err); got != fmt.Sprintf("%q", c.want) {
			t.Errorf("%%q: %s", got)
		}
		if got := fmt.Sprintf("%+v", err); !strings.HasPrefix(got, c.want+"\n") || !strings.Contains(got, "boom(") {
			t.Errorf("%%+v does not show where it was: %q", got)
		}
	}
	if err := panicked.WithStack(boom(fs.ErrExist)); !errors.Is(err, fs.ErrExist) {
		t.Error("the panic's error cannot be found")
	}
	if err := panicked.WithStack(fs.ErrExist); err != fs.ErrExist {
		t.Errorf("an error without a panic became %v", err)
	}
}

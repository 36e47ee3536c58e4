package usercode

import (
	"errors"
	"runtime"
	"testing"

	"github.com/pinion-gpu/pinion/internal/testkit"
)

func TestApart(t *testing.T) {
	testkit.NoLeaks(t)
	want := errors.New("an error")
	for _, c := range []struct {
		fn   func() error
		want error
	}{
		{func() error { return nil }, nil},
		{func() error { return want }, want},
		{func() error { runtime.Goexit(); return nil }, ErrGoexit},
		{func() (err error) {
			defer Recover(&err, "here")
			panic(want)
		}, want},
	} {
		if err := Apart(c.fn); !errors.Is(err, c.want) {
			t.Errorf("%v, want %v", err, c.want)
		}
	}
}

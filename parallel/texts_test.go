package parallel_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/parallel"
	"github.com/pinion-gpu/pinion/parallel/local/localtest"
)

func TestTexts(t *testing.T) {
	for _, n := range []int{1, 4} {
		testkit.OK(t, errors.Join(localtest.Run(t, n, "host:4MiB", func(c parallel.Comm) error {
			texts, err := parallel.Texts(c, strings.Repeat("é", 2500*c.Rank())+"\x00never")
			if err != nil {
				return err
			}
			for i, text := range texts {
				if want := strings.Repeat("é", min(2500*i, parallel.LongestText/2)); text != want {
					return fmt.Errorf("of rank %d: %d bytes, not %d", i, len(text), len(want))
				}
			}
			return nil
		})...))
	}
}

func TestFirstError(t *testing.T) {
	full := errors.New("the disk is full")
	testkit.OK(t, errors.Join(localtest.Run(t, 3, "host:4MiB", func(c parallel.Comm) error {
		if err := parallel.FirstError(c, nil); err != nil {
			return err
		}
		mine := map[int]error{1: full, 2: errors.New("something else")}[c.Rank()]
		err := parallel.FirstError(c, mine)
		if err == nil || err.Error() != "rank 1: the disk is full" || errors.Is(err, full) != (c.Rank() == 1) {
			return fmt.Errorf("rank %d has the error %w", c.Rank(), err)
		}
		return nil
	})...))
}

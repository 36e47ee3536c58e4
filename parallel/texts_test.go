package parallel_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/parallel"
	"github.com/pinion-gpu/pinion/parallel/local"
)

// onRanks runs fn on n ranks that are goroutines.
func onRanks(t *testing.T, n int, fn func(c parallel.Comm) error) {
	t.Helper()
	testkit.NoLeaks(t)
	var devices []device.Device
	for range n {
		devices = append(devices, testkit.Must(device.Open("host:4MiB"))(t))
	}
	errs := make([]error, n)
	var all sync.WaitGroup
	for i, c := range testkit.Must(local.New(devices...))(t) {
		all.Go(func() { errs[i] = errors.Join(fn(c), c.Close()) })
	}
	all.Wait()
	testkit.OK(t, errors.Join(errs...))
	for _, dev := range devices {
		testkit.OK(t, dev.Close())
	}
}

func TestTexts(t *testing.T) {
	for _, n := range []int{1, 4} {
		onRanks(t, n, func(c parallel.Comm) error {
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
		})
	}
}

func TestFirstError(t *testing.T) {
	full := errors.New("the disk is full")
	onRanks(t, 3, func(c parallel.Comm) error {
		if err := parallel.FirstError(c, nil); err != nil {
			return err
		}
		mine := map[int]error{1: full, 2: errors.New("something else")}[c.Rank()]
		err := parallel.FirstError(c, mine)
		if err == nil || err.Error() != "rank 1: the disk is full" || errors.Is(err, full) != (c.Rank() == 1) {
			return fmt.Errorf("rank %d has the error %w", c.Rank(), err)
		}
		return nil
	})
}

package nccl

import (
	"context"
	"fmt"
	"os"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/pinion-gpu/pinion/device"
	_ "github.com/pinion-gpu/pinion/device/all"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/parallel"
)

// standIns take the place of the driver and of NCCL, unless PINION_DEVICE names a device.
var standIns = testkit.StandIns{Libraries: []string{"nccl"}, Sources: []string{"testdata/fakenccl/fakenccl.c"}}

func TestMain(m *testing.M) {
	if os.Getenv(rankVar) != "" {
		os.Exit(runProgram())
	}
	if err := os.Setenv("FAKECUDA_DEVICES", "4"); err != nil {
		panic(err)
	}
	os.Exit(standIns.Run(m))
}

// openDevices opens the first GPUs: so many, or all where n is 0. The test is skipped
// where there are fewer, or no NCCL.
func openDevices(t testing.TB, n int) (devices []device.Device) {
	t.Helper()
	if standIns.Missing != "" {
		t.Skip(standIns.Missing)
	}
	if _, err := Version(); err != nil {
		t.Skip(err)
	}
	for i := 0; n == 0 || i < n; i++ {
		dev, err := device.Open(fmt.Sprintf("cuda:%d", i))
		if err != nil && (n > 0 || i == 0) {
			t.Skipf("%d GPUs: %v", max(n, 1), err)
		}
		if err != nil {
			break
		}
		t.Cleanup(func() { testkit.OK(t, dev.Close()) })
		devices = append(devices, dev)
	}
	return devices
}

// sizes of the groups that are tested: on GPUs, one rank and one for each.
func sizes(t testing.TB) []int {
	if standIns.File != "" {
		return []int{1, 2, 4}
	}
	if n := len(openDevices(t, 0)); n > 1 {
		return []int{1, n}
	}
	return []int{1}
}

func open(t testing.TB, size int) []parallel.Comm {
	t.Helper()
	testkit.NoLeaks(t)
	comms, err := Local(openDevices(t, size)...)
	testkit.OK(t, err)
	return comms
}

// openMost opens as many ranks as can be, several.
func openMost(t testing.TB) []parallel.Comm {
	t.Helper()
	all := sizes(t)
	most := all[len(all)-1]
	if most == 1 {
		t.Skip("one GPU")
	}
	return open(t, most)
}

// each calls fn for all ranks at the same time.
func each(comms []parallel.Comm, fn func(parallel.Comm) error) error {
	var all errgroup.Group
	for _, c := range comms {
		all.Go(func() error {
			if err := fn(c); err != nil {
				return fmt.Errorf("rank %d: %w", c.Rank(), err)
			}
			return nil
		})
	}
	return all.Wait()
}

// rig is a rank with a stream and memory.
type rig struct {
	parallel.Comm
	s device.Stream
	p device.Ptr
}

const rigBytes = 4096

// withRigs runs fn as each rank, with a rig.
func withRigs(comms []parallel.Comm, fn func(*rig) error) error {
	return each(comms, func(c parallel.Comm) (err error) {
		r := &rig{Comm: c}
		if r.s, err = c.Device().NewStream(); err != nil {
			return err
		}
		if r.p, err = c.Device().Alloc(rigBytes); err != nil {
			return err
		}
		if err := fn(r); err != nil {
			return err
		}
		if err := r.s.Close(); err != nil {
			return err
		}
		return c.Device().Free(r.p)
	})
}

var ctx = context.Background()

package harness_test

import (
	"context"
	"fmt"

	"github.com/pinion-gpu/pinion/bench/internal/harness"
	"github.com/pinion-gpu/pinion/device"
)

// Two ways of the same, of which this device has one.
func ExampleInTurn() {
	seconds := []float64{0.5, 0.25, 0.5, 0.125} // the first warms up
	straight := &harness.Sample{
		Row:   harness.Row{Name: "peer copy", Unit: "GB/s"},
		Check: func() error { return nil },
		Run: func() (took float64, err error) {
			took, seconds = seconds[0], seconds[1:]
			return took, nil
		},
		Figure: func(seconds float64) float64 { return 1 / seconds }, // of 1 GB
	}
	multicast := &harness.Sample{
		Row:   harness.Row{Name: "multicast", Unit: "GB/s"},
		Check: func() error { return device.ErrNotSupported },
	}
	skipped, err := harness.InTurn(context.Background(), 3, []*harness.Sample{straight, multicast})
	if err != nil {
		panic(err)
	}
	r := straight.Row
	fmt.Printf("%s: %g %s, %g to %g\n", r.Name, r.Value, r.Unit, r.Min, r.Max)
	for _, s := range skipped {
		fmt.Println("skipped:", s.Name)
	}
	// Output:
	// peer copy: 4 GB/s, 2 to 8
	// skipped: multicast
}

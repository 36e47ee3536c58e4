package measure_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/pinion-gpu/pinion/internal/measure"
)

// Two ways of the same, of which this device has one.
func ExamplePlan_Run() {
	seconds := []float64{0.5, 0.25, 0.5, 0.125} // the first warms up
	straight := &measure.Sample{
		Row:   measure.Row{Name: "peer copy", Unit: "GB/s"},
		Check: func() error { return nil },
		Run: func() (took float64, err error) {
			took, seconds = seconds[0], seconds[1:]
			return took, nil
		},
		Figure: func(seconds float64) float64 { return 1 / seconds }, // of 1 GB
	}
	multicast := &measure.Sample{
		Row:   measure.Row{Name: "multicast", Unit: "GB/s"},
		Check: func() error { return errors.ErrUnsupported },
	}
	skipped, err := measure.Plan{Repeats: 3}.Run(context.Background(), []*measure.Sample{straight, multicast})
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

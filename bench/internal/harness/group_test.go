package harness_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/bench/internal/harness"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/measure"
)

// TestMeasure: groups are measured in their own order, those that must be asked
// for only then.
func TestMeasure(t *testing.T) {
	dev, err := device.Open("host")
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	for _, c := range []struct{ only, want, unknown string }{
		{"", "alpha beta", ""},
		{"a", "alpha asked", ""},
		{"asked", "asked", ""},
		{"beta,al", "alpha beta", ""},
		{"be,x", "", `"x"; there are: alpha, asked, beta`},
	} {
		var log []string
		group := func(name string, asked bool) harness.Group {
			return harness.Group{Name: name, Asked: asked, Measure: func(_ context.Context, m *harness.Memory) error {
				m.Later(func() error { log = append(log, name); return nil })
				return nil
			}}
		}
		d := harness.NewDocument[measure.Row](dev, "tests", 1)
		groups := []harness.Group{group("alpha", false), group("asked", true), group("beta", false)}
		err := d.Measure(t.Context(), dev, c.only, groups)
		if got := strings.Join(log, " "); got != c.want || (err == nil) != (c.unknown == "") || err != nil && !strings.Contains(err.Error(), c.unknown) {
			t.Errorf("%q: %s and %v, want %s", c.only, got, err, c.want)
		}
	}
}

// TestMeasureFails: what a device lacks is skipped, any other error ends the
// measurement and names its group.
func TestMeasureFails(t *testing.T) {
	dev, err := device.Open("host")
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	broken := errors.New("broken")
	fails := func(name string, err error) harness.Group {
		return harness.Group{Name: name, Measure: func(context.Context, *harness.Memory) error { return err }}
	}
	d := harness.NewDocument[measure.Row](dev, "tests", 1)
	lack := fmt.Errorf("a second device: %w", device.ErrNotSupported)
	err = d.Measure(t.Context(), dev, "", []harness.Group{fails("lacks", lack), fails("breaks", broken), fails("later", errors.New("not reached"))})
	if !errors.Is(err, broken) || err.Error() != "breaks: broken" {
		t.Error(err)
	}
	if want := []harness.NotAvailable{{Name: "lacks", Reason: lack.Error()}}; !slices.Equal(d.NotAvailable, want) {
		t.Errorf("skipped %+v, want %+v", d.NotAvailable, want)
	}
}

// named is a sample of a program's own.
type named struct {
	measure.Sample
	color string
}

type namedRow struct {
	measure.Row
	Color string
}

func (n *named) Result() namedRow { return namedRow{n.Row, n.color} }

// TestAdd: rows are what samples make of themselves; those that cannot be are
// skipped.
func TestAdd(t *testing.T) {
	check := func() error { return nil }
	d := harness.Document[namedRow]{Head: harness.Head{Repeats: 2}}
	err := harness.Add(t.Context(), &d, []*named{
		{measure.Sample{Row: measure.Row{Name: "a"}, Check: check, Run: func() (float64, error) { return 3, nil }}, "red"},
		{measure.Sample{Row: measure.Row{Name: "b"}, Check: func() error { return device.ErrPinLimit }}, "blue"},
	})
	if want := []namedRow{{measure.Row{Name: "a", Value: 3, Min: 3, Max: 3}, "red"}}; err != nil || !slices.Equal(d.Rows, want) {
		t.Errorf("%+v, %v, want %+v", d.Rows, err, want)
	}
	if want := []harness.NotAvailable{{Name: "b", Reason: device.ErrPinLimit.Error()}}; !slices.Equal(d.NotAvailable, want) {
		t.Errorf("skipped %+v, want %+v", d.NotAvailable, want)
	}
	plain := harness.Document[measure.Row]{Head: harness.Head{Repeats: 1}}
	err = harness.Add(t.Context(), &plain, []*measure.Sample{{Row: measure.Row{Name: "c"}, Check: check, Run: func() (float64, error) { return 1, nil }}})
	if err != nil || len(plain.Rows) != 1 || plain.Rows[0].Name != "c" {
		t.Errorf("%+v, %v", plain.Rows, err)
	}
}

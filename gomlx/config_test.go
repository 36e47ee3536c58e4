package gomlx

import (
	"errors"
	"reflect"
	"testing"

	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

func TestParseConfig(t *testing.T) {
	for config, want := range map[string]Options{
		"":                    {},
		"host":                {Device: "host"},
		"cuda:0":              {Device: "cuda:0"},
		"cuda:0,budget=8GiB":  {Device: "cuda:0", Budget: 8 << 30},
		"host:4GiB, budget=1": {Device: "host:4GiB", Budget: 1},
		"budget=512MiB":       {Budget: 512 << 20},
		"cuda:0,amp=bf16":     {Device: "cuda:0", Autocast: dtype.BF16},
		"host,amp=f16":        {Device: "host", Autocast: dtype.F16},
		"amp=fp16,budget=1KB": {Autocast: dtype.F16, Budget: 1000},
	} {
		if got, err := ParseConfig(config); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %+v, %v; want %+v", config, got, err, want)
		}
	}
	for _, config := range []string{"host,", "host,budget", "host,budget=", "host,budget=0", "host,budget=-1", "host,budget=much", "host,speed=fast", "host,cuda:0", ",", "budgets=1GiB", "host,amp", "amp=", "amp=f32", "host,amp=true"} {
		if got, err := ParseConfig(config); !errors.Is(err, ErrArgument) {
			t.Errorf("%q: %+v, %v", config, got, err)
		}
	}
	_, err := ParseConfig("budget=1GiB,cuda:0")
	testkit.WantError(t, "a device behind an option", err, ErrArgument, `"cuda:0" is not an option; if it is the device, it comes first`)
}

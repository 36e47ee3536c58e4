package gomlx

import (
	"fmt"
	"strings"

	"github.com/pinion-gpu/pinion/step/graph"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/errs"
	"github.com/pinion-gpu/pinion/internal/units"
	"github.com/pinion-gpu/pinion/parallel"
	"github.com/pinion-gpu/pinion/step"
)

// ErrArgument says that a configuration, a shape or an operand cannot be used.
var ErrArgument = errs.ErrArgument

// Options configure a [Backend].
type Options struct {
	// Device names what runs the steps, as device.Open takes it: "cuda:0", "host".
	// Default: "auto", a GPU where there is one.
	Device string

	// On is the device itself, if the program has it open. It stays open when the
	// backend is finalized. Default: nil, that of Ranks, or Device is opened.
	On device.Device

	// Compile compiles each step: to ask it for its plan and its peak of memory, to change
	// how it is planned, or to plan it and no more (step.Plan). The options are those that
	// the step has otherwise. Default: step.Compile.
	Compile func(g *graph.Graph, exec step.Executor, o step.Options) (*step.Executable, error)

	// Autocast is the type that steps partly compute in, by [autocast.Graph]: dtype.BF16 or
	// dtype.F16, for which package scaling scales losses. Variables stay as they are.
	// Default: 0, the types are those of the model.
	Autocast dtype.DType

	// Ranks are who trains together, each in its process or goroutine with a backend of its
	// own and the same models: package ranks has them share gradients. All run the same
	// steps in the same order, on the devices that ranks have. The backend does not close
	// it. Default: nil, nobody.
	Ranks parallel.Comm

	// Average is the floating-point type in which Ranks average gradients of a wider one:
	// dtype.BF16, dtype.F16 or dtype.F32. In bfloat16, half as much travels of float32, and
	// the mean has its 8 bits. It is the same for all ranks, and without Ranks it says
	// nothing. Default: 0, their own.
	Average dtype.DType

	// Budget is the device memory that a step may take, in bytes. Default: no limit, but a
	// step for which the device has no room is planned for what that has left.
	Budget int64
}

// ParseConfig reads what follows "pinion:" in a configuration of GoMLX: a device, and
// options behind commas, all of which may be left out.
//
//	auto
//	host
//	host,budget=512MiB
//	cuda:0,budget=8GiB
//	cuda:0,budget=8GiB,amp=bf16
//
// budget is [Options].Budget; amp is [Options].Autocast, bf16 or f16, which may be called
// fp16.
//
// It fails with [ErrArgument].
func ParseConfig(config string) (Options, error) {
	var opts Options
	for i, part := range strings.Split(config, ",") {
		part = strings.TrimSpace(part)
		name, value, isOption := strings.Cut(part, "=")
		switch {
		case part == "" && config == "":
		case i == 0 && !isOption:
			opts.Device = part
		case isOption && name == "budget":
			n, err := units.ParseBytes(value)
			if err != nil {
				return Options{}, fmt.Errorf("gomlx: configuration %q: budget: %w", config, err)
			}
			opts.Budget = n
		case isOption && name == "amp":
			t, ok := map[string]dtype.DType{"bf16": dtype.BF16, "f16": dtype.F16, "fp16": dtype.F16}[value]
			if !ok {
				return Options{}, fmt.Errorf("gomlx: %w: configuration %q: amp=%s: it is bf16 or f16", ErrArgument, config, value)
			}
			opts.Autocast = t
		case !isOption && i > 0 && part != "":
			return Options{}, fmt.Errorf("gomlx: %w: configuration %q: %q is not an option; if it is the device, it comes first", ErrArgument, config, part)
		default:
			return Options{}, fmt.Errorf("gomlx: %w: configuration %q: %q is not an option; there are budget=SIZE, such as budget=8GiB, and amp=TYPE, such as amp=bf16", ErrArgument, config, part)
		}
	}
	return opts, nil
}

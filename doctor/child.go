package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/pinion-gpu/pinion/internal/nvml"
)

// errBroken: what worked before failed, as it does where a GPU disappears.
var errBroken = errors.New("failed")

// probes are what a child can be asked for.
var probes = map[string]func(context.Context, request) (any, error){
	"device":    probeDevice,
	"nvml":      probeNVML,
	"libraries": probeLibraries,
	"copies":    probeCopies,
	"files":     probeFiles,
	"disk":      probeDisk,
}

// Child is what a process that [Run] started does: it gathers facts and prints
// them. args are what follows Options.Child. It takes over standard input: when
// that ends, the parent has died, and this process exits at once. It fails with
// [ErrArgument] in a process that Run has not started.
func Child(ctx context.Context, args []string) error {
	if len(args) != 2 {
		return errNotStarted
	}
	probe := probes[args[0]]
	var req request
	if err := json.Unmarshal([]byte(args[1]), &req); err != nil || probe == nil {
		return errNotStarted
	}
	go func() {
		io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
	facts, err := probe(ctx, req)
	var r reply
	switch {
	case errors.Is(err, nvml.ErrLost), errors.Is(err, errBroken):
		r.Broken, r.Lost = oneLine(err.Error()), errors.Is(err, nvml.ErrLost)
	case err != nil:
		r.Refused = oneLine(err.Error())
	default:
		if r.Facts, err = json.Marshal(facts); err != nil {
			return err
		}
	}
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	_, err = fmt.Printf("\n%s\n", text)
	return err
}

var errNotStarted = fmt.Errorf("doctor: %w: %w", ErrArgument, errors.New("only doctor itself starts this, to gather facts in a process of its own"))

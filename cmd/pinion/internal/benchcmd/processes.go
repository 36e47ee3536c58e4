package benchcmd

import (
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/pinion-gpu/pinion/cmd/pinion/internal/cli"
	"github.com/pinion-gpu/pinion/cmd/pinion/internal/flags"
	"github.com/pinion-gpu/pinion/cmd/pinion/internal/procbench"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/provenance"
	"github.com/pinion-gpu/pinion/internal/units"
)

func newProcesses() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "processes",
		Short: "Measure pinned memory in several processes",
		Long: `Measure what pinned memory does between processes. Several processes copy to and
from the same device:

  pageable           ordinary memory, copied by the backend itself
  private pinned     page-locked by the process that copies it
  serialised pinned  page-locked by this process and sent to the other as bytes,
                     as pickling a pinned tensor to a worker does
  shared pinned      one segment that every process maps and page-locks itself

Paths with "staged" go through Pinion's copiers and pinned rings instead.

First, new processes time their first copy, one process at a time. Opening the
device and page-locking have their own rows. Then the processes copy again and
again, each alone in turn and all together. The table shows the median of the
repeats, and compares the slowest process with private pinned memory in the same
condition. All bytes are checked.

The figures explain two puzzles: why a simple test shows pinned memory to be far
faster than it is, and why a pinned buffer handed to another process is no
faster than ordinary memory.`,
		Example: `  pinion bench processes
  pinion bench processes --procs 4 --device cuda:0 --size 1GiB
  pinion bench processes --json > processes.json`,
		Args: cli.NoArgs,
	}
	name := cli.DeviceFlag(cmd)
	procs := cmd.Flags().Int("procs", 2, "processes that copy, at most 16")
	repeats := cmd.Flags().Int("repeats", 7, "timed repeats of each copy")
	var bytes int64
	flags.Size(cmd.Flags(), &bytes, "size", 256<<20, "bytes of a copy")
	json := cmd.Flags().Bool("json", false, "print one JSON document")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if *procs < 1 || *procs > procbench.MaxProcs {
			return cli.BadUsage(cmd, "--procs is %d, but must be from 1 to %d", *procs, procbench.MaxProcs)
		}
		if *repeats < 1 {
			return cli.BadUsage(cmd, "--repeats is %d, but must be at least 1", *repeats)
		}
		if bytes < procbench.MinSize {
			return cli.BadUsage(cmd, "--size is %s, but must be at least %s", units.Bytes(bytes), units.Bytes(procbench.MinSize))
		}
		run, err := measureProcesses(cmd, *name, procbench.Options{Procs: *procs, Size: bytes, Repeats: *repeats})
		if err != nil {
			return err
		}
		out := newProcessesOutput(run)
		if *json {
			return cli.PrintJSON(cmd, out)
		}
		return cli.PrintText(cmd, out.print)
	}
	cmd.AddCommand(newProcessesChild())
	return cmd
}

// newProcessesChild is what the processes run.
func newProcessesChild() *cobra.Command {
	return &cobra.Command{
		Use:     "child",
		Short:   "Copy for the bench that started this process",
		Long:    `Copy for the bench that started this process. It is not for people to start.`,
		Example: `  pinion bench processes child    # as bench processes starts it`,
		Hidden:  true,
		Args:    cli.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return procbench.Child(cmd.Context()) },
	}
}

// processesRun is a measurement and what it was made on.
type processesRun struct {
	provenance.Record
	info   device.Info
	opened time.Duration // the device, in this process
	*procbench.Report
}

func measureProcesses(cmd *cobra.Command, name string, o procbench.Options) (run *processesRun, err error) {
	start := time.Now()
	dev, err := cli.OpenDevice(cmd, name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	run = &processesRun{Record: provenance.Now(), info: dev.Info(), opened: time.Since(start)}

	line := cli.NewProgress(cmd)
	o.Args = []string{"bench", "processes", "child"}
	o.Progress = line.Show
	run.Report, err = procbench.Run(cmd.Context(), dev, o)
	line.Clear()
	return run, err
}

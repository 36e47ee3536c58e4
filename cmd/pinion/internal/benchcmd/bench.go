package benchcmd

import (
	"errors"
	"time"

	"github.com/spf13/cobra"

	"github.com/pinion-gpu/pinion/cmd/pinion/internal/cli"
	"github.com/pinion-gpu/pinion/cmd/pinion/internal/flags"
	"github.com/pinion-gpu/pinion/cmd/pinion/internal/linkbench"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/provenance"
	"github.com/pinion-gpu/pinion/internal/units"
)

// New makes the command, with its subcommands.
func New() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure what this machine can do",
		Long: `Measure what this machine can do. --report measures the paths between host and
device memory at every size and writes one HTML page to read and to share:
rates, times, the limit of the link, and advice.`,
		Example: `  pinion bench --report link.html
  pinion bench link --size 256MiB
  pinion bench collectives
  pinion bench managed
  pinion bench processes
  pinion bench step --budget 8GiB`,
		Args: cli.NoArgs,
	}
	file := cmd.Flags().String("report", "", "`FILE` for an HTML page about the link")
	flags := addLinkFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if !cmd.Flags().Changed("report") {
			for _, name := range linkFlagNames {
				if cmd.Flags().Changed(name) {
					return cli.BadUsage(cmd, "--%s needs --report, or a command such as bench link", name)
				}
			}
			return cmd.Help()
		}
		if *file == "" {
			return cli.BadUsage(cmd, "--report needs the name of a file")
		}
		if err := flags.check(cmd); err != nil {
			return err
		}
		page, err := cli.CreateFile(*file)
		if err != nil {
			return err
		}
		run, err := flags.measure(cmd, linkbench.Options{Curves: true})
		if err != nil {
			return errors.Join(err, page.Discard())
		}
		if err := cli.FinishFile(page, run.writeReport); err != nil {
			return err
		}
		out := newLinkOutput(run)
		out.Report = *file
		if flags.json {
			return cli.PrintJSON(cmd, out)
		}
		out.hideCurves()
		return cli.PrintText(cmd, out.print)
	}
	cmd.AddCommand(newCollectives(), newLink(), newManaged(), newProcesses(), newStep(), newTier())
	return cmd
}

func newLink() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "link",
		Short: "Measure the paths between host and device memory",
		Long: `Measure the paths between host and device memory, each checked for correct bytes
first:

  pageable  ordinary memory, copied by the backend itself
  staged    ordinary memory, through Pinion's copiers and pinned rings
  pinned    page-locked memory, straight to the copy engine
  mapped    page-locked memory, read and written by a kernel

The paths are timed in turn, one repeat of each after the other. The table shows
the median of the repeats, the slowest and the fastest. Opening the device has
its own row: a benchmark that times it together with the first copy says nothing
about copies.

1 GB/s is 10^9 bytes a second. OF BEST compares a path with the fastest one in
the same direction.

A run takes about three times --size of host memory, and as much again as --size
where the device shares it. The default is 1 GiB, or less where memory is short.

--curves also measures every path at sizes from 1 KiB to --size, and one more:

  chosen    ordinary memory, by the path that Pinion chooses for the size

CHOSEN / BEST is its time over that of the faster of pageable and staged.

Pinion chooses by a model of this machine: what a copy costs on each path,
depending on its size. --calibrate measures the model, prints it with the choice
for each size, and keeps it in the user's cache directory, where package
transfer finds it; it takes no flags but --device and --json. --curves and bench
--report measure the model where there is none. The model of another machine,
driver or version is never used.`,
		Example: `  pinion bench link
  pinion bench link --device cuda:0 --size 4GiB --repeats 15
  pinion bench link --curves
  pinion bench link --calibrate
  pinion bench link --size 64MiB --repeats 1 --trace trace.json
  pinion bench link --json > link.json`,
		Args: cli.NoArgs,
	}
	flags := addLinkFlags(cmd)
	copiers := cmd.Flags().Int("copiers", 0, "goroutines of the staged path (default: one per processor, at most 12)")
	calibrate := cmd.Flags().Bool("calibrate", false, "measure and keep the model that Pinion chooses paths by")
	curves := cmd.Flags().Bool("curves", false, "also measure every path at sizes from 1 KiB")
	cmd.RunE = cli.TraceFlag(cmd.Flags()).Run(func(cmd *cobra.Command, _ []string) error {
		const most = 256 // far beyond use: each pins 8 MiB
		if *copiers < 0 || *copiers > most {
			return cli.BadUsage(cmd, "--copiers is %d, but must be from 0 to %d", *copiers, most)
		}
		if err := flags.check(cmd); err != nil {
			return err
		}
		if *calibrate {
			for _, name := range []string{"size", "repeats", "copiers", "curves"} {
				if cmd.Flags().Changed(name) {
					return cli.BadUsage(cmd, "--calibrate takes no --%s", name)
				}
			}
			return flags.calibrate(cmd)
		}
		run, err := flags.measure(cmd, linkbench.Options{Copiers: *copiers, Curves: *curves})
		if err != nil {
			return err
		}
		out := newLinkOutput(run)
		if flags.json {
			return cli.PrintJSON(cmd, out)
		}
		return cli.PrintText(cmd, out.print)
	})
	return cmd
}

// linkFlags are those of every measurement of the link.
type linkFlags struct {
	device  *string
	size    int64
	repeats int
	json    bool
}

var linkFlagNames = []string{"device", "size", "repeats", "json"}

func addLinkFlags(cmd *cobra.Command) *linkFlags {
	f := &linkFlags{device: cli.DeviceFlag(cmd)}
	flags.Size(cmd.Flags(), &f.size, "size", 1<<30, "bytes of the largest copy; the default is less where memory is short")
	cmd.Flags().IntVar(&f.repeats, "repeats", 7, "timed repeats of each path")
	cmd.Flags().BoolVar(&f.json, "json", false, "print one JSON document")
	return f
}

func (f *linkFlags) check(cmd *cobra.Command) error {
	if f.repeats < 1 {
		return cli.BadUsage(cmd, "--repeats is %d, but must be at least 1", f.repeats)
	}
	if f.size < linkbench.MinSize {
		return cli.BadUsage(cmd, "--size is %s, but must be at least %s", units.Bytes(f.size), units.Bytes(linkbench.MinSize))
	}
	return nil
}

// linkRun is a measurement and what it was made on.
type linkRun struct {
	provenance.Record
	info   device.Info
	opened time.Duration
	*linkbench.Report
}

// measure opens the device and measures it with the flags' options added to o. An
// interrupt ends it within a second, also in the middle of pinning much memory.
func (f *linkFlags) measure(cmd *cobra.Command, o linkbench.Options) (*linkRun, error) {
	line := cli.NewProgress(cmd)
	defer line.Clear()
	return cli.Promptly(cmd.Context(), func() (*linkRun, error) { return f.measureWith(cmd, o, line) })
}

func (f *linkFlags) measureWith(cmd *cobra.Command, o linkbench.Options, line *cli.Progress) (run *linkRun, err error) {
	start := time.Now()
	dev, err := cli.OpenDevice(cmd, *f.device)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	run = &linkRun{Record: provenance.Now(), info: dev.Info(), opened: time.Since(start)}

	if o.Curves {
		if err := ensureModel(cmd, dev, line.Show); err != nil {
			return nil, err
		}
	}
	o.Repeats, o.Progress = f.repeats, line.Show
	if cmd.Flags().Changed("size") {
		o.Size = f.size // and not less
	}
	run.Report, err = linkbench.Run(cmd.Context(), dev, o)
	return run, err
}

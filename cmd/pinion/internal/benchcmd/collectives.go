package benchcmd

import (
	"cmp"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/pinion-gpu/pinion/cmd/pinion/internal/cli"
	"github.com/pinion-gpu/pinion/cmd/pinion/internal/collbench"
	"github.com/pinion-gpu/pinion/cmd/pinion/internal/collreport"
	"github.com/pinion-gpu/pinion/cmd/pinion/internal/flags"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/cpuname"
	"github.com/pinion-gpu/pinion/internal/provenance"
	"github.com/pinion-gpu/pinion/internal/units"
	"github.com/pinion-gpu/pinion/parallel"
	"github.com/pinion-gpu/pinion/parallel/auto"
	"github.com/pinion-gpu/pinion/parallel/launch"
)

func newCollectives() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "collectives",
		Short: "Measure what ranks do together, over sizes",
		Long: `Measure what ranks do together, over sizes, counted as nccl-tests counts.
Started by mpirun or srun, these processes are the ranks, and the first prints.
Started alone, the command runs --ranks goroutines, on the host.

Of n ranks, SIZE is what is named here, and the bus bandwidth (BUS) so many
times the algorithm bandwidth (ALG):

  all-reduce      what each rank has        2(n-1)/n
  reduce-scatter  what each rank sends      (n-1)/n
  all-gather      what each rank receives   (n-1)/n
  broadcast       what the first rank has   1
  send-receive    what each rank sends      1; to the next one, in a ring
  all-to-all      what each rank sends      (n-1)/n

ALG is SIZE over TIME. BUS is what each rank's link carries for that, to be
compared with the hardware's rate. 1 GB/s is 10^9 bytes a second. Where each
rank has a share of SIZE, that is rounded up to whole elements for each.

TIME is the mean of --repeats calls back to back, in µs. SINGLE is the median of
calls that are waited for one by one, for sizes up to 64 KiB. The slowest rank
counts. The columns from IN PLACE on are the same for calls whose result
replaces what was sent. All values are checked first: OK.

--from, --to and the sizes between them, by --factor, are measured. Each rank
needs memory for two buffers of --to.`,
		Example: `  pinion bench collectives
  pinion bench collectives --ranks 4 --only all-reduce --to 16MiB
  mpirun -n 4 pinion bench collectives --device host
  srun --mpi=pmix -n 8 pinion bench collectives --device host --json > all.json
  mpirun -n 4 pinion bench collectives --device host --report all.html`,
		Args: cli.NoArgs,
	}
	f := collectivesFlags{device: cli.DeviceFlag(cmd)}
	set := cmd.Flags()
	set.BoolVar(&f.copies, "copies", false, "have copy engines do large sums, shares and gathers of GPUs, as steps of training do")
	flags.Size(set, &f.Min, "from", 8, "least size")
	flags.Size(set, &f.Max, "to", 256<<20, "largest size; the default is less where memory is short")
	flags.Int(set, &f.Factor, "factor", 4, flags.AtLeast(2), "from a size to the next")
	flags.Int(set, &f.Repeats, "repeats", 20, flags.AtLeast(1), "timed calls of each size")
	flags.Int(set, &f.Warmup, "warmup", 5, flags.AtLeast(0), "calls before them")
	flags.Choice(set, &f.dtype, "type", "f32", collectiveTypes(), "type of elements")
	flags.Choice(set, &f.op, "op", "sum", collectiveOps(), "how elements are combined")
	flags.Choices(set, &f.Operations, "only", collbench.Operations(), "what to measure, such as all-reduce (default: all)")
	flags.Int(set, &f.ranks, "ranks", 2, flags.Between(2, 256), "goroutines to run as ranks, where no launcher started this")
	set.StringVar(&f.report, "report", "", "`FILE` for an HTML page with curves")
	set.BoolVar(&f.json, "json", false, "print one JSON document")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return f.run(cmd) }
	return cli.Ranked(cmd, "report", "http", "http-public")
}

type collectivesFlags struct {
	collbench.Options
	copies            bool
	device            *string
	dtype, op, report string
	ranks             int
	json              bool
}

// collectiveTypes are those whose elements can be combined.
func collectiveTypes() (names []string) {
	for t := dtype.U8; t.Valid(); t++ {
		if parallel.Reduces(t, parallel.Sum) {
			names = append(names, t.String())
		}
	}
	return names
}

func collectiveOps() (names []string) {
	for op := parallel.Sum; op <= parallel.Avg; op++ {
		names = append(names, op.String())
	}
	return names
}

func (f *collectivesFlags) check(cmd *cobra.Command, world launch.World) (err error) {
	if f.Type, err = dtype.Parse(f.dtype); err != nil {
		return err
	}
	for f.Op = parallel.Sum; f.Op.String() != f.op; {
		f.Op++
	}
	if f.Operations == nil {
		f.Operations = collbench.Operations()
	}
	f.Exact = cmd.Flags().Changed("to")
	for _, x := range []struct {
		flag string
		size int64
	}{{"from", f.Min}, {"to", f.Max}} {
		if element := int64(f.Type.Size()); x.size < 1 || x.size%element != 0 {
			return cli.BadUsage(cmd, "--%s is %s, but must be a multiple of the %s of an element of type %v", x.flag, units.ExactBytes(x.size), units.Count(element, "byte"), f.Type)
		}
	}
	switch {
	case f.Min > f.Max:
		return cli.BadUsage(cmd, "--from is %s, but must not be above --to, %s", units.ExactBytes(f.Min), units.ExactBytes(f.Max))
	case !parallel.Reduces(f.Type, f.Op):
		return cli.BadUsage(cmd, "--op is %q, but numbers of type %v have none", f.op, f.Type)
	case world.Size > 1 && cmd.Flags().Changed("ranks"):
		return cli.BadUsage(cmd, "--ranks is for a start without a launcher, but %s started %s", world.Launcher, units.Count(world.Size, "rank"))
	case f.report == "" && cmd.Flags().Changed("report"):
		return cli.BadUsage(cmd, "--report needs the name of a file")
	}
	return nil
}

func (f *collectivesFlags) run(cmd *cobra.Command) error {
	world, err := launch.FromEnv()
	if err != nil {
		return err
	}
	if err := f.check(cmd, world); err != nil {
		return err
	}
	line := cli.NewProgress(cmd)
	f.Progress = line.Show
	// Of several ranks, one that fails is said before mpirun's signal to the others counts.
	measure := func() (*collectivesRun, error) { return f.measure(cmd, world) }
	var run *collectivesRun
	if world.Size == 1 {
		run, err = cli.Promptly(cmd.Context(), measure)
	} else {
		run, err = measure()
	}
	line.Clear()
	if err != nil || world.Rank > 0 {
		return err
	}
	out := run.output()
	if f.report != "" {
		page, err := cli.CreateFile(f.report)
		if err != nil {
			return err
		}
		if err := cli.FinishFile(page, run.writeReport); err != nil {
			return err
		}
		out.Report = f.report
	}
	if f.json {
		err = cli.PrintJSON(cmd, out)
	} else {
		err = cli.PrintText(cmd, out.print)
	}
	return errors.Join(err, run.wrong())
}

// collectivesRun is a measurement and what it was made on.
type collectivesRun struct {
	provenance.Record
	info device.Info
	*collbench.Report
}

// measure opens the device and measures, as one of the ranks that were started, or with
// ranks of its own.
func (f *collectivesFlags) measure(cmd *cobra.Command, world launch.World) (run *collectivesRun, err error) {
	dev, err := f.open(cmd, world)
	if err != nil {
		return nil, err
	}
	defer func() { err = cmp.Or(err, dev.Close()) }()
	run = &collectivesRun{Record: provenance.Now(), info: dev.Info()}
	if world.Size == 1 {
		if err := f.checkReport(); err != nil {
			return nil, err
		}
		run.Report, err = collbench.Local(cmd.Context(), dev, f.ranks, f.Options)
		return run, err
	}
	ranks, err := auto.Open(cmd.Context(), dev, auto.Options{World: &world, NoCopies: !f.copies})
	if err != nil {
		return nil, err
	}
	defer func() { err = cmp.Or(err, ranks.Close()) }()
	if err := f.checkReport(); err != nil {
		ranks.Fail(err)
		return nil, err
	}
	run.Report, err = collbench.Run(cmd.Context(), ranks, f.Options)
	return run, err
}

// checkReport fails where the page could not be written.
func (f *collectivesFlags) checkReport() error {
	if f.report == "" {
		return nil
	}
	return cli.CheckFile(f.report)
}

// open opens the device of a rank. Ranks of one process are on the host, unless a device is
// named.
func (f *collectivesFlags) open(cmd *cobra.Command, world launch.World) (device.Device, error) {
	if *f.device == "auto" && world.Size == 1 {
		return cli.OpenDevice(cmd, "host")
	}
	return cli.OpenRankDevice(cmd, *f.device, world.LocalRank, world.LocalSize)
}

// wrong is an error if a value was.
func (r *collectivesRun) wrong() error {
	var list []string
	for _, x := range r.Rows {
		if x.Wrong != "" {
			list = append(list, x.Wrong)
		}
	}
	if list == nil {
		return nil
	}
	return fmt.Errorf("%d of %s gave wrong values, the first: %s", len(list), units.Count(len(r.Rows), "row"), list[0])
}

// writeReport writes the run as an HTML page.
func (r *collectivesRun) writeReport(w io.Writer) error {
	return collreport.Render(w, &collreport.Report{
		MeasuredAt: r.MeasuredAt, Commit: r.Commit, Platform: r.Platform, CPU: cpuname.Name(), CPUs: r.CPUs,
		Device: r.info, Bench: r.Report,
	})
}

package benchcmd

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pinion-gpu/pinion/cmd/pinion/internal/cli"
	"github.com/pinion-gpu/pinion/cmd/pinion/internal/flags"
	"github.com/pinion-gpu/pinion/cmd/pinion/internal/tierbench"
	"github.com/pinion-gpu/pinion/cmd/pinion/internal/tierreport"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/atomicfile"
	"github.com/pinion-gpu/pinion/internal/cpuname"
	"github.com/pinion-gpu/pinion/internal/provenance"
	"github.com/pinion-gpu/pinion/internal/sysmem"
	"github.com/pinion-gpu/pinion/internal/texttable"
	"github.com/pinion-gpu/pinion/internal/units"
)

func newTier() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "tier",
		Short: "Measure working sets larger than a budget of device memory",
		Long: `Measure working sets from half of a budget of device memory to four times that,
whose arrays move between pinned host memory and the device as they are used:

  sequential  in turn, again and again; also with every byte written and
              written back
  random      all alike
  zipf        the n-th most popular array is used 1/n as often as the first

The arrays are held in these ways:

  store       by a tier.Store that is told nothing
  announced   by a tier.Store that knows the order of uses
  layers      by a tier.Stream, which runs a step for each array
  managed     as managed memory, each array prefetched before its use and the
              least recently used ones sent back; only where pages migrate
  files       with --folder: by a store that knows the order, has host memory
              for half of the budget, and keeps the rest in files
  copy anew   by nobody: each use copies its array, three buffers in turn

USED is how fast the uses went through their bytes: more than the link carries
where arrays stay on the device. MOVED is what crossed the link meanwhile, both
directions together. MISSES are the bytes brought in, of those used; LEAST is
what the best possible schedule would bring in (Belady's), LRU what dropping the
least recently used one would. The content is checked before it is timed.

In the end arrays of twice a pool's size are touched at random, with plain
allocations of the pool beside them; every byte is checked.

The budget stands in for the device's capacity; device memory is never filled. A
run takes --budget of device memory and four times that of pinned host memory.`,
		Example: `  pinion bench tier
  pinion bench tier --device cuda:0 --budget 4GiB --array 64MiB
  pinion bench tier --ratios 2 --access zipf
  pinion bench tier --folder /nvme0 --folder /nvme1
  pinion bench tier --report tier.html --json > tier.json`,
		Args: cli.NoArgs,
	}
	var o tierbench.Options
	var asJSON bool
	name := cli.DeviceFlag(cmd)
	flags.Size(cmd.Flags(), &o.Budget, "budget", 1<<30, "bytes of device memory for the arrays; the default is less where memory is short")
	flags.Size(cmd.Flags(), &o.ArrayBytes, "array", 0, "bytes of an array (default: 1/64 of the budget)")
	cmd.Flags().Float64SliceVar(&o.Ratios, "ratios", []float64{0.5, 1, 1.5, 2, 4}, "working sets to measure, in terms of the budget")
	cmd.Flags().StringSliceVar(&o.Access, "access", tierbench.Accesses(), "ways of using the arrays")
	cmd.Flags().Float64Var(&o.Seconds, "seconds", 0.5, "least time of a row")
	cmd.Flags().StringArrayVar(&o.Folders, "folder", nil, "also keep arrays in a file in this folder; several share the bytes")
	report := cmd.Flags().String("report", "", "write an HTML page with curves to this file")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print one JSON document")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if o.Seconds <= 0 || o.Seconds > 60 {
			return cli.BadUsage(cmd, "--seconds is %g, but must be above 0 and at most 60", o.Seconds)
		}
		for _, r := range o.Ratios {
			if !(r > 0 && r <= 64) {
				return cli.BadUsage(cmd, "--ratios has %g, but must be above 0 and at most 64", r)
			}
		}
		for _, a := range o.Access {
			if !slices.Contains(tierbench.Accesses(), a) {
				return cli.BadUsage(cmd, "--access has %q, but must be of %s", a, strings.Join(tierbench.Accesses(), ", "))
			}
		}
		if cmd.Flags().Changed("array") && o.Budget/4 < o.ArrayBytes {
			return cli.BadUsage(cmd, "--array is %s, but must be at most a quarter of the budget of %s", units.Bytes(o.ArrayBytes), units.Bytes(o.Budget))
		}
		if n := o.ArrayBytes; cmd.Flags().Changed("array") && n < tierbench.LeastArray {
			return cli.BadUsage(cmd, "--array is %s, but must be at least %s", units.Bytes(n), units.Bytes(tierbench.LeastArray))
		}
		if o.Budget < 4*tierbench.LeastArray {
			return cli.BadUsage(cmd, "--budget is %s, but must be at least %s", units.Bytes(o.Budget), units.Bytes(4*tierbench.LeastArray))
		}
		if *report == "" && cmd.Flags().Changed("report") {
			return cli.BadUsage(cmd, "--report needs the name of a file")
		}
		page := (*atomicfile.File)(nil)
		if *report != "" {
			var err error
			if page, err = cli.CreateFile(*report); err != nil {
				return err
			}
		}
		run, err := measureTier(cmd, *name, o, cmd.Flags().Changed("budget"))
		if err != nil {
			if page != nil {
				err = errors.Join(err, page.Discard())
			}
			return err
		}
		if page != nil {
			if err := cli.FinishFile(page, run.writeReport); err != nil {
				return err
			}
		}
		out := run.output()
		out.Report = *report
		if asJSON {
			return cli.PrintJSON(cmd, out)
		}
		return cli.PrintText(cmd, out.print)
	}
	return cmd
}

// tierRun is a measurement and what it was made on.
type tierRun struct {
	provenance.Record
	info    device.Info
	opened  time.Duration
	options tierbench.Options
	*tierbench.Report
}

func measureTier(cmd *cobra.Command, name string, o tierbench.Options, exact bool) (run *tierRun, err error) {
	start := time.Now()
	dev, err := cli.OpenDevice(cmd, name)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	record, opened := provenance.Now(), time.Since(start)
	if !exact {
		memory, err := dev.Memory()
		if err != nil {
			return nil, err
		}
		o.Budget = max(min(o.Budget, memory.FreeBytes/4, sysmem.Available()/16)>>20<<20, 1<<20)
	}
	if o.ArrayBytes == 0 {
		o.ArrayBytes = max(o.Budget/64, tierbench.LeastArray)
	}
	line := cli.NewProgress(cmd)
	o.Progress = line.Show
	report, err := tierbench.Run(cmd.Context(), dev, o)
	line.Clear()
	if err != nil {
		return nil, err
	}
	return &tierRun{record, dev.Info(), opened, o, report}, nil
}

func (r *tierRun) output() *tierOutput {
	return newTierOutput(r.Record, r.info, r.opened, r.options, r.Report)
}

// writeReport writes the run as an HTML page.
func (r *tierRun) writeReport(w io.Writer) error {
	return tierreport.Render(w, &tierreport.Report{
		MeasuredAt: r.MeasuredAt, Commit: r.Commit, Platform: r.Platform, CPU: cpuname.Name(), CPUs: r.CPUs,
		Device: r.info, Options: r.options, Bench: r.Report,
	})
}

// tierOutput is the JSON document of pinion bench tier.
type tierOutput struct {
	provenance.Record
	Link        *cli.LinkRow `json:"link,omitempty"`
	BudgetBytes int64        `json:"budget_bytes"`
	ArrayBytes  int64        `json:"array_bytes"`
	H2DGBPerS   float64      `json:"h2d_gb_per_s"` // pinned memory, arrays one after the other
	D2HGBPerS   float64      `json:"d2h_gb_per_s"`
	InitSeconds float64      `json:"initialisation_seconds"`
	Rows        []tierRow    `json:"rows"`

	Pressure tierPressure `json:"pressure"`
	Report   string       `json:"report_file,omitempty"` // HTML page

	NotAvailable []skippedRow `json:"not_available"`
}

// tierPressure is arrays of twice the size of a pool, and plain allocations beside
// them.
type tierPressure struct {
	Arrays         int     `json:"arrays"`
	Bytes          int64   `json:"bytes"`
	Touches        int     `json:"touches"`
	Allocs         int     `json:"allocs"`
	Failures       int     `json:"failures"`
	FirstFailure   string  `json:"first_failure,omitempty"`
	ReclaimedBytes int64   `json:"reclaimed_bytes"`
	Seconds        float64 `json:"seconds"`
}

type tierRow struct {
	Access        string  `json:"access"`
	Write         bool    `json:"write"`
	Ratio         float64 `json:"working_set_ratio"`
	By            string  `json:"by"`
	Arrays        int     `json:"arrays"`
	Uses          int64   `json:"uses"`
	Seconds       float64 `json:"seconds"`
	UsedBytes     int64   `json:"used_bytes"`
	FilledBytes   int64   `json:"filled_bytes"`
	WrittenBytes  int64   `json:"written_bytes"`
	FetchedBytes  int64   `json:"fetched_bytes"` // from files
	SavedBytes    int64   `json:"saved_bytes"`   // to files
	LeastBytes    int64   `json:"least_filled_bytes"`
	LRUBytes      int64   `json:"lru_filled_bytes"`
	GBPerS        float64 `json:"gb_per_s"`       // used
	MovedGBPerS   float64 `json:"moved_gb_per_s"` // both directions together
	LinkFraction  float64 `json:"link_fraction"`  // bytes brought in a second, of h2d_gb_per_s
	FloorFraction float64 `json:"floor_fraction"` // time of the fewest bytes at h2d_gb_per_s, of the time taken
}

func newTierOutput(record provenance.Record, info device.Info, opened time.Duration, o tierbench.Options, r *tierbench.Report) *tierOutput {
	out := &tierOutput{
		Record: record.On(info.ID, info.Name), Link: cli.NewLinkRow(info.Link),
		BudgetBytes: o.Budget, ArrayBytes: o.ArrayBytes,
		H2DGBPerS: r.LinkH2D / 1e9, D2HGBPerS: r.LinkD2H / 1e9, InitSeconds: opened.Seconds(),
		Rows: []tierRow{}, NotAvailable: []skippedRow{},
	}
	for _, n := range r.NotAvailable {
		out.NotAvailable = append(out.NotAvailable, skippedRow{n.Name, n.Reason})
	}
	out.Pressure = tierPressure{r.Pressure.Arrays, r.Pressure.Bytes, r.Pressure.Touches, r.Pressure.Allocs, r.Pressure.Failures, "",
		r.Pressure.Reclaimed, r.Pressure.Seconds}
	if err := r.Pressure.First; err != nil {
		out.Pressure.FirstFailure = err.Error()
	}
	for _, x := range r.Rows {
		out.Rows = append(out.Rows, tierRow{
			Access: x.Access, Write: x.Write, Ratio: x.Ratio, By: x.By, Arrays: x.Arrays, Uses: x.Uses, Seconds: x.Seconds,
			UsedBytes: x.Bytes, FilledBytes: x.Filled, WrittenBytes: x.Written, FetchedBytes: x.Fetched, SavedBytes: x.Saved, LeastBytes: x.Least, LRUBytes: x.LRU,
			GBPerS: x.Rate() / 1e9, MovedGBPerS: x.Moved() / 1e9,
			LinkFraction:  float64(x.Filled) / x.Seconds / r.LinkH2D,
			FloorFraction: float64(x.Least) / r.LinkH2D / x.Seconds,
		})
	}
	return out
}

func (o *tierOutput) print(w io.Writer) {
	fmt.Fprintf(w, "%s  %s", o.Device, o.DeviceName)
	if o.Link != nil {
		fmt.Fprintf(w, "  %s", o.Link)
	}
	fmt.Fprintf(w, "\na budget of %s, arrays of %s; GB/s\npinned memory, one array after the other: %s to the device, %s back\n",
		units.Bytes(o.BudgetBytes), units.Bytes(o.ArrayBytes), cli.GBPerS(o.H2DGBPerS), cli.GBPerS(o.D2HGBPerS))
	seen := map[string]bool{}
	for _, r := range o.Rows {
		what := r.Access
		if r.Write {
			what += ", written"
		}
		if seen[what] {
			continue
		}
		seen[what] = true
		fmt.Fprintln(w)
		t := texttable.New("WORKING SET", what, ">USED", ">MOVED", ">OF LINK", ">MISSES", ">LEAST", ">LRU")
		for _, x := range o.Rows {
			if x.Access != r.Access || x.Write != r.Write {
				continue
			}
			share := func(n int64) string { return units.Percent(float64(n) / float64(x.UsedBytes)) }
			t.Add(fmt.Sprintf("%gx", x.Ratio), x.By, cli.GBPerS(x.GBPerS), cli.GBPerS(x.MovedGBPerS), units.Percent(x.LinkFraction),
				share(x.FilledBytes), share(x.LeastBytes), share(x.LRUBytes))
		}
		t.Write(w)
	}
	printNotAvailable(w, o.NotAvailable)
	if p := o.Pressure; p.Arrays > 0 {
		fmt.Fprintf(w, "\nA pool of %s, arrays of %s in it, touched %s at random, and %s beside them: %s. %s left the device for them; %s in all.\n",
			units.Bytes(o.BudgetBytes), units.Bytes(p.Bytes), units.Count(p.Touches, "time"), units.Count(p.Allocs, "plain allocation"),
			units.Count(p.Failures, "failure"), units.Bytes(p.ReclaimedBytes), units.Seconds(p.Seconds))
		if p.FirstFailure != "" {
			fmt.Fprintf(w, "The first failure: %s\n", p.FirstFailure)
		}
	}
}

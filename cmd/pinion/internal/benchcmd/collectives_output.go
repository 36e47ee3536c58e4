package benchcmd

import (
	"fmt"
	"io"
	"slices"

	"github.com/pinion-gpu/pinion/cmd/pinion/internal/collbench"
	"github.com/pinion-gpu/pinion/internal/provenance"
	"github.com/pinion-gpu/pinion/internal/texttable"
	"github.com/pinion-gpu/pinion/internal/units"
)

// collectivesOutput is the JSON document of pinion bench collectives.
type collectivesOutput struct {
	provenance.Record
	Ranks       int             `json:"ranks"`
	Hosts       int             `json:"hosts"`
	Launcher    string          `json:"launcher,omitempty"` // left out: ranks are goroutines
	DType       string          `json:"dtype"`
	Reduction   string          `json:"reduction"`
	SizeBytes   int64           `json:"size_bytes"` // the largest
	SizeReason  string          `json:"size_reason,omitempty"`
	Repeats     int             `json:"repeats"`
	WarmupCalls int             `json:"warmup_calls"`
	Rows        []collectiveRow `json:"rows"`
	Report      string          `json:"report_file,omitempty"`
}

type collectiveRow struct {
	Operation string            `json:"operation"`
	Bytes     int64             `json:"bytes"`
	OK        bool              `json:"ok"`
	BusRatio  float64           `json:"bus_ratio"` // bus bandwidth over algorithm bandwidth
	Apart     *collectiveTiming `json:"out_of_place,omitempty"`
	InPlace   *collectiveTiming `json:"in_place,omitempty"`
}

type collectiveTiming struct {
	MeanSeconds     float64 `json:"mean_seconds"`             // of calls back to back
	SingleSeconds   float64 `json:"single_seconds,omitempty"` // the median of calls that are waited for
	AlgorithmGBPerS float64 `json:"algorithm_gb_per_s"`
	BusGBPerS       float64 `json:"bus_gb_per_s"`
}

func (r *collectivesRun) output() *collectivesOutput {
	out := &collectivesOutput{
		Record: r.Record.On(r.info.ID, r.info.Name), Ranks: r.World.Size, Hosts: r.Hosts, Launcher: r.World.Launcher,
		DType: r.Type.String(), Reduction: r.Op.String(), SizeBytes: r.Max, SizeReason: r.SizeReason,
		Repeats: r.Repeats, WarmupCalls: r.Warmup, Rows: []collectiveRow{},
	}
	timing := func(t *collbench.Timing) *collectiveTiming {
		if t == nil {
			return nil
		}
		return &collectiveTiming{t.Mean, t.Single, t.Algorithm / 1e9, t.Bus / 1e9}
	}
	for _, x := range r.Rows {
		out.Rows = append(out.Rows, collectiveRow{x.Operation, x.Bytes, x.Wrong == "",
			collbench.BusFactor(x.Operation, r.World.Size), timing(x.Apart), timing(x.InPlace)})
	}
	return out
}

func (o *collectivesOutput) print(w io.Writer) {
	fmt.Fprintf(w, "%s  %s\n%s, ", o.Device, o.DeviceName, units.Count(o.Ranks, "rank"))
	if o.Launcher == "" {
		fmt.Fprintf(w, "goroutines of this process; mpirun -n %d would start processes\n", o.Ranks)
	} else {
		fmt.Fprintf(w, "started by %s on %s\n", o.Launcher, units.Count(o.Hosts, "host"))
	}
	fmt.Fprintf(w, "TIME of a call, back to back, and of a SINGLE one in µs; ALG and BUS in GB/s\n")
	if o.SizeReason != "" {
		fmt.Fprintf(w, "Smaller than the default: %s\n", o.SizeReason)
	}
	for from := 0; from < len(o.Rows); {
		to := from + 1
		for to < len(o.Rows) && o.Rows[to].Operation == o.Rows[from].Operation {
			to++
		}
		o.printRows(w, o.Rows[from:to])
		from = to
	}
	if o.Report != "" {
		fmt.Fprintf(w, "\nReport: %s\n", o.Report)
	}
}

// printRows prints those of one operation.
func (o *collectivesOutput) printRows(w io.Writer, rows []collectiveRow) {
	name := rows[0].Operation
	fmt.Fprintf(w, "\n%s", name)
	if collbench.Reduces(name) {
		fmt.Fprintf(w, ", %s of %s", o.Reduction, o.DType)
	}
	fmt.Fprintf(w, "; BUS is %s of ALG\n", units.Digits(rows[0].BusRatio))
	head := []string{">SIZE"}
	if rows[0].Apart != nil {
		head = append(head, ">TIME", ">SINGLE", ">ALG", ">BUS")
	}
	if rows[0].InPlace != nil {
		head = append(head, ">IN PLACE", ">SINGLE", ">ALG", ">BUS")
	}
	t := texttable.New(append(head, "OK")...)
	for _, x := range rows {
		cells := []string{units.Bytes(x.Bytes)}
		for _, p := range slices.DeleteFunc([]*collectiveTiming{x.Apart, x.InPlace}, func(p *collectiveTiming) bool { return p == nil }) {
			single := ""
			if p.SingleSeconds > 0 {
				single = units.Digits(1e6 * p.SingleSeconds)
			}
			cells = append(cells, units.Digits(1e6*p.MeanSeconds), single, units.Digits(p.AlgorithmGBPerS), units.Digits(p.BusGBPerS))
		}
		ok := "yes"
		if !x.OK {
			ok = "WRONG"
		}
		t.Add(append(cells, ok)...)
	}
	t.Write(w)
}

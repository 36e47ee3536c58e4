package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pinion-gpu/pinion/cmd/pinion/internal/cli"
	"github.com/pinion-gpu/pinion/cmd/pinion/internal/flags"
	"github.com/pinion-gpu/pinion/doctor"
	"github.com/pinion-gpu/pinion/internal/texttable"
)

func newDoctor() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Find what makes this machine slow, and what to do",
		Long: `Check what commonly makes a GPU slow to feed, or fail: its link, pinned memory,
the limits of containers, the driver and its libraries, disks. The report says
what was measured for each check, and where something is wrong, why that matters
and what to do. It takes less than 20 seconds. Without a GPU it checks the host.

A check that says "fail" found something broken, and the exit code is then 1.
"warn" is what is slower or smaller than it could be.

What could hang or crash runs in processes of its own, with a deadline. Copies
of at most 256 MiB are measured. The disk is read where --path lies: a file of
32 MiB or more there, or else one of 64 MiB that is written for that and is gone
after.`,
		Example: `  pinion doctor
  pinion doctor --path ~/photos
  pinion doctor --list
  pinion doctor --only pinned-copies,numa --device cuda:1
  pinion doctor --json > doctor.json`,
		Args:              cli.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	o := doctor.Options{Child: []string{"doctor", "child"}}
	device := cli.DeviceFlag(cmd)
	cmd.Flags().StringVar(&o.Path, "path", ".", "file or folder of the data")
	flags.Choices(cmd.Flags(), &o.Only, "only", checkNames(), "run these checks alone, separated by commas (see --list)")
	flags.Choices(cmd.Flags(), &o.Skip, "skip", checkNames(), "leave these checks out")
	list := cmd.Flags().Bool("list", false, "list the checks, and run none")
	asJSON := cli.JSONFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if *list {
			return listChecks(cmd, *asJSON)
		}
		if err := cli.CheckDevice(cmd, *device); err != nil {
			return err
		}
		o.Device = *device
		return runDoctor(cmd, o, *asJSON)
	}
	cmd.AddCommand(newDoctorChild())
	return cmd
}

// newDoctorChild is what the processes run.
func newDoctorChild() *cobra.Command {
	return &cobra.Command{
		Use:     "child PROBE REQUEST",
		Short:   "Gather facts for the doctor that started this process",
		Long:    "Gather facts for the doctor that started this process. It is not for people to\nstart.",
		Example: `  pinion doctor child nvml '{}'    # as doctor starts it`,
		Hidden:  true,
		Args:    cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			err := doctor.Child(cmd.Context(), args)
			if errors.Is(err, doctor.ErrArgument) {
				return cli.BadUsage(cmd, "%w", err)
			}
			return err
		},
	}
}

// errUnwell ends the process with exit code 1; the report has said why.
var errUnwell = errors.New("doctor found something broken")

func runDoctor(cmd *cobra.Command, o doctor.Options, asJSON bool) error {
	line := cli.NewProgress(cmd)
	o.Progress = line.Show
	report, err := doctor.Run(cmd.Context(), o)
	line.Clear()
	switch {
	case errors.Is(err, doctor.ErrArgument):
		return cli.BadUsage(cmd, "%w", err)
	case err != nil:
		return err
	case asJSON:
		err = cli.PrintJSON(cmd, report)
	default:
		var failed error
		if err = cli.PrintText(cmd, func(w io.Writer) { failed = report.Write(w) }); err == nil {
			err = failed
		}
	}
	if err == nil && report.Failed() {
		return errUnwell
	}
	return err
}

func checkNames() []string {
	var names []string
	for _, c := range doctor.Checks() {
		names = append(names, c.Name)
	}
	return names
}

// checkRow is a check in the list of --json.
type checkRow struct {
	Name   string `json:"name"`
	Family string `json:"family"`
	Asks   string `json:"asks"`
}

func listChecks(cmd *cobra.Command, asJSON bool) error {
	rows := []checkRow{}
	for _, c := range doctor.Checks() {
		rows = append(rows, checkRow{c.Name, c.Family, c.Asks})
	}
	slices.SortStableFunc(rows, func(a, b checkRow) int {
		return slices.Index(doctor.Families, a.Family) - slices.Index(doctor.Families, b.Family)
	})
	if asJSON {
		return cli.PrintJSON(cmd, map[string]any{"checks": rows})
	}
	return cli.PrintText(cmd, func(w io.Writer) {
		t := texttable.New("CHECK", "FAMILY", "ASKS")
		for _, r := range rows {
			t.Add(r.Name, r.Family, r.Asks)
		}
		t.WriteWidth(w, devicesWidth)
		fmt.Fprintf(w, "\n%d checks of %s.\n", len(rows), strings.Join(doctor.Families, ", "))
	})
}

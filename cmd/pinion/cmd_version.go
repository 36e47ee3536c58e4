package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/pinion-gpu/pinion/cmd/pinion/internal/cli"
	"github.com/pinion-gpu/pinion/internal/provenance"
)

func newVersion() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version of pinion",
		Long:  "Print the version of pinion, the commit it was built from, and the platform.",
		Example: `  pinion version
  pinion version --json`,
		Args:              cli.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	asJSON := cli.JSONFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		r := provenance.Now()
		if *asJSON {
			return cli.PrintJSON(cmd, r)
		}
		return cli.PrintText(cmd, func(w io.Writer) {
			fmt.Fprintf(w, "pinion %s\ncommit %s\n%s\n", r.Version, r.Commit, r.Platform)
		})
	}
	return cmd
}

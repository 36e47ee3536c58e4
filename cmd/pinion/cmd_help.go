package main

import (
	"github.com/spf13/cobra"

	"github.com/pinion-gpu/pinion/cmd/pinion/internal/cli"
)

func newHelp(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Explain a command",
		RunE: func(_ *cobra.Command, args []string) error {
			about, rest, err := root.Find(args)
			if err != nil {
				return cli.NoCommand(root, args[0])
			}
			if len(rest) > 0 {
				return cli.NoCommand(about, rest[0])
			}
			return about.Help()
		},
	}
}

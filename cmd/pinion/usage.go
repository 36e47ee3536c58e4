package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pinion-gpu/pinion/cmd/pinion/internal/flags"
)

// usageError is an error in the command line.
type usageError struct {
	error
	help string // the command that explains
}

func (e *usageError) Unwrap() error { return e.error }

// badUsage makes a usage error of cmd.
func badUsage(cmd *cobra.Command, format string, args ...any) error {
	return &usageError{fmt.Errorf(format, args...), cmd.CommandPath() + " --help"}
}

// noCommand is the error of a command that does not exist.
func noCommand(parent *cobra.Command, name string) error {
	path := parent.CommandPath()
	if near := flags.NearestCommand(parent, name); near != "" {
		return badUsage(parent, "there is no command %q; did you mean %q?", path+" "+name, path+" "+near)
	}
	return badUsage(parent, "there is no command %q", path+" "+name)
}

// noArgs rejects arguments as a usage error; an unknown command is one too.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if cmd.HasSubCommands() {
		return noCommand(cmd, args[0])
	}
	return badUsage(cmd, "%s takes no arguments, but was given %q", cmd.CommandPath(), strings.Join(args, " "))
}

func newHelp(root *cobra.Command) *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Explain a command",
		RunE: func(_ *cobra.Command, args []string) error {
			about, rest, err := root.Find(args)
			if err != nil {
				return noCommand(root, args[0])
			}
			if len(rest) > 0 {
				return noCommand(about, rest[0])
			}
			return about.Help()
		},
	}
}

package cli

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pinion-gpu/pinion/cmd/pinion/internal/flags"
)

// UsageError is an error in the command line.
type UsageError struct {
	error
	Help string // the command that explains
}

// Unwrap returns what is wrong.

func (e *UsageError) Unwrap() error { return e.error }

// BadUsage makes a usage error of cmd.
func BadUsage(cmd *cobra.Command, format string, args ...any) error {
	return &UsageError{fmt.Errorf(format, args...), cmd.CommandPath() + " --help"}
}

// NoCommand is the error of a command that does not exist.
func NoCommand(parent *cobra.Command, name string) error {
	path := parent.CommandPath()
	if near := flags.NearestCommand(parent, name); near != "" {
		return BadUsage(parent, "there is no command %q; did you mean %q?", path+" "+name, path+" "+near)
	}
	return BadUsage(parent, "there is no command %q", path+" "+name)
}

// NoArgs rejects arguments as a usage error; an unknown command is one too.
func NoArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if cmd.HasAvailableSubCommands() {
		return NoCommand(cmd, args[0])
	}
	return BadUsage(cmd, "%s takes no arguments, but was given %q", cmd.CommandPath(), strings.Join(args, " "))
}

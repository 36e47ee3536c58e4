package cli

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/pinion-gpu/pinion/internal/errs"
	"github.com/pinion-gpu/pinion/monitor/local"
)

// Offering makes cmd, and its commands, offer their snapshot while they run, so that
// pinion top shows them.
func Offering(cmd *cobra.Command) *cobra.Command {
	for _, c := range cmd.Commands() {
		Offering(c)
	}
	run := cmd.RunE
	if run == nil {
		return cmd
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		stop, err := local.Offer(cmd.Context(), local.Options{})
		switch {
		case err == nil:
			defer stop()
		case errors.Is(err, local.ErrUnsafe), errors.Is(err, errs.ErrArgument):
			// Everything else is nothing that a user did, or can do something about.
			NewProgress(cmd).Message("\"pinion top\" will not show this run: %s", ErrorText(err))
		}
		return run(cmd, args)
	}
	return cmd
}

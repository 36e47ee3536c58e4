package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pinion-gpu/pinion/parallel/launch"
)

// Ranked makes cmd one that a launcher starts as several ranks. The first one prints, and
// has the flags of those names: on the others they are as if they had not been given.
func Ranked(cmd *cobra.Command, first ...string) *cobra.Command {
	cmd.PreRunE = func(cmd *cobra.Command, _ []string) error {
		world, err := launch.FromEnv()
		if err != nil || world.Rank == 0 {
			return err
		}
		cmd.SetOut(io.Discard)
		cmd.SetErr(io.Discard)
		for _, name := range first {
			if f := cmd.Flags().Lookup(name); f != nil && f.Changed {
				if err := f.Value.Set(f.DefValue); err != nil {
					return err
				}
				f.Changed = false
			}
		}
		return nil
	}
	return cmd
}

// ofRank begins a message of this process with its rank, unless it does so already or there
// is but one.
func ofRank(text string) string {
	w, err := launch.FromEnv()
	own := fmt.Sprintf("rank %d", w.Rank)
	if err != nil || w.Size == 1 || strings.HasPrefix(text, own+" ") {
		return text
	}
	return own + ": " + text
}

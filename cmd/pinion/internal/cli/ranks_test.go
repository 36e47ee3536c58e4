package cli

import (
	"bytes"
	"testing"

	"github.com/spf13/cobra"

	"github.com/pinion-gpu/pinion/internal/testkit"
)

// setRank makes this process one of so many ranks.
func setRank(t *testing.T, rank, size string) {
	t.Helper()
	t.Setenv("PINION_RANK", rank)
	t.Setenv("PINION_WORLD_SIZE", size)
	t.Setenv("PINION_MASTER", "127.0.0.1:29500")
}

// The first rank prints and has all flags; others have those that were not named.
func TestRanked(t *testing.T) {
	for rank, want := range map[string]string{"0": "a b", "1": "none b"} {
		setRank(t, rank, "2")
		var stdout, stderr bytes.Buffer
		cmd := &cobra.Command{Use: "x"}
		first := cmd.Flags().String("first", "none", "")
		each := cmd.Flags().String("each", "none", "")
		cmd.RunE = func(cmd *cobra.Command, _ []string) error {
			cmd.PrintErr("progress")
			if changed := cmd.Flags().Changed("first"); changed != (rank == "0") {
				t.Errorf("rank %s: --first has changed: %v", rank, changed)
			}
			_, err := cmd.OutOrStdout().Write([]byte("result"))
			return err
		}
		cmd = Ranked(cmd, "first", "of other commands")
		cmd.SetOut(&stdout)
		cmd.SetErr(&stderr)
		cmd.SetArgs([]string{"--first", "a", "--each", "b"})
		testkit.OK(t, cmd.Execute())
		if got := *first + " " + *each; got != want || (stdout.Len() > 0) != (rank == "0") || (stderr.Len() > 0) != (rank == "0") {
			t.Errorf("rank %s: flags %s, want %s; it printed %q and %q", rank, got, want, stdout.String(), stderr.String())
		}
	}
}

func TestOfRank(t *testing.T) {
	for _, c := range []struct{ rank, size, text, want string }{
		{"1", "20", "no room", "rank 1: no room"},
		{"1", "20", "rank 1 of 20: no room", "rank 1 of 20: no room"},
		{"1", "20", "rank 12 (host a): no room", "rank 1: rank 12 (host a): no room"},
		{"0", "1", "no room", "no room"},
		{"7", "2", "no room", "no room"}, // which is the error
	} {
		setRank(t, c.rank, c.size)
		if got := ofRank(c.text); got != c.want {
			t.Errorf("rank %s of %s: %q, want %q", c.rank, c.size, got, c.want)
		}
	}
}

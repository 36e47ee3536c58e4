package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/pinion-gpu/pinion/cmd/pinion/internal/benchcmd"
	"github.com/pinion-gpu/pinion/cmd/pinion/internal/cli"
	"github.com/pinion-gpu/pinion/cmd/pinion/internal/dashboard"
	"github.com/pinion-gpu/pinion/cmd/pinion/internal/flags"
	"github.com/pinion-gpu/pinion/cmd/pinion/internal/terminal"
	_ "github.com/pinion-gpu/pinion/device/all"
	"github.com/pinion-gpu/pinion/internal/provenance"
)

// Exit codes.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

// exitCodes explains them in the help of every command.
const exitCodes = "Exit codes: 0 done, 1 failed, 2 the command line was wrong."

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second interrupt ends the process at once
	os.Exit(report(newRoot().ExecuteContext(ctx)))
}

// report prints what went wrong and returns the exit code for it.
func report(err error) int {
	var usage *cli.UsageError
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &usage):
		complain(err)
		if usage.Help != "" {
			fmt.Fprintf(os.Stderr, "See %q.\n", usage.Help)
		}
		return exitUsage
	case errors.Is(err, context.Canceled):
		for _, lost := range cli.AllLost(err) {
			complain(lost)
		}
		fmt.Fprintln(os.Stderr, "pinion: interrupted")
	default:
		complain(err)
	}
	return exitFailed
}

func complain(err error) {
	fmt.Fprint(os.Stderr, terminal.Fit(os.Stderr, fmt.Sprintf("pinion: %s\n", cli.ErrorText(err))))
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:     "pinion",
		Short:   "Keep GPUs fed",
		Version: provenance.Now().Version,
		Long: `Pinion feeds datasets to a GPU, finds the best settings for that, and measures
what the link between host and GPU can do.

Without a GPU every command works on the host backend.`,
		Example: `  pinion feed                    # a folder of sample photos
  pinion feed ~/photos --batch 128
  pinion tune ~/photos --step-time 20ms
  pinion pack ~/photos ~/shards
  pinion load ~/models/llama
  pinion devices
  pinion doctor
  pinion bench link
  pinion bench --report link.html`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          cli.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetVersionTemplate("pinion {{.Version}}\n")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return cli.BadUsage(cmd, "%w", flags.Explain(cmd, err))
	})
	root.SetHelpCommand(newHelp(root))
	for _, long := range []*cobra.Command{newFeed(), newTune(), newPack(), benchcmd.New(), newReplay(), newLoad()} {
		root.AddCommand(cli.Offering(dashboard.Serving(long)))
	}
	root.AddCommand(newDevices(), newDoctor(), newTop(), newInspect(), newCompletion(), newVersion())
	root.CompletionOptions.DisableDefaultCmd = true // newCompletion is in its place
	flags.Setup(root, exitCodes)
	return root
}

// Command pinion feeds datasets to a device and measures the paths between
// host and device. Run "pinion help" for its commands.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	_ "github.com/pinion-gpu/pinion/device/all"
	"github.com/pinion-gpu/pinion/internal/provenance"
)

// Exit codes.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second interrupt ends the process at once
	os.Exit(report(newRoot().ExecuteContext(ctx)))
}

// report prints what went wrong and returns the exit code for it.
func report(err error) int {
	var usage *usageError
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &usage):
		fmt.Fprintf(os.Stderr, "pinion: %v\n", err)
		if usage.help != "" {
			fmt.Fprintf(os.Stderr, "See %q.\n", usage.help)
		}
		return exitUsage
	case errors.Is(err, context.Canceled):
		fmt.Fprintln(os.Stderr, "pinion: interrupted")
	default:
		fmt.Fprintf(os.Stderr, "pinion: %v\n", err)
	}
	return exitFailed
}

// usageError is a command line that cannot be meant.
type usageError struct {
	error
	help string // the command that explains
}

func (e *usageError) Unwrap() error { return e.error }

// badUsage makes a usage error of cmd.
func badUsage(cmd *cobra.Command, format string, args ...any) error {
	return &usageError{fmt.Errorf(format, args...), cmd.CommandPath() + " --help"}
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:     "pinion",
		Short:   "Keep GPUs fed",
		Version: provenance.Now().Version(),
		Long: `Pinion feeds datasets to a GPU, finds the settings for it, and measures what the
GPU's link to the host can do.
Without a GPU every command works on the host backend.

Exit codes: 0 done, 1 failed, 2 the command line was wrong.`,
		Example: `  pinion feed                    # feed a sample folder of photos
  pinion feed ~/photos --batch 128
  pinion tune ~/photos --step-time 20ms
  pinion pack ~/photos ~/shards
  pinion devices
  pinion bench link
  pinion bench --report link.html`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          noArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.CompletionOptions.HiddenDefaultCmd = true
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return badUsage(cmd, "%w", err) })
	root.SetHelpCommand(&cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Explain a command",
		RunE: func(cmd *cobra.Command, args []string) error {
			about, rest, err := root.Find(args)
			if err != nil || len(rest) > 0 {
				return badUsage(root, "there is no command %q", strings.Join(append([]string{"pinion"}, args...), " "))
			}
			return about.Help()
		},
	})
	root.AddCommand(newDevices(), newBench(), newFeed(), newPack(), newTune(), newReplay())
	return root
}

// noArgs rejects arguments as a usage error; an unknown command is one too.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if cmd.HasSubCommands() {
		return badUsage(cmd, "there is no command %q", cmd.CommandPath()+" "+args[0])
	}
	return badUsage(cmd, "%s takes no arguments, but was given %q", cmd.CommandPath(), args)
}

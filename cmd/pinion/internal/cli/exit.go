package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/pinion-gpu/pinion/cmd/pinion/internal/terminal"
)

// Exit codes.
const (
	ExitDone   = 0
	ExitFailed = 1
	ExitUsage  = 2
)

// ExitCodes explains them in the help of every command.
const ExitCodes = "Exit codes: 0 done, 1 failed, 2 the command line was wrong."

// Execute runs the command line and returns what to exit with. An interrupt ends the
// command's context; a second one ends the process at once.
func Execute(root *cobra.Command) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	return Report(root.ExecuteContext(ctx))
}

// Report prints what went wrong and returns the exit code for it.
func Report(err error) int {
	var usage *UsageError
	switch {
	case err == nil:
		return ExitDone
	case errors.As(err, &usage):
		complain(err)
		if usage.Help != "" {
			fmt.Fprintf(os.Stderr, "See %q.\n", usage.Help)
		}
		return ExitUsage
	case errors.Is(err, context.Canceled):
		for _, lost := range AllLost(err) {
			complain(lost)
		}
		fmt.Fprintf(os.Stderr, "pinion: %s\n", ofRank("interrupted"))
	default:
		complain(err)
	}
	return ExitFailed
}

func complain(err error) {
	fmt.Fprint(os.Stderr, terminal.Fit(os.Stderr, fmt.Sprintf("pinion: %s\n", ofRank(ErrorText(err)))))
}

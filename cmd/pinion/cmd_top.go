package main

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"os/signal"
	"time"

	"github.com/spf13/cobra"

	"github.com/pinion-gpu/pinion/cmd/pinion/internal/cli"
	"github.com/pinion-gpu/pinion/cmd/pinion/internal/screen"
	"github.com/pinion-gpu/pinion/cmd/pinion/internal/terminal"
	"github.com/pinion-gpu/pinion/cmd/pinion/internal/top"
)

// topFlags are the flags of pinion top.
type topFlags struct {
	interval   time.Duration
	once, json bool
}

func newTop() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Watch what the processes that use Pinion do",
		Long: `Watch this machine, its GPUs, and all processes of yours that use Pinion: what
their device memory holds, what moves over the link, how long each stage of
their loaders takes, and which one limits the others.

Processes need no configuration: "pinion feed", "bench", "tune", "load", "pack",
"replay" and "train" and the Python package show themselves, and a Go program
does with one line, local.Offer. They do so on a socket that only their user can
open; PINION_TOP=off in their environment turns that off.

Keys: q quits, p pauses, s sorts by another column; arrows, Page Up and Page
Down scroll. NO_COLOR=1 leaves colours out.

Without a terminal the view is printed once. With --interval, there is a line
for each process and GPU every time, and with --json a document in one line.
Rates are those of the time between two looks, so that nothing is printed before
the second.`,
		Example: `  pinion top
  pinion top --once
  pinion top --interval 10s >> top.log
  pinion top --json | jq '.processes[].loaders'`,
		Args:              cli.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	var f topFlags
	set := cmd.Flags()
	set.DurationVar(&f.interval, "interval", time.Second, "time between two looks")
	set.BoolVar(&f.once, "once", false, "print one look, and end")
	set.BoolVar(&f.json, "json", false, "print one JSON document in a line, every time")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return runTop(cmd, &f) }
	return cmd
}

// leastInterval is one at which looking costs little.
const leastInterval = 100 * time.Millisecond

func runTop(cmd *cobra.Command, f *topFlags) error {
	if f.interval < leastInterval {
		return cli.BadUsage(cmd, "--interval is %v; it must be at least %v", f.interval, leastInterval)
	}
	// Whatever ends the command, the terminal is to be as it was.
	ctx, stop := signal.NotifyContext(cmd.Context(), endings...)
	defer stop()
	looker := top.NewLooker()
	out, isFile := cmd.OutOrStdout().(*os.File)
	switch {
	case !f.once && !f.json && isFile && screen.Usable(os.Stdin, out):
		return watchTop(ctx, out, looker, f.interval)
	case f.json:
		lines := json.NewEncoder(cmd.OutOrStdout())
		return everyLook(ctx, looker, f.interval, f.once, func(l top.Look) error { return lines.Encode(l) })
	case f.once || !cmd.Flags().Changed("interval"):
		return everyLook(ctx, looker, f.interval, true, func(l top.Look) error { return printLook(cmd, l) })
	}
	return everyLook(ctx, looker, f.interval, false, func(l top.Look) error {
		_, err := io.WriteString(cmd.OutOrStdout(), l.Summary())
		return err
	})
}

func watchTop(ctx context.Context, out *os.File, looker *top.Looker, interval time.Duration) error {
	s, err := screen.Open(ctx, os.Stdin, out)
	if err != nil {
		return err
	}
	defer s.Close()
	return top.Live(ctx, s, top.Options{Every: interval, Colour: os.Getenv("NO_COLOR") == "", Look: looker.Look})
}

// everyLook shows each look after the first, which has no rates; once, or until ctx
// ends.
func everyLook(ctx context.Context, looker *top.Looker, interval time.Duration, once bool, show func(top.Look) error) error {
	if _, err := looker.Look(ctx); err != nil {
		return err
	}
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		look, err := looker.Look(ctx)
		if err != nil {
			return err
		}
		if err := show(look); err != nil || once {
			return err
		}
	}
}

// textWidth is that of what is no terminal.
const textWidth = 80

func printLook(cmd *cobra.Command, look top.Look) error {
	width := textWidth
	if measure := terminal.Width(cmd.OutOrStdout()); measure != nil {
		width = measure()
	}
	v := top.NewView(0)
	v.Look = look
	var text []byte
	for _, l := range v.Lines(width, 0) {
		text = append(append(text, l.Text...), '\n')
	}
	_, err := cmd.OutOrStdout().Write(text)
	return err
}

package harness

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
)

// Options are the flags that all of these programs take.
type Options struct {
	Device string
	Only   string // groups of rows, as [Document.Measure] takes them
	Quick  bool   // small sizes and one repeat
}

// Flags defines the flags. groups is what can be chosen of, in words.
func (o *Options) Flags(groups string) {
	flag.StringVar(&o.Device, "device", "auto", "device to measure")
	flag.StringVar(&o.Only, "only", "", "measure only the groups of rows whose names begin so, separated by commas: "+groups)
	flag.BoolVar(&o.Quick, "quick", false, "small sizes and one repeat, to see that everything works")
}

// Main runs a program of that name, which writes to standard output, until it
// is done, fails, or is interrupted. It ends the process after an error.
func Main(name string, run func(ctx context.Context, w io.Writer) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, name+":", err)
		os.Exit(1)
	}
}

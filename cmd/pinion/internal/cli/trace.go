package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pinion-gpu/pinion/internal/atomicfile"
	"github.com/pinion-gpu/pinion/timeline"
)

// Trace is the flag --trace of a command.
type Trace struct{ file string }

// TraceFlag adds --trace to the flags of a command.
func TraceFlag(set *pflag.FlagSet) *Trace {
	t := &Trace{}
	set.StringVar(&t.file, "trace", "", "`FILE` for a timeline of the run, for ui.perfetto.dev or chrome://tracing")
	return t
}

// Run returns run as a command runs it that has the flag: a recording of what run
// does, on the devices that [OpenDevice] opens for it, goes to the file when run is
// over, also after an error or an interrupt, unless nothing has run. A file that cannot be written is an error
// before run begins. A report of the overlap comes after what run printed, but not
// behind a JSON document: the file has it too.
func (t *Trace) Run(run func(cmd *cobra.Command, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) (err error) {
		if !cmd.Flags().Changed("trace") {
			return run(cmd, args)
		}
		file, err := t.create(cmd, args)
		if err != nil {
			return err
		}
		r, err := timeline.Start(timeline.Options{})
		if err != nil {
			return errors.Join(err, file.Discard())
		}
		defer r.Stop() // also when run panics
		defer file.Discard()
		err = run(cmd, args)
		r.Stop()
		var usage *UsageError
		if errors.As(err, &usage) || err != nil && r.Report().Seconds == 0 {
			return err // nothing has run: what was at the file stays
		}
		return errors.Join(err, t.finish(cmd, r, file))
	}
}

func (t *Trace) create(cmd *cobra.Command, args []string) (*atomicfile.File, error) {
	if t.file == "" {
		return nil, BadUsage(cmd, "--trace needs the name of a file")
	}
	for _, arg := range args {
		if SamePath(arg, t.file) {
			return nil, BadUsage(cmd, "--trace would be written over the data in %s", arg)
		}
		if isBelow(t.file, arg) && !isTimeline(t.file) {
			return nil, BadUsage(cmd, "--trace would be written over %s, which is in %s and no timeline", t.file, arg)
		}
	}
	var other *pflag.Flag // that names the file too
	cmd.Flags().Visit(func(f *pflag.Flag) {
		values := []string{f.Value.String()}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		}
		if f.Name != "trace" && slices.ContainsFunc(values, func(v string) bool { return SamePath(v, t.file) }) {
			other = f
		}
	})
	if other != nil {
		return nil, BadUsage(cmd, "--trace and --%s cannot both be %s", other.Name, t.file)
	}
	file, err := CreateFile(t.file)
	if err != nil {
		return nil, fmt.Errorf("the timeline cannot be written: %w", err)
	}
	return file, nil
}

// isBelow reports whether a file is there, in a folder or further down in it.
func isBelow(file, folder string) bool {
	file, err1 := realPath(file)
	folder, err2 := realPath(folder)
	if err1 != nil || err2 != nil {
		return false
	}
	rel, err := filepath.Rel(folder, file)
	return err == nil && filepath.IsLocal(rel)
}

// realPath is absolute and has no links.
func realPath(path string) (string, error) {
	path, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", err
	}
	return filepath.Abs(path)
}

// isTimeline reports whether a file begins as one of timeline's does.
func isTimeline(path string) bool {
	const begin = `{"displayTimeUnit"`
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	b := make([]byte, len(begin))
	_, err = io.ReadFull(f, b)
	return err == nil && string(b) == begin
}

// finish writes the file, and the report.
func (t *Trace) finish(cmd *cobra.Command, r *timeline.Recording, file *atomicfile.File) error {
	if err := FinishFile(file, r.Write); err != nil {
		return Lost(fmt.Errorf("the timeline cannot be written: %w", err))
	}
	if json, err := cmd.Flags().GetBool("json"); err == nil && json {
		return nil
	}
	report := r.Report()
	return PrintText(cmd, func(w io.Writer) {
		fmt.Fprintln(w)
		_ = report.Write(w) // to memory
		fmt.Fprintf(w, "\nOpen %s at https://ui.perfetto.dev, which keeps it in your browser, or at chrome://tracing.\n", t.file)
	})
}

package pipeline

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/pinion-gpu/pinion/cmd/pinion/internal/cli"
	"github.com/pinion-gpu/pinion/cmd/pinion/internal/flags"
	"github.com/pinion-gpu/pinion/dataset"
	_ "github.com/pinion-gpu/pinion/dataset/all"
	"github.com/pinion-gpu/pinion/internal/samplephotos"
	"github.com/pinion-gpu/pinion/internal/texttable"
)

// samplePhotos is how many photos the sample folder has: enough for some
// seconds of work on two processors.
const samplePhotos = 1024

// DatasetHelp says what datasets there are, in the help of commands that take
// one.
func DatasetHelp() string {
	t := texttable.New("", "", "")
	for _, f := range dataset.Formats() {
		t.Add("", f.Name, f.Files)
	}
	var formats strings.Builder
	t.WriteWidth(&formats, helpWidth)
	return `DATASET is a file, a folder, a pattern or a URL. Its format is recognised by
name and content:

` + formats.String() + `
The first axis of an array counts the samples. Arrays of u8 or u16 and of shape
N x H x W x 1 to 4 are images. Samples of some formats differ in length; their
batches are padded with zeros. Without DATASET, sample photos are made in your
cache directory and used.`
}

// helpWidth is how wide help is.
const helpWidth = 80

// datasetFlags say what is read, and how.
type datasetFlags struct {
	targets []string
	options map[string]*optionFlag // of the formats, by name
}

// optionFlag is the flag for an option that some formats have.
type optionFlag struct {
	dataset.Option
	formats []string // their names
	text    string   // what was given
}

func (f *optionFlag) String() string { return f.Default }

func (f *optionFlag) Type() string {
	switch f.Kind {
	case dataset.Int:
		return "int"
	case dataset.Float:
		return "float"
	case dataset.Bool:
		return "bool"
	}
	return "string"
}

func (f *optionFlag) Set(text string) error {
	f.text = text
	return f.Check(text)
}

// register makes a flag of each option that a format has.
func (f *datasetFlags) register(cmd *cobra.Command) {
	f.options = map[string]*optionFlag{}
	for _, format := range dataset.Formats() {
		for _, o := range format.Options {
			if o.Kind == dataset.Func {
				continue
			}
			if f.options[o.Name] == nil {
				f.options[o.Name] = &optionFlag{Option: o}
			}
			flag := f.options[o.Name]
			flag.formats = append(flag.formats, format.Name)
		}
	}
	set := cmd.Flags()
	flags.Group(set, "Dataset formats (the formats in brackets take the flag)", func() { f.registerOptions(cmd) })
	set.StringArrayVar(&f.targets, "targets", nil, "`PATH` of a dataset whose sample i belongs to sample i, such as a folder of masks, matched by name; repeatable")
}

// registerOptions declares the flags that come from the formats.
func (f *datasetFlags) registerOptions(cmd *cobra.Command) {
	for _, name := range slices.Sorted(maps.Keys(f.options)) {
		o := f.options[name]
		flag := cmd.Flags().VarPF(o, name, "", fmt.Sprintf("%s [%s]", o.Usage, strings.Join(o.formats, ", ")))
		if o.Kind == dataset.Bool {
			flag.NoOptDefVal = "true"
		}
		if o.Values != nil || o.Kind != dataset.Text { // a text may be a path
			cmd.RegisterFlagCompletionFunc(name, cobra.FixedCompletions(o.Values, cobra.ShellCompDirectiveNoFileComp))
		}
	}
}

// DatasetArgs allows one dataset, or none.
func DatasetArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 1 {
		return cli.BadUsage(cmd, "%s takes one DATASET, but %d were given; for several shards, name their folder, or quote a pattern such as 'train-{000..127}.tar'", cmd.CommandPath(), len(args))
	}
	return nil
}

// open opens what the arguments and flags say.
func (f *datasetFlags) open(cmd *cobra.Command, args []string, line *cli.Progress) (ds dataset.Dataset, path string, err error) {
	if cmd.Flags().Changed("raw") && len(args) == 0 {
		return nil, "", cli.BadUsage(cmd, "--raw describes a file, but none was named")
	}
	options := openOptions(line)
	for name, o := range f.options {
		if cmd.Flags().Changed(name) {
			options[name] = o.text
		}
	}
	if len(args) == 0 {
		if err := f.tryOptions(cmd, options); err != nil {
			return nil, "", err
		}
	}
	if path, err = datasetPath(cmd, args, line); err != nil {
		return nil, "", err
	}
	if ds, err = dataset.Open(cmd.Context(), path, options); err != nil {
		return nil, path, misuse(cmd, path, err)
	}
	for _, warning := range dataset.Warnings(ds) {
		line.Message("warning: %s", warning)
	}
	return ds, path, nil
}

// misuse says it in terms of flags where err is of an option.
func misuse(cmd *cobra.Command, path string, err error) error {
	var bad *dataset.OptionError
	switch {
	case errors.As(err, &bad) && bad.Err != nil:
		return cli.BadUsage(cmd, "--%s: %w", bad.Option, bad.Err)
	case errors.As(err, &bad):
		return cli.BadUsage(cmd, "--%s does not apply to %s (%s); it is for %s", bad.Option, path, bad.Format, strings.Join(bad.Formats, ", "))
	}
	return err
}

// tryOptions finds options that are wrong with one sample photo, before a thousand
// are made.
func (f *datasetFlags) tryOptions(cmd *cobra.Command, options dataset.Options) (err error) {
	if !slices.ContainsFunc(slices.Collect(maps.Keys(f.options)), cmd.Flags().Changed) {
		return nil
	}
	temp, err := os.MkdirTemp("", "pinion-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(temp)) }()
	dir := filepath.Join(temp, "photos")
	if err := samplephotos.Make(cmd.Context(), dir, 1, nil); err != nil {
		return err
	}
	ds, err := dataset.Open(cmd.Context(), dir, options)
	if err != nil {
		return misuse(cmd, "the sample photos", err)
	}
	return dataset.Close(ds)
}

// openOptions are those that every dataset is opened with.
func openOptions(line *cli.Progress) dataset.Options {
	return dataset.Options{"on-retry": (&retries{line: line}).report}
}

// datasetPath is what to read: the argument, or the sample photos, which are made
// if they are not there.
func datasetPath(cmd *cobra.Command, args []string, line *cli.Progress) (string, error) {
	if len(args) == 1 {
		return args[0], nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no place to keep sample photos; name a folder of your own: %w", err)
	}
	dir := filepath.Join(cache, "pinion", fmt.Sprintf("sample-photos-%d", samplePhotos))
	_, statErr := os.Stat(dir)
	if err := samplephotos.Make(cmd.Context(), dir, samplePhotos, func(done, total int) {
		line.Show(done, total, "making sample photos")
	}); err != nil {
		return "", fmt.Errorf("cannot make the sample photos (56 MB) in %s; name a folder of your own, or set XDG_CACHE_HOME to another place: %w", dir, err)
	}
	line.Clear()
	made := ""
	if statErr != nil {
		made = ", just made,"
	}
	line.Message("No dataset given: using %d sample photos%s in %s", samplePhotos, made, dir)
	return dir, nil
}

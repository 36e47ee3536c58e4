package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pinion-gpu/pinion/checkpoint"
	"github.com/pinion-gpu/pinion/cmd/pinion/internal/cli"
	"github.com/pinion-gpu/pinion/cmd/pinion/internal/flags"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/provenance"
	"github.com/pinion-gpu/pinion/internal/texttable"
	"github.com/pinion-gpu/pinion/internal/units"
	"github.com/pinion-gpu/pinion/safetensors"
	"github.com/pinion-gpu/pinion/transfer"
)

// loadFlags are the flags of pinion load.
type loadFlags struct {
	devices string
	only    []string
	dtype   string
	stream  bool
	buffers int
	path    string
	copiers int
	json    bool
}

// filePaths are the values of --path, in the words of package transfer but for
// the default.
var filePaths = []string{"auto", string(transfer.FileCached), string(transfer.FileDirect), string(transfer.FileMapped), string(transfer.FileCuFile)}

// maxLoadCopiers fill any link there is.
const maxLoadCopiers = 16

func newLoad() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "load FILE…",
		Short: "Load a checkpoint into device memory and report the speed",
		Long: `Bring a checkpoint into device memory by the fastest path and report how fast
that was: what is in the page cache at the speed of the link, and the rest past
it at the speed of the disk.

FILE is a .safetensors file, an index of shards (*.safetensors.index.json), or a
folder with either. Several files are one checkpoint.

With several devices each gets whole layers, about the same number of bytes, or
more where more memory is free if that does not fit. A checkpoint that does not
fit at all can be streamed: layer by layer, through a few buffers as large as
the largest layer; several devices take the layers in turn.`,
		Example: `  pinion load model.safetensors
  pinion load ~/models/llama --device cuda:0,cuda:1
  pinion load ~/models/llama --only 'model.layers.0.*' --dtype bf16
  pinion load ~/models/llama --stream --json
  pinion load ~/models/llama --trace trace.json`,
		Args:              checkpointArgs,
		ValidArgsFunction: completeCheckpoints,
	}
	f := &loadFlags{}
	set := cmd.Flags()
	devices := cli.DeviceFlag(cmd)
	set.Lookup("device").Usage += `; several, such as "cuda:0,cuda:1", share the tensors`
	set.StringArrayVar(&f.only, "only", nil, "load the tensors whose names match `PATTERN`, such as 'model.layers.0.*'; may be given several times")
	flags.Choice(set, &f.dtype, "dtype", "", []string{"f16", "bf16", "f32", "f64"}, "cast floating-point tensors on the device to f16, bf16, f32 or f64 (default: as stored)")
	set.BoolVar(&f.stream, "stream", false, "load layer by layer, into a few buffers")
	flags.Int(set, &f.buffers, "buffers", 2, flags.Between(1, 64), "layers in the memory of each device at once, with --stream")
	flags.Choice(set, &f.path, "path", "auto", filePaths, "way from the file to the device: "+flags.Or(filePaths))
	flags.Int(set, &f.copiers, "copiers", 0, flags.Between(0, 256), fmt.Sprintf("goroutines that copy from the page cache (default: one a processor, at most %d)", maxLoadCopiers))
	trace := cli.TraceFlag(set)
	set.BoolVar(&f.json, "json", false, "print one JSON document")
	cmd.RunE = trace.Run(func(cmd *cobra.Command, args []string) error {
		f.devices = *devices
		if err := f.check(cmd); err != nil {
			return err
		}
		return f.run(cmd, args)
	})
	return cmd
}

func (f *loadFlags) check(cmd *cobra.Command) error {
	for _, pattern := range f.only {
		if _, err := path.Match(pattern, ""); err != nil {
			return cli.BadUsage(cmd, "--only %q is no pattern: a [ is not closed, or a \\ stands at the end", pattern)
		}
	}
	names := strings.Split(f.devices, ",")
	for i, name := range names {
		if slices.Contains(names[:i], name) && !strings.HasPrefix(name, "host:") {
			return cli.BadUsage(cmd, "--device names %s twice", name)
		}
	}
	if !f.stream && cmd.Flags().Changed("buffers") {
		return cli.BadUsage(cmd, "--buffers needs --stream")
	}
	return nil
}

// options are those of the library.
func (f *loadFlags) options(line *cli.Progress, what string) checkpoint.Options {
	o := checkpoint.Options{Progress: func(done, total int64) {
		line.ShowFacts(int(float64(done)/float64(max(total, 1))*100), 100, "loading "+what, units.Bytes(done)+" of "+units.Bytes(total))
	}}
	if f.dtype != "" {
		o.Floats, _ = dtype.Parse(f.dtype) // one of the choices
	}
	if f.path != "auto" {
		o.Path = transfer.FilePath(f.path)
	}
	if len(f.only) > 0 {
		o.Keep = func(name string) bool {
			return slices.ContainsFunc(f.only, func(pattern string) bool {
				match, _ := path.Match(pattern, name) // which was checked
				return match
			})
		}
	}
	return o
}

func (f *loadFlags) run(cmd *cobra.Command, args []string) (err error) {
	opening := time.Now()
	ck, err := safetensors.Open(args...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ck.Close()) }()
	opened := time.Since(opening)

	start := time.Now()
	targets, closeAll, err := f.targets(cmd)
	defer func() { err = errors.Join(err, closeAll()) }()
	if err != nil {
		return err
	}
	out := newLoadOutput(strings.Join(args, " "), len(ck.Files()), targets)
	out.InitialisationSeconds = time.Since(start).Seconds()

	line := cli.NewProgress(cmd)
	defer line.Clear()
	o := f.options(line, args[0])
	kept := 0
	for _, t := range ck.Tensors() {
		if o.Keep == nil || o.Keep(t.Name) {
			kept++
		}
	}
	if kept == 0 && len(f.only) > 0 {
		return fmt.Errorf("--only %s matches none of %s", strings.Join(f.only, " --only "), units.Count(len(ck.Tensors()), "tensor"))
	}
	if f.stream {
		err = out.stream(cmd.Context(), ck, checkpoint.StreamOptions{Options: o, Buffers: f.buffers}, targets)
	} else {
		err = out.load(cmd.Context(), ck, o, targets)
	}
	line.Clear()
	if errors.Is(err, device.ErrOutOfMemory) {
		return fmt.Errorf("%w; %s", err, f.advice())
	}
	if err != nil {
		return err
	}
	out.Seconds += opened.Seconds()
	out.GBPerS = float64(out.Bytes) / 1e9 / out.Seconds
	if f.json {
		return cli.PrintJSON(cmd, out)
	}
	return cli.PrintText(cmd, out.print)
}

// advice is what may help where memory is short.
func (f *loadFlags) advice() string {
	if f.stream {
		return "--buffers 1 takes the least memory"
	}
	return "--stream loads layer by layer, --only a part, and --device cuda:0,cuda:1 shares it among devices"
}

// targets opens the devices, and an engine on each. What it opened is to be
// closed by the function that it returns, also after an error.
func (f *loadFlags) targets(cmd *cobra.Command) (targets []checkpoint.Target, closeAll func() error, err error) {
	var closers []func() error
	closeAll = func() (err error) {
		for _, c := range slices.Backward(closers) {
			err = errors.Join(err, c())
		}
		return err
	}
	copiers := f.copiers
	if copiers == 0 {
		copiers = min(runtime.GOMAXPROCS(0), maxLoadCopiers)
	}
	for name := range strings.SplitSeq(f.devices, ",") {
		dev, err := cli.OpenDevice(cmd, name)
		if err != nil {
			return nil, closeAll, err
		}
		closers = append(closers, dev.Close)
		engine, err := transfer.New(dev, transfer.Options{Copiers: copiers})
		if err != nil {
			return nil, closeAll, err
		}
		closers = append(closers, engine.Close)
		if err := engine.Prepare(cmd.Context()); err != nil {
			return nil, closeAll, err
		}
		targets = append(targets, checkpoint.Target{Engine: engine})
	}
	return targets, closeAll, nil
}

// loadOutput is the JSON document of pinion load.
type loadOutput struct {
	provenance.Record
	Checkpoint  string   `json:"checkpoint"`
	Files       int      `json:"files"`
	Devices     []string `json:"devices"`
	Tensors     int      `json:"tensors"`
	Bytes       int64    `json:"bytes"`        // of the tensors, in the files
	DeviceBytes int64    `json:"device_bytes"` // of memory that they take
	Layers      int      `json:"layers,omitempty"`

	InitialisationSeconds float64 `json:"initialisation_seconds"` // of devices and engines
	Seconds               float64 `json:"seconds"`                // from opening the files on
	GBPerS                float64 `json:"gb_per_s"`

	Path        string   `json:"path,omitempty"` // from the files to the device; none where there are no bytes
	CachedBytes int64    `json:"cached_bytes"`
	DirectBytes int64    `json:"direct_bytes"`
	MappedBytes int64    `json:"mapped_bytes"`
	CuFileBytes int64    `json:"cufile_bytes"`
	Notes       []string `json:"notes"`
}

func newLoadOutput(name string, files int, targets []checkpoint.Target) *loadOutput {
	info := targets[0].Engine.Device().Info()
	o := &loadOutput{Record: provenance.Now().On(info.ID, info.Name), Checkpoint: name, Files: files}
	for _, t := range targets {
		o.Devices = append(o.Devices, t.Engine.Device().Info().ID)
	}
	return o
}

func (o *loadOutput) load(ctx context.Context, ck *safetensors.Checkpoint, options checkpoint.Options, targets []checkpoint.Target) (err error) {
	w, err := checkpoint.Load(ctx, ck, options, targets...)
	if err != nil {
		return err
	}
	o.take(w.Report())
	return w.Close()
}

func (o *loadOutput) stream(ctx context.Context, ck *safetensors.Checkpoint, options checkpoint.StreamOptions, targets []checkpoint.Target) error {
	var r checkpoint.Report
	options.Report = &r
	for _, err := range checkpoint.Stream(ctx, ck, options, targets...) {
		if err != nil {
			return err
		}
		o.Layers++
	}
	o.take(r)
	return nil
}

func (o *loadOutput) take(r checkpoint.Report) {
	o.Tensors, o.Bytes, o.DeviceBytes, o.Seconds = r.Tensors, r.Bytes, r.DeviceBytes, r.Wall.Seconds()
	o.CachedBytes, o.DirectBytes, o.MappedBytes, o.CuFileBytes = r.CachedBytes, r.DirectBytes, r.MappedBytes, r.CuFileBytes
	o.Notes = append([]string{}, r.Notes...)
	var ways []string
	for _, way := range o.ways() {
		ways = append(ways, way.name)
	}
	o.Path = strings.Join(ways, "+")
}

type way struct {
	name, words string
	bytes       int64
}

// ways are those that bytes took.
func (o *loadOutput) ways() []way {
	return slices.DeleteFunc([]way{
		{"cached", "from the page cache", o.CachedBytes},
		{"direct", "from the disk, past the page cache", o.DirectBytes},
		{"mapped", "from a mapping of the file", o.MappedBytes},
		{"cufile", "by cuFile", o.CuFileBytes},
	}, func(w way) bool { return w.bytes == 0 })
}

func (o *loadOutput) print(w io.Writer) {
	fmt.Fprintf(w, "%s  %s\n", strings.Join(o.Devices, ", "), o.DeviceName)
	fmt.Fprintf(w, "%s: %s, %s in %s, %s\n\n", o.Checkpoint, units.Count(o.Tensors, "tensor"), units.Bytes(o.Bytes), units.Seconds(o.Seconds), units.Rate(o.GBPerS*1e9))
	t := texttable.New("", ">")
	for _, way := range o.ways() {
		t.Add(way.words, units.Bytes(way.bytes))
	}
	t.Add("device memory", units.Bytes(o.DeviceBytes))
	t.Write(w)
	if o.Layers > 0 {
		fmt.Fprintf(w, "\n%s, one after the other\n", units.Count(o.Layers, "layer"))
	}
	for _, note := range o.Notes {
		fmt.Fprintf(w, "\nNote: %s\n", note)
	}
}

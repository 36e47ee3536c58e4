package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/pinion-gpu/pinion/cmd/pinion/internal/cli"
	"github.com/pinion-gpu/pinion/cmd/pinion/internal/flags"
	"github.com/pinion-gpu/pinion/cmd/pinion/pinion-train/internal/curve"
	"github.com/pinion-gpu/pinion/cmd/pinion/pinion-train/internal/models"
	"github.com/pinion-gpu/pinion/cmd/pinion/pinion-train/internal/session"
	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dataset/photos"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/gomlx"
	"github.com/pinion-gpu/pinion/imaging"
	"github.com/pinion-gpu/pinion/internal/atomicfile"
	"github.com/pinion-gpu/pinion/internal/errs"
	"github.com/pinion-gpu/pinion/internal/units"
	"github.com/pinion-gpu/pinion/loader"
	"github.com/pinion-gpu/pinion/parallel/auto"
	"github.com/pinion-gpu/pinion/parallel/launch"
	"github.com/pinion-gpu/pinion/step/plan"
)

// trainFlags are the flags of pinion train.
type trainFlags struct {
	config     session.Config
	device     *string
	budget     int64
	amp        string
	steps      int
	onError    string
	resume     string
	checkpoint string
	restart    bool
	share      bool
	average    string
	noCopies   bool
	every      int
	plot       string
	plan       bool
	json       bool

	ranks *auto.Ranks
}

// types are those that --amp stands for.
var types = map[string]dtype.DType{"bf16": dtype.BF16, "fp16": dtype.F16, "off": 0}

// averages are those that --average stands for.
var averages = map[string]dtype.DType{"auto": 0, "f32": dtype.F32, "bf16": dtype.BF16, "f16": dtype.F16}

// Defaults that depend on the model.
const (
	gptLayers, gptWidth       = 4, 128
	resnetLayers, resnetWidth = 18, 64
)

// autoBatches is what --accumulate auto stands for.
const autoBatches = 0

func newTrain() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "train FILE|FOLDER",
		Short: "Train a small GPT on a text, or a ResNet on photos",
		Long: `Train a small GPT on a text file, whose bytes are its tokens, or a ResNet on a
folder of photos with a folder for each class. Pinion's loader feeds the
batches, GoMLX has the layers, the gradients and Adam, and Pinion runs the step
within a budget of device memory: what does not fit is computed again.

The same flags and data give the same losses. --checkpoint writes the weights,
the optimizer's state and the place in the data to a folder, at the end and
after an interrupt. --resume goes on from there, with losses of the same bits as
if the training had not stopped. What no flag says is then as it was; only --lr,
--amp, --average, --device and --budget may change.

With --accumulate, a step is several runs: those that add gradients up, and the
last, which updates the weights, too. With --accumulate auto, --batch is for the
whole step, and is divided into the fewest batches that fit --budget. The budget
is for each run: Adam's moments, which the first do not use, come on top of
theirs. A ResNet normalises each batch by itself.

Started by mpirun or srun, and with GPUs also by torchrun, several processes
train together, each on its share of the data, and average their gradients:
--batch is for each. The first prints, writes the checkpoint, which all read,
and has --plot, --trace and --http; with as many samples in a step together,
--resume goes on with any number of ranks. With --share, each rank keeps its
part of Adam's moments, and updates that of the weights; checkpoints are the
same. With --average bf16, half as much of the gradients travels, and their
means have 8 bits. A rank that fails ends all. A launcher that starts the same
command again, as torchrun and Slurm do, goes on behind the last checkpoint with
--restart, which may be on fewer ranks.`,
		Example: `  pinion train book.txt
  pinion train book.txt --layers 8 --width 512 --heads 8 --context 512
  pinion train book.txt --checkpoint run --steps 1000
  pinion train book.txt --resume run --checkpoint run --steps 1000
  pinion train ~/photos --device cuda:0 --budget 8GiB --batch 64
  pinion train ~/photos --batch 256 --budget 6GiB --accumulate auto
  pinion train ~/photos --batch 16 --accumulate 4 --json
  pinion train book.txt --plot loss.svg
  mpirun -n 4 pinion train book.txt --device host --batch 4 --share
  torchrun --no-python --nproc-per-node 2 --max-restarts 3 pinion train \
      book.txt --steps 1000 --checkpoint run --checkpoint-every 100 --restart`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				return nil
			}
			return cli.BadUsage(cmd, "pinion train takes one text file or one folder of photos, not %s", units.Count(len(args), "argument"))
		},
	}
	f := &trainFlags{device: cli.DeviceFlag(cmd)}
	set, c := cmd.Flags(), &f.config
	flags.Group(set, "Model", func() {
		flags.Int(set, &c.Layers, "layers", 0, flags.AtLeast(1), fmt.Sprintf("layers: of a GPT any number, of a ResNet 10, 18, 34 or 50 (default: %d and %d)", gptLayers, resnetLayers))
		flags.Int(set, &c.Width, "width", 0, flags.AtLeast(1), fmt.Sprintf("numbers for a token, or channels of a ResNet's first stage (default: %d and %d)", gptWidth, resnetWidth))
		flags.Int(set, &c.Heads, "heads", 4, flags.AtLeast(1), "heads of a GPT's attention, which share its width")
		flags.Int(set, &c.Context, "context", 128, flags.AtLeast(1), "tokens that a GPT looks back at most")
		flags.Int(set, &c.ImageSize, "image-size", 224, flags.AtLeast(1), "side of the squares that photos are cropped to, in pixels")
	})
	flags.Group(set, "Training", func() {
		flags.Int(set, &f.steps, "steps", 100, flags.AtLeast(1), "steps to train: with --resume beyond those that are done, with --restart in all")
		flags.Int(set, &c.Batch, "batch", 16, flags.AtLeast(1), "samples in a batch")
		flags.Int(set, &c.Accumulate, "accumulate", 1, flags.AtLeast(1).Or("auto", autoBatches), "batches of a step, whose gradients are averaged, or auto for as few as fit the budget")
		set.Float64Var(&c.LearningRate, "lr", 0.001, "learning rate of Adam")
		set.Uint64Var(&c.Seed, "seed", 0, "seed of the weights, the order and everything random about samples")
		flags.Size(set, &f.budget, "budget", 0, "most device memory that a step may take, such as 8GiB (default: as much as the device has)")
		flags.Choice(set, &f.onError, "on-error", "fail", []string{"fail", "replace"}, "when a photo cannot be read: fail, or replace it with another one")
		set.BoolVar(&f.share, "share", false, "each rank keeps a part of Adam's moments, and not all of them")
		set.BoolVar(&f.noCopies, "no-copies", false, "have ranks sum up by NCCL alone, not by copy engines")
		flags.Choice(set, &f.average, "average", "auto", []string{"auto", "f32", "bf16", "f16"}, "type in which ranks average gradients of a wider one; auto is their own")
		flags.Choice(set, &f.amp, "amp", "off", []string{"bf16", "fp16", "off"}, "mixed precision: bf16, fp16 (with a scale for the loss) or off")
	})
	flags.Group(set, "Checkpoint", func() {
		set.StringVar(&f.checkpoint, "checkpoint", "", "`FOLDER` for a checkpoint, at the end and after an interrupt")
		flags.Int(set, &f.every, "checkpoint-every", 0, flags.AtLeast(1), "write one after so many steps, too")
		set.StringVar(&f.resume, "resume", "", "`FOLDER` of a checkpoint to go on from")
		set.BoolVar(&f.restart, "restart", false, "go on from --checkpoint where it is there, to --steps in all; on another number of ranks, with as many samples together")
	})
	var trace *cli.Trace
	flags.Group(set, "Report", func() {
		set.StringVar(&f.plot, "plot", "", "`FILE` for a picture of the losses, as SVG")
		set.BoolVar(&f.plan, "plan", false, "print how the step runs within its memory")
		trace = cli.TraceFlag(set)
		set.BoolVar(&f.json, "json", false, "print one JSON document")
	})
	cmd.RunE = trace.Run(func(cmd *cobra.Command, args []string) error { return f.run(cmd, args[0]) })
	return cli.Ranked(cmd, "plot", "trace", "http", "http-public")
}

func (f *trainFlags) run(cmd *cobra.Command, path string) (err error) {
	if err := f.check(cmd); err != nil {
		return err
	}
	world, err := launch.FromEnv()
	if err != nil {
		return err
	}
	device, err := cli.OpenRankDevice(cmd, *f.device, world.LocalRank, world.LocalSize)
	if err == nil {
		defer func() { err = errors.Join(err, device.Close()) }()
		f.ranks, err = auto.Open(cmd.Context(), device, auto.Options{World: &world, NoCopies: f.noCopies})
	}
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, f.ranks.Close()) }() // which repeats why the run has failed
	defer func() {
		if err != nil && !errors.Is(err, session.ErrStopped) { // all know of that
			f.ranks.Fail(err)
		}
	}()
	f.config.Ranks = world.Size
	if world.Rank == 0 {
		if err := f.checkFiles(); err != nil {
			return err
		}
	}
	for _, x := range []struct {
		what  string
		value any
	}{
		{"--amp", f.amp}, {"--steps", f.steps}, {"--checkpoint-every", f.every}, {"whether there is --checkpoint", f.checkpoint != ""}, {"--restart", f.restart}, {"--share", f.share}, {"--average", f.average},
	} {
		if err := f.ranks.Agree(cmd.Context(), x.what, fmt.Sprint(x.value)); err != nil {
			return err
		}
	}
	return f.open(cmd, path, device)
}

// open opens data and model, and trains.
func (f *trainFlags) open(cmd *cobra.Command, path string, device device.Device) (err error) {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	f.config.Model = models.GPT
	if info.IsDir() {
		f.config.Model = models.ResNet
	}
	if f.restart {
		there, err := session.HasCheckpoint(f.checkpoint)
		if err != nil {
			return err
		}
		if there {
			f.resume = f.checkpoint
		}
	}
	var from *session.Checkpoint
	done := 0
	if f.resume != "" {
		if from, err = session.OpenCheckpoint(f.resume); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, from.Close()) }()
		done = from.Steps()
	}
	if err := f.ranks.Agree(cmd.Context(), "how many steps the checkpoint is behind", fmt.Sprint(done)); err != nil {
		return err
	}
	if err := f.complete(cmd, from); err != nil {
		return err
	}
	data, digest, err := f.openData(cmd, path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dataset.Close(data)) }()
	if err := f.config.Check(); err != nil {
		return cli.BadUsage(cmd, "%w", err)
	}
	if f.amp == "fp16" && f.config.Accumulate != 1 {
		return cli.BadUsage(cmd, "--amp fp16 does not go with --accumulate; bf16 does")
	}
	backend := gomlx.Options{On: device, Autocast: types[f.amp], Average: averages[f.average], Budget: f.budget}
	if f.config.Accumulate == autoBatches {
		if err := f.fit(cmd, backend); err != nil {
			return err
		}
	}
	policy := loader.Fail
	if f.onError == "replace" {
		policy = loader.Replace
	}
	s, err := session.Open(session.Options{Config: f.config, Backend: backend, Data: data, Digest: digest, OnError: policy, Resume: from, Ranks: f.ranks, Share: f.share})
	if errors.Is(err, loader.ErrState) {
		return fmt.Errorf("%w; training goes on only with the data that %s was trained on", err, f.resume)
	}
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	out := newOutput(path, f, device.Info())
	if f.restart {
		if f.steps -= done; f.steps <= 0 {
			return f.nothingLeft(cmd, out, done)
		}
	}
	return f.train(cmd, s, out)
}

// fit divides the batch for --accumulate auto.
func (f *trainFlags) fit(cmd *cobra.Command, backend gomlx.Options) error {
	line := cli.NewProgress(cmd)
	defer line.Clear()
	line.ShowFacts(0, f.steps, "looking for a batch that fits")
	found, err := session.Fit(cmd.Context(), f.config, backend)
	if err != nil {
		return err
	}
	f.config.Batch, f.config.Accumulate = found.Micro, found.Accumulate
	return nil
}

func (f *trainFlags) check(cmd *cobra.Command) error {
	if lr := f.config.LearningRate; !(lr > 0) || math.IsInf(lr, 0) {
		return cli.BadUsage(cmd, "--lr is %v; it must be above 0", lr)
	}
	if f.every > 0 && f.checkpoint == "" {
		return cli.BadUsage(cmd, "--checkpoint-every needs --checkpoint")
	}
	if f.restart && (f.checkpoint == "" || f.resume != "") {
		return cli.BadUsage(cmd, "--restart needs --checkpoint, which it goes on from, and no --resume")
	}
	if f.config.Accumulate == autoBatches {
		switch {
		case f.budget == 0:
			return cli.BadUsage(cmd, "--accumulate auto needs --budget")
		case f.resume != "" || f.restart:
			return cli.BadUsage(cmd, "--accumulate auto does not go with --resume or --restart, whose batches stay as they are")
		}
	}
	return nil
}

// checkFiles fails where what the first rank writes could not be written.
func (f *trainFlags) checkFiles() error {
	if f.checkpoint != "" {
		if err := session.CheckFolder(f.checkpoint); err != nil {
			return fmt.Errorf("the checkpoint cannot be written: %w", err)
		}
	}
	if f.plot != "" {
		if err := cli.CheckFile(f.plot); err != nil {
			return fmt.Errorf("the picture cannot be written: %w", err)
		}
	}
	return nil
}

// complete sets what the flags do not say: as the checkpoint has it, or by the model.
// What goes with the other model only is 0.
func (f *trainFlags) complete(cmd *cobra.Command, from *session.Checkpoint) error {
	c := &f.config
	if from != nil && from.Config().Model == c.Model {
		was := from.Config()
		take(cmd, "layers", &c.Layers, was.Layers)
		take(cmd, "width", &c.Width, was.Width)
		take(cmd, "heads", &c.Heads, was.Heads)
		take(cmd, "context", &c.Context, was.Context)
		take(cmd, "image-size", &c.ImageSize, was.ImageSize)
		if together := was.Batch * max(was.Ranks, 1); !cmd.Flags().Changed("batch") || f.restart && c.Ranks != max(was.Ranks, 1) {
			if c.Batch = together / c.Ranks; c.Batch*c.Ranks != together {
				return fmt.Errorf("%w: the checkpoint's batches of %d samples cannot be shared by %d ranks", errs.ErrArgument, together, c.Ranks)
			}
		}
		take(cmd, "accumulate", &c.Accumulate, was.Accumulate)
		take(cmd, "seed", &c.Seed, was.Seed)
		take(cmd, "lr", &c.LearningRate, was.LearningRate)
	}
	layers, width := gptLayers, gptWidth
	others := []string{"image-size"}
	if c.Model == models.ResNet {
		layers, width = resnetLayers, resnetWidth
		others = []string{"heads", "context"}
		c.Heads, c.Context = 0, 0
	} else {
		c.ImageSize = 0
	}
	for _, name := range others {
		if cmd.Flags().Changed(name) {
			return cli.BadUsage(cmd, "--%s is not for a %s", name, title(c.Model))
		}
	}
	if c.Layers == 0 {
		c.Layers = layers
	}
	if c.Width == 0 {
		c.Width = width
	}
	return nil
}

// take sets what a flag that was not given is for.
func take[T any](cmd *cobra.Command, flag string, to *T, value T) {
	if !cmd.Flags().Changed(flag) {
		*to = value
	}
}

// title is a model's name as people write it.
func title(name string) string {
	return map[string]string{models.GPT: "GPT", models.ResNet: "ResNet"}[name]
}

// openData opens the data. A text has a digest.
func (f *trainFlags) openData(cmd *cobra.Command, path string) (data dataset.Dataset, digest string, err error) {
	together := f.config.Batch * f.config.Ranks
	if f.config.Model == models.GPT {
		return openText(path, f.config.Context, together)
	}
	data, err = photos.Open(cmd.Context(), path, photos.Options{Transform: imaging.RandomResizedCrop(f.config.ImageSize).WithFlip(0.5)})
	if err != nil {
		return nil, "", err
	}
	f.config.Classes = len(dataset.Classes(data))
	if data.Len() < together {
		return nil, "", errors.Join(fmt.Errorf("%w: %s has %s, fewer than a batch of %d", errs.ErrArgument, path, units.Count(data.Len(), "photo"), together), dataset.Close(data))
	}
	return data, "", nil
}

// openText makes samples of a file: rows of bytes, one longer than the context. What is
// left behind the last row is not used.
func openText(path string, context, batch int) (data dataset.Dataset, digest string, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, "", err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is no regular file", path)
	}
	n := int64(0)
	if err == nil {
		if n = info.Size() / int64(context+1); n < int64(batch) {
			err = fmt.Errorf("%w: %s has %s; a batch of %d rows takes %s, %s for each (--context %d, and the byte that follows)", errs.ErrArgument, path, units.Grouped(info.Size())+" bytes", batch, units.Grouped(int64(batch)*int64(context+1)), units.Grouped(int64(context+1)), context)
		}
	}
	if err == nil {
		digest, err = digestOf(file, info.Size())
	}
	if err == nil {
		data, err = dataset.NewRaw(file, int(min(n, math.MaxInt32-1)), dataset.Spec{Shape: []int{context + 1}, DType: dtype.U8}, dataset.RawOptions{Name: filepath.Base(path)})
	}
	if err != nil {
		return nil, "", errors.Join(err, file.Close())
	}
	return data, digest, nil
}

// digestOf tells texts apart: by the length, and by up to 64 pieces of 64 KiB, so that it
// takes no longer for a long one.
func digestOf(file io.ReaderAt, size int64) (string, error) {
	const pieces, each = 64, 64 << 10
	h := sha256.New()
	fmt.Fprintln(h, size)
	stride := max(each, size/pieces)
	for at := int64(0); at < size; at += stride {
		if _, err := io.Copy(h, io.NewSectionReader(file, at, each)); err != nil {
			return "", err
		}
	}
	return hex.EncodeToString(h.Sum(nil)[:8]), nil
}

// train runs the steps and reports. After an interrupt it writes the checkpoint, too.
func (f *trainFlags) train(cmd *cobra.Command, s *session.Session, out *output) error {
	ctx := cmd.Context()
	line := cli.NewProgress(cmd)
	defer line.Clear()
	defer patient(ctx, line)()
	out.FirstStep = s.Steps() + 1
	line.ShowFacts(0, f.steps, "compiling the step")
	start := time.Now()
	for range f.steps {
		began := time.Now()
		loss, err := s.Step(ctx)
		if err != nil {
			switch {
			case errors.As(err, new(*loader.SampleError)):
				err = fmt.Errorf("%w; --on-error replace takes other photos instead", err)
			case errors.Is(err, plan.ErrBudget) && f.config.Batch > 1 && f.resume == "" && f.amp != "fp16":
				err = fmt.Errorf("%w; a smaller --batch takes less, or --accumulate auto", err)
			}
			return errors.Join(err, f.interrupted(err, line, s))
		}
		out.add(loss, time.Since(began))
		if _, skipped := s.Scaling(); skipped {
			out.Skipped = append(out.Skipped, s.Steps())
		}
		line.ShowFacts(len(out.Losses), f.steps, "training", "loss "+units.Digits(loss), units.Duration(time.Since(began))+" a step")
		if f.every > 0 && s.Steps()%f.every == 0 && len(out.Losses) < f.steps {
			if err := f.save(s); err != nil {
				return err
			}
		}
	}
	out.Seconds = time.Since(start).Seconds()
	if f.checkpoint != "" {
		line.ShowFacts(f.steps, f.steps, "writing the checkpoint")
		if err := f.save(s); err != nil {
			return err
		}
	}
	if f.plot != "" {
		svg := curve.SVG(fmt.Sprintf("%s on %s", title(f.config.Model), filepath.Base(out.Data)), out.Losses, out.FirstStep)
		if err := atomicfile.WriteFile(f.plot, []byte(svg), 0o666); err != nil {
			return fmt.Errorf("the picture: %w", err)
		}
	}
	line.Clear()
	out.finish(s, f)
	if f.json {
		return cli.PrintJSON(cmd, out)
	}
	return cli.PrintText(cmd, out.print)
}

// nothingLeft reports a run of no steps.
func (f *trainFlags) nothingLeft(cmd *cobra.Command, out *output, done int) error {
	out.FirstStep, out.PlotFile = done+1, ""
	if f.json {
		return cli.PrintJSON(cmd, out)
	}
	return cli.PrintText(cmd, func(w io.Writer) {
		fmt.Fprintf(w, "No step is left: the checkpoint in %s has %s\n", f.checkpoint, units.Count(done, "step"))
	})
}

// patient says after an interrupt what is waited for, if that takes long, until it is
// stopped.
func patient(ctx context.Context, line *cli.Progress) (stop func()) {
	done := make(chan struct{})
	unwatch := context.AfterFunc(ctx, func() {
		select {
		case <-done:
		case <-time.After(time.Second):
			line.Message("The step that is running comes to its end; interrupt again to stop at once")
		}
	})
	return func() { unwatch(); close(done) }
}

// interrupted writes the checkpoint where an interrupt, of whichever rank, ended the
// training between two steps.
func (f *trainFlags) interrupted(err error, line *cli.Progress, s *session.Session) error {
	if !errors.Is(err, context.Canceled) && !errors.Is(err, session.ErrStopped) || f.checkpoint == "" || s.Steps() == 0 {
		return nil
	}
	line.ShowFacts(f.steps, f.steps, "writing the checkpoint")
	err = f.save(s)
	if err == nil {
		line.Message("The checkpoint of %s is in %s", units.Count(s.Steps(), "step"), f.checkpoint)
	}
	return cli.Lost(err)
}

func (f *trainFlags) save(s *session.Session) error {
	if err := s.Save(f.checkpoint); err != nil {
		return fmt.Errorf("the checkpoint: %w", err)
	}
	return nil
}

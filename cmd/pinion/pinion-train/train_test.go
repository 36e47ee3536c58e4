package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/png"
	"math"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/cmd/pinion/internal/cli"
	"github.com/pinion-gpu/pinion/cmd/pinion/pinion-train/internal/session"
	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/internal/errs"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/loader"
	"github.com/pinion-gpu/pinion/step/plan"
)

func TestMain(m *testing.M) {
	os.Setenv("PINION_TOP", "off")
	if args := os.Getenv(asRank); args != "" { // mpirun started it
		if os.Getenv("OMPI_COMM_WORLD_RANK") == "1" {
			args += os.Getenv(asRank1)
		}
		os.Exit(cli.Execute(newRoot(strings.Split(args, "\n"))))
	}
	os.Exit(m.Run())
}

// asRank has the arguments, in lines, with which this binary is the command; asRank1 what
// follows them on rank 1.
const asRank, asRank1 = "PINION_TRAIN_ARGS", "PINION_TRAIN_ARGS_1"

// testDevice is what the tests run on.
func testDevice() string {
	if name := os.Getenv("PINION_DEVICE"); name != "" {
		return name
	}
	return "host"
}

// run runs the command and returns what it printed.
func run(ctx context.Context, args ...string) (string, error) {
	root := newRoot(append(args, "--device", testDevice()))
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetErr(new(bytes.Buffer))
	err := root.ExecuteContext(ctx)
	return out.String(), err
}

func trained(t *testing.T, args ...string) (doc output) {
	t.Helper()
	text, err := run(t.Context(), append(args, "--json")...)
	testkit.OK(t, err)
	testkit.OK(t, json.Unmarshal([]byte(text), &doc))
	return doc
}

// book is a text that can be learned.
func book(t *testing.T, lines int) string {
	t.Helper()
	var b strings.Builder
	for i := range lines {
		fmt.Fprintf(&b, "line %d: the pinion turns the wheel, and the wheel turns %d times\n", i, i*i%97)
	}
	return testkit.WriteFile(t, b.String(), t.TempDir(), "book.txt")
}

// album is photos of two classes, which differ in their colour.
func album(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for i := range 16 {
		m := image.NewRGBA(image.Rect(0, 0, 40, 36))
		for k := range m.Pix {
			m.Pix[k] = byte(k*(i+3)%64 + 150*(k%4*(i%2)/2))
			if k%4 == 3 {
				m.Pix[k] = 255
			}
		}
		var b bytes.Buffer
		testkit.OK(t, png.Encode(&b, m))
		testkit.WriteFile(t, b.Bytes(), dir, []string{"day", "night"}[i%2], fmt.Sprint(i, ".png"))
	}
	return dir
}

// Small models.
var (
	gpt    = []string{"--layers", "1", "--width", "16", "--heads", "2", "--context", "12", "--batch", "4"}
	resnet = []string{"--layers", "10", "--width", "4", "--image-size", "32", "--batch", "6", "--lr", "0.01"}
)

func with(args []string, more ...string) []string { return append(slices.Clone(args), more...) }

// Ten steps, a checkpoint, and ten more have the losses of twenty, to the bit.
func TestResumesExactly(t *testing.T) {
	text := book(t, 40)
	for name, args := range map[string][]string{
		"GPT":                    with(gpt, text, "--seed", "3"),
		"GPT, accumulated":       with(gpt, text, "--accumulate", "3"),
		"GPT in bf16":            with(gpt, text, "--amp", "bf16"),
		"GPT in fp16":            with(gpt, text, "--amp", "fp16"),
		"ResNet, over 8 epochs":  with(resnet, album(t)),
		"GPT, in many an epoch":  with(gpt, book(t, 2), "--batch", "5"),
		"ResNet, accumulated by": with(resnet, album(t), "--accumulate", "2", "--batch", "3"),
	} {
		t.Run(name, func(t *testing.T) {
			folder := filepath.Join(t.TempDir(), "run")
			whole := trained(t, with(args, "--steps", "20")...)
			first := trained(t, with(args, "--steps", "10", "--checkpoint", folder)...)
			// What the flags do not say is as it was.
			data := args[slices.IndexFunc(args, func(a string) bool { return filepath.IsAbs(a) })]
			second := trained(t, data, "--steps", "10", "--resume", folder, "--amp", whole.AMP)
			if first.FirstStep != 1 || second.FirstStep != 11 || len(whole.Losses) != 20 || second.Steps != 10 {
				t.Errorf("%d losses; steps from %d, then %d on from %d", len(whole.Losses), first.FirstStep, second.Steps, second.FirstStep)
			}
			if both := slices.Concat(first.Losses, second.Losses); !slices.Equal(both, whole.Losses) {
				t.Errorf("the losses are %v, and %v without a break", both, whole.Losses)
			}
			if last := whole.Losses[19]; !(last < 0.95*whole.Losses[0]) {
				t.Errorf("the losses are %v", whole.Losses)
			}
			if whole.Config != second.Config {
				t.Errorf("%+v is not %+v", second.Config, whole.Config)
			}
		})
	}
}

// The same command again goes on behind the checkpoint, and does nothing when all is done.
func TestRestart(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "run")
	args := with(gpt, book(t, 40), "--seed", "3")
	whole := trained(t, with(args, "--steps", "9")...)
	again := with(args, "--checkpoint", folder, "--restart")
	first := trained(t, with(again, "--steps", "4")...)
	second := trained(t, with(again, "--steps", "9")...)
	if both := slices.Concat(first.Losses, second.Losses); !slices.Equal(both, whole.Losses) || second.FirstStep != 5 {
		t.Errorf("the losses are %v, from step %d on, and %v without a break", both, second.FirstStep, whole.Losses)
	}
	third := trained(t, with(again, "--steps", "9")...)
	if third.Steps != 0 || len(third.Losses) != 0 || third.FirstStep != 10 {
		t.Errorf("%d steps from %d on", third.Steps, third.FirstStep)
	}
	if _, err := run(t.Context(), with(gpt, book(t, 41), "--checkpoint", folder, "--restart", "--steps", "3")...); err == nil || !strings.Contains(err.Error(), "trained on") && !strings.Contains(err.Error(), "have changed") {
		t.Errorf("other data: %v", err)
	}
	if _, err := run(t.Context(), with(again, "--steps", "3", "--batch", "3")...); err == nil || !strings.Contains(err.Error(), "batch") {
		t.Errorf("another batch: %v", err)
	}
	text, err := run(t.Context(), with(again, "--steps", "3")...)
	if want := "No step is left: the checkpoint in " + folder + " has 9 steps\n"; err != nil || text != want {
		t.Errorf("%q, %v", text, err)
	}
}

// What the scale of fp16 leaves out is said, step by step.
func TestSkippedSteps(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "run")
	args := with(resnet, album(t), "--amp", "fp16", "--steps", "3", "--checkpoint", folder)
	doc := trained(t, args...)
	if n := len(doc.Skipped); n == 0 || doc.Skipped[0] != 1 || doc.LossScale != math.Ldexp(65536, -n) {
		t.Fatalf("steps %v were left out, and the scale is %v", doc.Skipped, doc.LossScale)
	}
	text, err := run(t.Context(), with(args, "--steps", "1")...)
	testkit.OK(t, err)
	if want := "Losses are scaled by 32768; gradients were not finite in step 1, which changed nothing\n"; !strings.Contains(text, want) {
		t.Errorf("there is no %q in\n%s", want, text)
	}
	for _, amp := range []string{"bf16", "off"} { // the checkpoint has a scale
		text, err := run(t.Context(), album(t), "--resume", folder, "--steps", "1", "--amp", amp, "--json")
		testkit.OK(t, err)
		if !strings.Contains(text, `"skipped_steps": []`) || strings.Contains(text, "loss_scale") {
			t.Errorf("%s: %s", amp, text)
		}
	}
	for want, steps := range map[string][]int{
		"": {}, "step 3, which": {3}, "in 2 steps, which changed nothing: 3 4": {3, 4}, "in 7 steps, which changed nothing: 1 2 3 4 5 6 …": {1, 2, 3, 4, 5, 6, 7},
	} {
		if got := skipped(steps); !strings.Contains(got, want) || (got == "") != (want == "") {
			t.Errorf("%v: %q", steps, got)
		}
	}
}

// A training may go on in another precision.
func TestAMPMayChange(t *testing.T) {
	text, folder := book(t, 40), filepath.Join(t.TempDir(), "run")
	trained(t, with(gpt, text, "--steps", "2", "--checkpoint", folder)...)
	for _, amp := range []string{"fp16", "bf16", "off"} {
		trained(t, text, "--steps", "2", "--resume", folder, "--checkpoint", folder, "--amp", amp)
	}
	from, err := session.OpenCheckpoint(folder)
	testkit.OK(t, err)
	defer from.Close()
	if from.Steps() != 8 {
		t.Errorf("%d steps", from.Steps())
	}
}

// Within a budget the losses are the same bits, and a checkpoint can be resumed within
// another.
func TestBudget(t *testing.T) {
	args := with(gpt, book(t, 40), "--steps", "3")
	free := trained(t, args...)
	if m := free.Memory; m.Weights != int64(4*free.Parameters) || m.Optimizer < 2*m.Weights || m.Between <= 0 ||
		m.Weights+m.Optimizer+m.Sums+m.Other+m.Batch+m.Between != free.PlannedBytes || free.PeakBytes < free.PlannedBytes {
		t.Errorf("%d parameters, a plan of %d bytes, a peak of %d: %+v", free.Parameters, free.PlannedBytes, free.PeakBytes, m)
	}
	// On a GPU, the workspace of products is most of it: no share of that will do.
	_, err := run(t.Context(), with(args, "--budget", "10KiB")...)
	if err == nil || !strings.HasPrefix(err.Error(), "step 1: step: ") || !strings.Contains(err.Error(), "10 KiB") {
		t.Errorf("a budget of 10 KiB: %v", err)
	}
	impossible := &plan.ImpossibleError{}
	if !errors.As(err, &impossible) {
		t.Fatal(err)
	}
	budget := impossible.Found
	tight := trained(t, with(args, "--budget", fmt.Sprint(budget))...)
	if !slices.Equal(tight.Losses, free.Losses) {
		t.Errorf("the losses are %v, and %v without a budget", tight.Losses, free.Losses)
	}
	if tight.PlannedBytes > budget || tight.Recomputed == 0 || tight.BudgetBytes != budget {
		t.Errorf("within %d bytes: %d planned, %d tasks run again", budget, tight.PlannedBytes, tight.Recomputed)
	}
}

// A step without a budget fits a device that is smaller than all of it.
func TestSmallDevice(t *testing.T) {
	args := with(gpt, book(t, 400), "--steps", "2", "--batch", "32", "--context", "96")
	root := newRoot(with(args, "--device", "host:16MiB"))
	var out bytes.Buffer
	root.SetOut(&out)
	testkit.OK(t, root.ExecuteContext(t.Context()))
	if !strings.Contains(out.String(), "The device is too small for the whole step; ") {
		t.Error(out.String())
	}
}

// A batch is divided as the budget asks for, and trains as the whole does, to rounding.
func TestAccumulateAuto(t *testing.T) {
	args := with(gpt, book(t, 40), "--steps", "3", "--batch", "12")
	whole := trained(t, args...)
	most := whole.PlannedBytes
	got := trained(t, with(args, "--accumulate", "auto", "--budget", fmt.Sprint(most))...)
	if got.Batch != 12 || got.Accumulate != 1 || !slices.Equal(got.Losses, whole.Losses) {
		t.Errorf("with room for all, %d x %d: %v, want %v", got.Accumulate, got.Batch, got.Losses, whole.Losses)
	}
	if testDevice() != "host" {
		return // the workspace of products may be most of any budget
	}
	budget := most * 2 / 5
	got = trained(t, with(args, "--accumulate", "auto", "--budget", fmt.Sprint(budget))...)
	if got.Batch*got.Accumulate != 12 || got.Accumulate == 1 || got.PlannedBytes > budget || got.BudgetBytes != budget {
		t.Errorf("within %d of %d bytes: %d x %d, %d bytes", budget, most, got.Accumulate, got.Batch, got.PlannedBytes)
	}
	for i, loss := range whole.Losses {
		if math.Abs(got.Losses[i]-loss) > 1e-3*loss {
			t.Errorf("step %d has a loss of %g, and %g in one batch", i, got.Losses[i], loss)
		}
	}
}

// A photo that cannot be read ends the training with its name, or another takes its place.
func TestBadPhotos(t *testing.T) {
	folder := album(t)
	testkit.WriteFile(t, "no photo", folder, "day", "bad.png")
	args := with(resnet, folder, "--steps", "6")
	_, err := run(t.Context(), args...)
	testkit.WantError(t, "a bad photo", err, dataset.ErrFormat, filepath.Join("day", "bad.png"), "; --on-error replace takes other photos instead")
	doc := trained(t, with(args, "--on-error", "replace")...)
	if doc.Unread == 0 || doc.Steps != 6 {
		t.Errorf("%d samples were replaced in %d steps", doc.Unread, doc.Steps)
	}
	text, err := run(t.Context(), with(args, "--on-error", "replace")...)
	testkit.OK(t, err)
	if !strings.Contains(text, "could not be read, and others took their place\n") {
		t.Error(text)
	}
}

func TestRefused(t *testing.T) {
	text, dir := book(t, 40), t.TempDir()
	folder := filepath.Join(dir, "run")
	trained(t, with(gpt, text, "--steps", "2", "--checkpoint", folder)...)
	kept := testkit.ReadFile(t, folder, session.FileName)
	other := book(t, 30)
	changed := testkit.WriteFile(t, strings.ToUpper(testkit.ReadFile(t, text)), t.TempDir(), filepath.Base(text))
	for _, c := range []struct {
		name string
		kind error
		says string
		args []string
	}{
		{"another model", session.ErrCheckpoint, "layers 1, not 2; width 16, not 32", []string{text, "--resume", folder, "--layers", "2", "--width", "32"}},
		{"a ResNet", session.ErrCheckpoint, "model gpt, not resnet", with(resnet, album(t), "--resume", folder)},
		{"a long context", errs.ErrArgument, "a batch of 16 rows takes 160,016, 10,001 for each (--context 10000, ", []string{text, "--context", "10000"}},
		{"a small budget", plan.ErrBudget, "; a smaller --batch takes less, or --accumulate auto", with(gpt, text, "--budget", "20KiB")},
		{"another seed", session.ErrCheckpoint, "seed 0, not 7", []string{text, "--resume", folder, "--seed", "7"}},
		{"another text", loader.ErrState, "only with the data", []string{other, "--resume", folder}},
		{"a text that has changed", session.ErrCheckpoint, "the data have changed since", []string{changed, "--resume", folder}},
		{"no checkpoint", os.ErrNotExist, "nowhere", []string{text, "--resume", filepath.Join(dir, "nowhere")}},
		{"a large learning rate", session.ErrDiverged, "step 4: the training diverged: the loss is NaN", []string{text, "--resume", folder, "--checkpoint", folder, "--lr", "1e30"}},
		{"no text", os.ErrNotExist, "nothing.txt", []string{filepath.Join(dir, "nothing.txt")}},
		{"a short text", errs.ErrArgument, "a batch of 16 rows takes 2,064, 129 for each (--context 128, and the byte that follows)", []string{testkit.WriteFile(t, "short", dir, "short.txt")}},
		{"no place for a checkpoint", errs.ErrArgument, "run/" + session.FileName + " is a file, and not a folder", with(gpt, text, "--checkpoint", filepath.Join(folder, session.FileName))},
		{"a file instead of a checkpoint", errs.ErrArgument, "is a file; a checkpoint is a folder", []string{text, "--resume", text}},
		{"one class", errs.ErrArgument, "1 class; a folder of photos has a folder for each class", with(resnet, filepath.Join(album(t), "day"))},
		{"no budget for one row", plan.ErrBudget, "a batch of 4 does not fit, not even one by one: step: ", with(gpt, text, "--accumulate", "auto", "--budget", "20KiB")},
		{"an empty folder", dataset.ErrEmpty, "no files", []string{t.TempDir()}},
	} {
		out, err := run(t.Context(), c.args...)
		testkit.WantError(t, c.name, err, c.kind, c.says)
		if c.name == "a ResNet" && strings.Contains(err.Error(), "batch") {
			t.Errorf("of another model, the batch is of no interest: %v", err)
		}
		if out != "" {
			t.Errorf("%s: %q", c.name, out)
		}
	}
	for _, c := range []struct{ says, args string }{
		{"takes one text file", "a b"}, {"takes one text file", ""}, {"--lr is 0", text + " --lr 0"},
		{"--checkpoint-every needs --checkpoint", text + " --checkpoint-every 3"},
		{"--image-size is not for a GPT", text + " --image-size 64"}, {"--heads is not for a ResNet", album(t) + " --heads 2"},
		{"cannot be shared by 3 heads", text + " --heads 3"}, {"there is no ResNet of 12", album(t) + " --layers 12"},
		{"--amp", text + " --amp int8"}, {"--amp fp16 does not go with --accumulate", text + " --amp fp16 --accumulate 2"}, {"--accumulate auto needs --budget", text + " --accumulate auto"}, {"must be at least 1, or auto", text + " --accumulate 0"},
		{"--amp fp16 does not go with --accumulate", text + " --amp fp16 --accumulate auto --budget 1GiB"},
		{"--restart needs --checkpoint", text + " --restart"},
		{"--restart needs --checkpoint", text + " --restart --checkpoint " + folder + " --resume " + folder},
		{"does not go with --resume or --restart", text + " --accumulate auto --budget 1GiB --restart --checkpoint " + folder},
		{"does not go with --resume", text + " --accumulate auto --budget 1GiB --resume " + folder},
		{"--average", text + " --average f64"}, {"--steps", text + " --steps 0"}, {"--budget", text + " --budget 0"},
	} {
		_, err := run(t.Context(), strings.Fields(c.args)...)
		if usage := new(cli.UsageError); !errors.As(err, &usage) || !strings.Contains(err.Error(), c.says) || usage.Help != "pinion train --help" {
			t.Errorf("%q: %v", c.args, err)
		}
	}
	if testkit.ReadFile(t, folder, session.FileName) != kept {
		t.Error("the checkpoint is another now")
	}
	// One that was changed by hand.
	for change, says := range map[string]string{
		`\"steps\":2`:   "it is of 0 steps",
		`\"batch\":4`:   "batches of 0",
		`\"version\":1`: "its version is 0",
		`\"width\":16`:  "", // as GoMLX says it
	} {
		to := change[:strings.Index(change, ":")+1] + "0"
		if says == "" {
			to = strings.Replace(change, "16", "32", 1)
		}
		if !strings.Contains(kept, change) {
			t.Errorf("there is no %s", change)
		}
		text := strings.Replace(kept, change, to+strings.Repeat(" ", len(change)-len(to)), 1)
		file := testkit.WriteFile(t, text, t.TempDir(), session.FileName)
		_, err := run(t.Context(), book(t, 40), "--resume", filepath.Dir(file))
		testkit.WantError(t, change, err, session.ErrCheckpoint, file, says)
	}
	// A file of weights alone is no checkpoint.
	file := testkit.WriteFile(t, strings.Replace(kept, "pinion_train", "pinion_brain", 1), dir, "weights", session.FileName)
	_, err := run(t.Context(), text, "--resume", filepath.Dir(file))
	testkit.WantError(t, "weights", err, session.ErrCheckpoint, "not the state of a training")
}

// An interrupt leaves a checkpoint of whole steps.
func TestInterrupt(t *testing.T) {
	text := book(t, 40)
	folder := filepath.Join(t.TempDir(), "run")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := run(ctx, with(gpt, text, "--steps", "1000000", "--checkpoint", folder, "--checkpoint-every", "2")...)
		done <- err
	}()
	testkit.Eventually(t, "there is a checkpoint", func() bool {
		_, err := os.Stat(filepath.Join(folder, session.FileName))
		return err == nil
	})
	cancel()
	testkit.WantError(t, "an interrupt", testkit.Receive(t, "the end", done), context.Canceled)
	from, err := session.OpenCheckpoint(folder)
	testkit.OK(t, err)
	steps := from.Steps()
	testkit.OK(t, from.Close())
	whole := trained(t, with(gpt, text, "--steps", fmt.Sprint(steps+1))...)
	rest := trained(t, text, "--steps", "1", "--resume", folder)
	if want := whole.Losses[steps:]; !slices.Equal(rest.Losses, want) || rest.FirstStep != steps+1 {
		t.Errorf("after %d steps the loss is %v, and %v without an interrupt", steps, rest.Losses, want)
	}
	files, err := os.ReadDir(folder)
	testkit.OK(t, err)
	if len(files) != 1 {
		t.Errorf("there are %v", files)
	}
}

// Where the dashboard cannot be served, nothing is trained.
func TestDashboard(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.OK(t, err)
	defer taken.Close()
	_, err = run(t.Context(), with(gpt, book(t, 40), "--steps", "1", "--http", taken.Addr().String())...)
	if err == nil || !strings.Contains(err.Error(), "--http :0 takes a free port") {
		t.Errorf("a port in use: %v", err)
	}
	_, err = run(t.Context(), with(gpt, book(t, 40), "--steps", "1", "--http", ":0")...)
	testkit.OK(t, err)
}

func TestText(t *testing.T) {
	picture := filepath.Join(t.TempDir(), "loss.svg")
	text, err := run(t.Context(), with(gpt, book(t, 40), "--steps", "5", "--plot", picture, "--plan")...)
	testkit.OK(t, err)
	for _, want := range []string{"GPT of 1 layer with ", "; a step is 4 rows of 12 tokens\n", "Steps 1 to 5", "•", "activations and gradients", "together", "The plan, whose times are estimates:\nstep ", "operations in", picture} {
		if !strings.Contains(text, want) {
			t.Errorf("there is no %q in\n%s", want, text)
		}
	}
	before, _, _ := strings.Cut(text, "operations in")
	for line := range strings.Lines(before) {
		if n := len([]rune(strings.TrimSpace(line))); n > 80 && !strings.HasPrefix(line, "On ") {
			t.Errorf("a line of %d columns: %s", n, line)
		}
	}
	if svg := testkit.ReadFile(t, picture); !strings.Contains(svg, "<svg") || !strings.Contains(svg, `class="loss"`) {
		t.Errorf("%.200s", svg)
	}
}

func TestNotes(t *testing.T) {
	var text bytes.Buffer
	(&output{Losses: []float64{1}, Notes: []string{"cudnn: no library; kernels of our own do it"}}).print(&text)
	if !strings.Contains(text.String(), "\ncudnn: no library; kernels of our own do it\n") {
		t.Error(&text)
	}
}

func TestHelp(t *testing.T) {
	text, err := run(t.Context(), "--help")
	testkit.OK(t, err)
	for line := range strings.Lines(text) {
		if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > 80 {
			t.Errorf("a line of %d columns: %s", n, line)
		}
	}
	if !strings.Contains(text, cli.ExitCodes) || !strings.Contains(text, "--accumulate") {
		t.Error(text)
	}
}

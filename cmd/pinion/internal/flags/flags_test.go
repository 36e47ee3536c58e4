package flags

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// command has one flag of each kind.
type command struct {
	*cobra.Command
	epochs, side   int
	batch, workers []int
	budget         int64
	chunk, one     []int64
	depth          []int
	dtype, device  string
}

func newCommand() *command {
	c := &command{Command: &cobra.Command{Use: "feed", Short: "Feed", Example: "  feed it", RunE: func(*cobra.Command, []string) error { return nil }}}
	set := c.Flags()
	set.Bool("json", false, "print JSON")
	Group(set, "Sizes", func() {
		Size(set, &c.budget, "budget", 1<<30, "most bytes")
		Sizes(set, &c.chunk, "chunk", nil, true, "pieces")
		Sizes(set, &c.one, "piece", nil, false, "piece")
	})
	Group(set, "Numbers", func() {
		Int(set, &c.epochs, "epochs", 1, AtLeast(1), "passes")
		Int(set, &c.side, "side", 0, Between(1, 65535), "pixels")
		Ints(set, &c.batch, "batch", []int{64}, AtLeast(1), true, "samples")
		Ints(set, &c.depth, "depth", []int{-1}, AtLeast(1).Or("auto", -1), true, "deep")
		Ints(set, &c.workers, "workers", nil, AtLeast(1), false, "goroutines")
		set.Uint64("seed", 0, "seed")
		set.Float64("mixup", 0, "alpha")
		set.Duration("step-time", 0, "step")
	})
	Choice(set, &c.dtype, "dtype", "", []string{"f32", "f16", "bf16"}, "type")
	Text(set, &c.device, "device", "auto", "device", func() []string { return []string{"auto", "cuda:0"} })
	Setup(c.Command, "The end.")
	return c
}

func TestValues(t *testing.T) {
	c := newCommand()
	if text := fmt.Sprint(c.epochs, c.batch, c.workers, c.budget, " ", c.device); text != "1 [64] [] 1073741824 auto" {
		t.Errorf("defaults: %s", text)
	}
	err := c.ParseFlags(strings.Fields("--epochs 3 --side 65535 --batch 4,8 --batch 16 --workers 2 --workers 3 --budget 64MiB --chunk 512KiB,2MiB --piece 1kB --dtype bf16 --device x"))
	text := fmt.Sprint(c.epochs, c.side, c.batch, c.workers, c.budget, c.chunk, c.one, " ", c.dtype, " ", c.device)
	if want := "3 65535 [4 8 16] [3] 67108864 [524288 2097152] [1000] bf16 x"; err != nil || text != want {
		t.Errorf("%s, want %s; %v", text, want, err)
	}
}

// A word stands for a number where it may.
func TestWord(t *testing.T) {
	c := newCommand()
	if text := c.Flags().Lookup("depth").DefValue; text != "auto" {
		t.Errorf("default %q", text)
	}
	if err := c.ParseFlags(strings.Fields("--depth 3,auto --depth 5")); err != nil || fmt.Sprint(c.depth) != "[3 -1 5]" {
		t.Errorf("%v, %v", c.depth, err)
	}
	if text := c.Flags().Lookup("depth").Value.String(); text != "3,auto,5" {
		t.Errorf("%q", text)
	}
}

// What is wrong is said in words of the command line.
func TestExplain(t *testing.T) {
	for args, want := range map[string]string{
		"--epochs 0":                    `--epochs is "0", but must be at least 1`,
		"--epochs many":                 `--epochs is "many", but must be a whole number`,
		"--epochs 99999999999999999999": `--epochs is "99999999999999999999", but must be at least 1`,
		"--side 70000":                  `--side is "70000", but must be from 1 to 65535`,
		"--batch 4,x":                   `--batch is "4,x", but must be a whole number, which "x" is not`,
		"--depth -1":                    `--depth is "-1", but must be at least 1, or auto`,
		"--depth some":                  `--depth is "some", but must be a whole number, or auto`,
		"--workers 1,2":                 `--workers is "1,2", but must be one value`,
		"--budget lots":                 `--budget is "lots", but must be a size such as 64MiB or 1GiB`,
		"--budget -1MiB":                `--budget is "-1MiB", but must be a size such as 64MiB or 1GiB`,
		"--budget 16EiB":                `--budget is "16EiB", but must be a size such as 64MiB or 1GiB`,
		"--chunk 0":                     `--chunk is "0", but must be a size such as 64MiB or 1GiB`,
		"--dtype f23":                   `--dtype is "f23", but must be f32, f16 or bf16; did you mean f32?`,
		"--dtype complex":               `--dtype is "complex", but must be f32, f16 or bf16`,
		"--skip tow":                    `--skip is "tow", but must be one of 13 names; did you mean two?`,
		"--skip one,tow,six":            `--skip is "one,tow,six", but must be one of 13 names, which "tow" is not; did you mean two?`,
		"--skip one,,six":               `--skip is "one,,six", but must be one of 13 names, which "" is not`,
		"--skip= ":                      `--skip is "", but must be one of 13 names`,
		"--seed -1":                     `--seed is "-1", but must be a whole number from 0`,
		"--mixup much":                  `--mixup is "much", but must be a number`,
		"--step-time soon":              `--step-time is "soon", but must be a time such as 20ms or 1m30s`,
		"--json=maybe":                  `--json is "maybe", but must be true or false`,
		"--epohcs 1":                    `feed has no flag --epohcs; did you mean --epochs?`,
		"--work 1":                      `feed has no flag --work; did you mean --workers?`,
		"--frobnicate":                  `feed has no flag --frobnicate`,
		"-x":                            `feed has no flag -x`,
		"--budget":                      `--budget needs a value: --budget size`,
	} {
		c := newCommand()
		many := strings.Fields("one two three four five six seven eight nine ten eleven twelve thirteen")
		Choices(c.Flags(), new([]string), "skip", many, "names")
		err := c.ParseFlags(strings.Fields(args))
		if err == nil {
			t.Errorf("%s: no error", args)
			continue
		}
		if got := Explain(c.Command, err).Error(); got != want {
			t.Errorf("%s: %s\nwant %s", args, got, want)
		}
	}
}

func TestUsage(t *testing.T) {
	const want = `Usage:
  feed [flags]

Examples:
  feed it

Sizes:
      --budget size      most bytes (default 1GiB)
      --chunk size,...   pieces
      --piece size       piece

Numbers:
      --epochs int           passes (default 1)
      --side int             pixels
      --batch int,...        samples (default 64)
      --depth int,...        deep (default auto)
      --workers int          goroutines
      --seed uint            seed
      --mixup float          alpha
      --step-time duration   step

Other flags:
      --json            print JSON
      --dtype name      type
      --device string   device (default "auto")

The end.
`
	c := newCommand()
	if got := c.UsageString(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// Values are completed, and files are not offered where no file is meant.
func TestComplete(t *testing.T) {
	c := newCommand()
	want := map[string][]string{"dtype": {"f32", "f16", "bf16"}, "device": {"auto", "cuda:0"}}
	c.Flags().VisitAll(func(f *pflag.Flag) {
		fn, there := c.GetFlagCompletionFunc(f.Name)
		if !there {
			t.Errorf("--%s is not completed", f.Name)
			return
		}
		got, directive := fn(c.Command, nil, "")
		if !slices.Equal(got, want[f.Name]) || directive != cobra.ShellCompDirectiveNoFileComp {
			t.Errorf("--%s: %q, %v", f.Name, got, directive)
		}
	})
}

func TestNearest(t *testing.T) {
	words := []string{"feed", "tune", "pack", "devices", "bench", "replay", "completion", "version"}
	for text, want := range map[string]string{
		"fed": "feed", "ptune": "tune", "device": "devices", "dev": "devices", "BENHC": "bench", "paly": "", "x": "", "": "", "replya": "replay",
	} {
		if got := Nearest(text, words); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if got := Or([]string{"a", "b", "c"}) + Or([]string{"d"}) + Or(nil); got != "a, b or cd" {
		t.Errorf("%q", got)
	}
}

package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"github.com/spf13/cobra"
)

// trainProgram is what "pinion train" runs. It has GoMLX, which this program has not.
const trainProgram = "pinion-train"

func newTrain() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "train FILE|FOLDER",
		Short: "Train a small GPT on a text, or a ResNet on photos",
		Long: `Train a small GPT on a text file, or a ResNet on a folder of photos, within a
budget of device memory.

This is a program of its own, pinion-train, of a module of its own, so that
nobody gets GoMLX who has no use for it. It is looked for beside pinion, and
then in PATH. To have it, in the folder cmd/pinion/pinion-train of Pinion's
sources run

  go build -o ~/bin/ .

"pinion train --help" then explains the flags.`,
		Example: `  pinion train book.txt
  pinion train ~/photos --budget 8GiB`,
		DisableFlagParsing: true, // they are the program's
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		path, err := findProgram(trainProgram)
		switch {
		case err == nil:
			return become(path, append([]string{trainProgram}, args...))
		case len(args) == 1 && (args[0] == "--help" || args[0] == "-h"):
			return cmd.Help()
		}
		return fmt.Errorf(`%w; "pinion help train" says how to get it`, err)
	}
	return cmd
}

// findProgram looks for a program beside this one, and then in PATH.
func findProgram(name string) (string, error) {
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	if self, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(self), name)
		if info, err := os.Stat(beside); err == nil && info.Mode().IsRegular() {
			return beside, nil
		}
	}
	path, err := exec.LookPath(name)
	if errors.Is(err, exec.ErrDot) {
		return "", err
	}
	if err != nil {
		return "", fmt.Errorf("%s is neither beside pinion nor in PATH", name)
	}
	return path, nil
}

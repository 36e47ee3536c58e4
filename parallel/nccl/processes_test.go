package nccl

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/parallel"
	"github.com/pinion-gpu/pinion/parallel/conformance"
)

// What a process of this binary is told when a test starts it as a rank.
const (
	rankVar    = "PINION_NCCL_RANK"
	sizeVar    = "PINION_NCCL_SIZE"
	folderVar  = "PINION_NCCL_FOLDER" // where ranks leave messages
	programVar = "PINION_NCCL_PROGRAM"
)

var programs = map[string]func(parallel.Comm) error{
	"conformance": func(c parallel.Comm) error {
		for _, k := range conformance.Cases {
			if err := k.Run(c); err != nil {
				return err
			}
		}
		return c.Close()
	},
	// All ranks but the first leave without a word.
	"left": func(c parallel.Comm) error {
		if err := c.Barrier(ctx); err != nil {
			return err
		}
		if c.Rank() > 0 {
			os.Exit(0)
		}
		limited, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		err := c.Barrier(limited)
		if err == nil {
			return errors.New("a barrier without the others ended well")
		}
		fmt.Println("rank 0:", err)
		return c.Close()
	},
}

// runProgram is this process as a rank.
func runProgram() int {
	err := func() error {
		rank, err := strconv.Atoi(os.Getenv(rankVar))
		if err != nil {
			return err
		}
		size, err := strconv.Atoi(os.Getenv(sizeVar))
		if err != nil {
			return err
		}
		dev, err := device.Open(fmt.Sprintf("cuda:%d", rank))
		if err != nil {
			return err
		}
		c, err := Open(ctx, dev, rank, size, func(_ context.Context, mine []byte) ([][]byte, error) { return byFiles(rank, size, mine) })
		if err != nil {
			return err
		}
		if err := programs[os.Getenv(programVar)](c); err != nil {
			return err
		}
		return dev.Close()
	}()
	if err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

// byFiles exchanges messages in a folder.
func byFiles(rank, size int, mine []byte) (all [][]byte, err error) {
	name := func(rank int) string { return filepath.Join(os.Getenv(folderVar), strconv.Itoa(rank)) }
	if err := errors.Join(os.WriteFile(name(rank)+".new", mine, 0o600), os.Rename(name(rank)+".new", name(rank))); err != nil {
		return nil, err
	}
	for other := range size {
		for {
			b, err := os.ReadFile(name(other))
			if err == nil {
				all = append(all, b)
				break
			}
			time.Sleep(time.Millisecond)
		}
	}
	return all, nil
}

// TestProcesses has a process for each GPU. The stand-in connects threads alone.
func TestProcesses(t *testing.T) {
	size := len(openDevices(t, 0))
	if standIns.File != "" {
		size = 1
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for program := range programs {
		if program == "left" && size == 1 {
			continue
		}
		t.Run(program, func(t *testing.T) {
			folder := t.TempDir()
			var all errgroup.Group
			for rank := range size {
				all.Go(func() error {
					limited, cancel := context.WithTimeout(ctx, 5*time.Minute)
					defer cancel()
					cmd := exec.CommandContext(limited, self)
					cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", rankVar, rank), fmt.Sprintf("%s=%d", sizeVar, size),
						folderVar+"="+folder, programVar+"="+program)
					out, err := cmd.CombinedOutput()
					t.Logf("rank %d: %s", rank, strings.TrimSpace(string(out)))
					if err != nil {
						return fmt.Errorf("rank %d of %d: %w", rank, size, err)
					}
					return nil
				})
			}
			if err := all.Wait(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

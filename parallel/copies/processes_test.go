package copies_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/pinion-gpu/pinion/device"
	_ "github.com/pinion-gpu/pinion/device/all"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/parallel"
	"github.com/pinion-gpu/pinion/parallel/auto"
	"github.com/pinion-gpu/pinion/parallel/copies"
)

// programVar names what a process of this binary does as a rank.
const programVar = "PINION_COPIES_PROGRAM"

func TestMain(m *testing.M) {
	program := os.Getenv(programVar)
	if program == "" {
		os.Exit(m.Run())
	}
	if err := runProgram(program); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

// runProgram is this process as a rank with a GPU.
func runProgram(program string) (err error) {
	copies.Small(1, 1<<20)
	dev, err := device.Open("cuda:" + os.Getenv("PINION_RANK"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	ranks, err := auto.Open(context.Background(), dev, auto.Options{})
	if err != nil {
		return err
	}
	if _, ok := ranks.Comm.(interface{ Unwrap() parallel.Comm }); !ok {
		return errors.Join(errors.New("nothing goes by copies"), ranks.Close())
	}
	if err := programs[program](ranks.Comm); err != nil {
		return err
	}
	return ranks.Close()
}

// TestProcesses has two processes, each with a GPU.
func TestProcesses(t *testing.T) {
	if !strings.HasPrefix(os.Getenv("PINION_DEVICE"), "cuda") {
		t.Skip("no GPU")
	}
	for i := range 2 {
		dev, err := device.Open(fmt.Sprintf("cuda:%d", i))
		if err != nil {
			t.Skip(err)
		}
		testkit.OK(t, dev.Close())
	}
	self := testkit.Must(os.Executable())(t)
	for name := range programs {
		t.Run(name, func(t *testing.T) {
			l := testkit.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
			master := l.Addr().String()
			testkit.OK(t, l.Close())
			var all errgroup.Group
			for rank := range 2 {
				all.Go(func() error {
					limited, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
					defer cancel()
					cmd := exec.CommandContext(limited, self)
					cmd.Env = append(os.Environ(), programVar+"="+name, fmt.Sprintf("PINION_RANK=%d", rank), "PINION_WORLD_SIZE=2", "PINION_MASTER="+master)
					out, err := cmd.CombinedOutput()
					if err != nil {
						return fmt.Errorf("rank %d: %w: %s", rank, err, out)
					}
					return nil
				})
			}
			testkit.OK(t, all.Wait())
		})
	}
}

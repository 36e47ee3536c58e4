//go:build unix

package local_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"github.com/pinion-gpu/pinion/monitor/local"
)

// A program that shows itself, and looks at itself as pinion top does.
func Example() {
	dir, err := os.MkdirTemp("/tmp", "pinion")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	os.Setenv("PINION_TOP", dir) // not where the other programs of this machine are
	defer os.Unsetenv("PINION_TOP")

	ctx := context.Background()
	stop, err := local.Offer(ctx, local.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer stop()

	list, err := local.Processes()
	if err != nil {
		log.Fatal(err)
	}
	for _, p := range list {
		s, err := p.Snapshot(ctx)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(s.PID == os.Getpid(), len(s.VRAM), "devices with pools")
	}
	// Output: true 0 devices with pools
}

package control_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"

	"github.com/pinion-gpu/pinion/parallel/control"
	"github.com/pinion-gpu/pinion/parallel/launch"
)

// Three ranks, here of one process, meet and agree; then one runs out of memory.
func Example() {
	ctx := context.Background()
	listener, err := control.Listen(ctx)
	if err != nil {
		log.Fatal(err)
	}
	var ranks sync.WaitGroup
	for rank := range 3 {
		o := control.Options{Name: fmt.Sprintf("host %c", 'a'+rank)}
		o.World = launch.World{Rank: rank, Size: 3, Master: listener.Addr(), Job: "example"}
		if rank == 0 {
			o.Listener = listener
		}
		ranks.Go(func() {
			run, err := control.Join(ctx, o)
			if err != nil {
				log.Fatal(err)
			}
			defer run.Close()
			names, err := run.Exchange(ctx, "names", []byte(o.Name))
			if err != nil {
				log.Fatal(err)
			}
			if rank == 2 {
				run.Fail(errors.New("out of memory"))
			}
			<-run.Done()
			if rank == 0 {
				fmt.Printf("%s\n%v\n", names, run.Err())
			}
		})
	}
	ranks.Wait()
	// Output:
	// [host a host b host c]
	// rank 2 (host c): out of memory
}

// Package nccl has communicators of GPUs by NVIDIA's library NCCL, which is loaded at run
// time, from PyTorch's wheels too. PINION_LIB_NCCL chooses another file, or "off". Versions
// from 2.23 on serve, the same on all ranks, each of which has a GPU of its own.
//
// Ranks are processes that can tell each other a few bytes, such as by package control:
//
//	group, err := control.Join(ctx, control.Options{World: world})
//	exchange := func(ctx context.Context, mine []byte) ([][]byte, error) {
//		return group.Exchange(ctx, "NCCL", mine)
//	}
//	comm, err := nccl.Open(ctx, dev, world.Rank, world.Size, exchange)
//	defer comm.Close()
//	err = comm.AllReduce(stream, dtype.BF16, parallel.Avg, parallel.Part{Recv: p, Send: p, N: n})
//
// or goroutines of one process, by [Local]. Those are given their devices, and nothing is
// closed of a device before all of them have closed their communicators.
//
// Operations take a launch each, however many parts they have. Those of a communicator run
// in the order of the calls, whatever streams they name: NCCL makes each wait for the one
// before. They can be captured in graphs ([device.Capturer]): all ranks capture the same
// and launch the same. NCCL keeps a communicator until the graphs with its operations are
// closed, so Close waits for that: close them before. Where ranks of one process were aborted,
// close the graphs of all of them before any device.
//
// A communicator is two of NCCL's. One blocks: it queues operations without the thread that
// NCCL otherwise makes for each. The other does not, and all that waits for ranks by its
// nature is done there: Open and Split can be given up at any time.
//
// # When ranks fail
//
// NCCL connects ranks when it needs to: the first operation of a kind returns when all
// ranks have called it. What waits so, or on the GPU, is ended by Abort. Every rank has to
// abort: NCCL may not see that a rank is gone, above all one of the same host. The streams
// then go on, and have no error: what the operations were to write is undefined. Calls for
// the communicator fail from then on, with the reason. A failure of NCCL aborts the
// communicator, too. A device must not be closed while a call waits.
//
// NCCL reads many environment variables, of which NCCL_DEBUG=INFO tells what it does.
package nccl

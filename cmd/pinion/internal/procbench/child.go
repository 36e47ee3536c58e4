package procbench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/pagemem"
	"github.com/pinion-gpu/pinion/pinned"
	"github.com/pinion-gpu/pinion/pinned/segment"
	"github.com/pinion-gpu/pinion/transfer"
)

// socketDescriptor is where a process finds its end of the socket.
const socketDescriptor = 3

// Child is what a process started by [Run] does until its parent lets it go. It
// takes over standard input: when that ends, the parent has died, and this process
// exits at once. It fails in a process that Run has not started.
func Child(ctx context.Context) error {
	f := os.NewFile(socketDescriptor, "socket")
	conn, err := net.FileConn(f)
	if err != nil {
		return errors.New("only pinion itself starts this command, to measure a process of its own")
	}
	f.Close()
	socket, ok := conn.(*net.UnixConn)
	if !ok {
		return fmt.Errorf("descriptor %d is a %s connection, not a Unix socket", socketDescriptor, conn.LocalAddr().Network())
	}
	go func() {
		io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
	defer context.AfterFunc(ctx, func() { socket.Close() })()
	c := &child{ctx: ctx, conn: socket, host: map[memory][]byte{}}
	return errors.Join(c.serve(), c.close())
}

// child is the state of a process that is measured.
type child struct {
	ctx    context.Context
	conn   *net.UnixConn
	dev    device.Device
	seed   uint64
	host   map[memory][]byte // each holds the bytes of seed
	size   int64             // of each of them, and of the device memory
	ptr    device.Ptr        // 0: not there yet
	stream device.Stream
	engine *transfer.Engine // stages everything
	rings  *pinned.Pool     // of engine
	undo   []func() error
}

// serve answers requests until the parent closes the connection.
func (c *child) serve() error {
	for {
		var req request
		if err := readFrame(c.conn, &req); err != nil {
			if err == io.EOF {
				return nil
			}
			return fmt.Errorf("reading a request: %w", err)
		}
		rep, err := c.do(req)
		if err != nil {
			rep = failure(err)
		}
		if err := writeFrame(c.conn, rep); err != nil {
			return fmt.Errorf("answering: %w", err)
		}
	}
}

func (c *child) close() error {
	var errs []error
	if c.dev != nil {
		errs = append(errs, c.dev.Synchronize())
	}
	for _, undo := range slices.Backward(c.undo) {
		errs = append(errs, undo())
	}
	return errors.Join(append(errs, c.conn.Close())...)
}

// later registers what close undoes, last first.
func (c *child) later(undo func() error) { c.undo = append(c.undo, undo) }

func (c *child) do(req request) (reply, error) {
	if req.Op == opOpen {
		start := time.Now()
		dev, err := device.Open(req.Device)
		if err != nil {
			return reply{}, err
		}
		c.dev = dev
		c.later(dev.Close)
		return reply{Took: time.Since(start)}, nil
	}
	if c.dev == nil {
		return reply{}, fmt.Errorf("%s before the device is open", req.Op)
	}
	if req.Op == opTake {
		return c.take(req)
	}
	host := c.host[req.Memory]
	if host == nil {
		return reply{}, fmt.Errorf("%s of %q memory, which was not taken", req.Op, req.Memory)
	}
	way := way{host, req.Staged, req.ToHost}
	switch req.Op {
	case opFirst:
		return c.first(way)
	case opCheck:
		return reply{}, c.check(way)
	case opCopy:
		return c.timed(way, req.Together)
	}
	return reply{}, fmt.Errorf("no operation %q", req.Op)
}

// take makes memory of one kind, filled with the bytes of the seed.
func (c *child) take(req request) (rep reply, err error) {
	c.size, c.seed = req.Size, req.Seed
	var mem []byte
	switch req.Memory {
	case pageable: // ordinary Go memory, which is what callers have
		mem = make([]byte, req.Size)
		fill(mem, req.Seed)
	case private:
		mem, rep.Took, err = c.pin(req.Size)
		if err == nil {
			fill(mem, req.Seed)
		}
	case serialised:
		start := time.Now()
		mem = make([]byte, req.Size)
		_, err = io.ReadFull(c.conn, mem)
		rep.Took = time.Since(start)
	case shared:
		mem, rep, err = c.receive(req)
	default:
		err = fmt.Errorf("no memory of kind %q", req.Memory)
	}
	if err != nil {
		return reply{}, err
	}
	if err := newPattern(req.Seed).next(mem); err != nil {
		return reply{}, fmt.Errorf("before any copy: %w", err)
	}
	c.host[req.Memory] = mem
	return rep, nil
}

// pin makes pinned memory of this process's own.
func (c *child) pin(n int64) (mem []byte, took time.Duration, err error) {
	start := time.Now()
	pool, err := pinned.NewPool(c.dev, pinned.Options{Budget: pagemem.RoundUp(n), SegmentBytes: pagemem.RoundUp(n)})
	if err != nil {
		return nil, 0, err
	}
	c.later(pool.Close)
	buffer, err := pool.Alloc(context.Background(), n)
	if err != nil {
		return nil, 0, err
	}
	took = time.Since(start)
	c.later(func() error { return buffer.Free() })
	return buffer.Bytes(), took, nil
}

// receive takes the segment that follows the request and pins it.
func (c *child) receive(req request) (mem []byte, rep reply, err error) {
	start := time.Now()
	segment, err := segment.Receive(c.conn)
	if err != nil {
		return nil, rep, err
	}
	rep.Map = time.Since(start)
	c.later(segment.Close)
	all := segment.Bytes()
	if req.Size < 0 || req.Offset < 0 || req.Offset > int64(len(all))-req.Size {
		return nil, rep, fmt.Errorf("%w: bytes %d to %d of a segment of %d", device.ErrArgument, req.Offset, req.Offset+req.Size, len(all))
	}
	start = time.Now()
	if err := segment.Pin(c.dev, 0); err != nil {
		return nil, rep, err
	}
	rep.Took = time.Since(start)
	return all[req.Offset:][:req.Size], rep, nil
}

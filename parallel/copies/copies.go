package copies

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/parallel"
)

// stagingBytes is how much memory others copy to, all of them together.
var stagingBytes int64 = 32 << 20

const (
	wordBytes = 64 // from a word to the next
	mostRanks = 16
	kinds     = 3                             // of words
	headBytes = kinds * mostRanks * wordBytes // the words, before the slots
	unit      = 16                            // bytes that shares are whole numbers of
)

// leastBytes is how large an operation is that goes by copies. Below it, the waits for others
// take longer than the copies.
var leastBytes int64 = 1 << 20

// A rank has a word of each kind for each other one, which that one sets.
const (
	arrived = iota // its values are in the slot that it has here
	ready          // its result can be copied from it
	done           // it is through with the operation: its slots, and what it was sent, can be written
)

// comm is a communicator whose large sums, shares and gathers go by copies. Each rank has a
// region of memory that the others reach: words, a slot for what each of them sends, and one for
// its own results.
type comm struct {
	parallel.Comm
	dev    device.Device
	share  device.Sharer
	ranges device.RangeChecker
	graphs device.Capturer // or nil
	sums   *sums

	regions   []device.Ptr // by rank: its own, and where those of the others are reached
	slotBytes int64

	mu    sync.Mutex    // held while an operation is queued
	last  device.Stream // of the newest operation that went by copies and was not captured, or nil
	after device.Event  // recorded behind that

	aborting sync.Once
	cause    error         // of the abort
	aborted  chan struct{} // closed with it
	stop     chan struct{} // ends release
	released chan struct{} // closed when it has ended
	closing  sync.Once
	closed   error // what Close returns
}

// Open returns a communicator of the same ranks that has c, and closes it: large operations go by
// copies. All ranks call it. It fails on all of them with [device.ErrNotSupported] where they
// cannot copy into each other's memory: c is as it was then. To end what waits for ranks in the
// meantime, abort c.
func Open(c parallel.Comm) (parallel.Comm, error) {
	if c.Size() == 1 {
		return nil, fmt.Errorf("copies: %w: one rank has nobody to copy to", device.ErrNotSupported)
	}
	m := &comm{Comm: c, dev: c.Device(), aborted: make(chan struct{}), stop: make(chan struct{}), released: make(chan struct{})}
	name, err := m.prepare()
	mine := member{Host: machine(), Process: os.Getpid(), Name: base64.StdEncoding.EncodeToString(name)}
	if err != nil {
		mine.Problem = err.Error()
	}
	text, _ := json.Marshal(mine) // of texts
	texts, err := parallel.Texts(c, string(text))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("copies: %w", err), m.free())
	}
	err = m.meet(texts)
	if failed := parallel.FirstError(c, err); failed != nil {
		err = fmt.Errorf("copies: %w: %w", device.ErrNotSupported, failed)
		if freed := m.free(); freed != nil {
			return nil, errors.Join(err, freed)
		}
		return nil, err
	}
	return m, nil
}

// member is what a rank tells the others.
type member struct {
	Problem string // why it cannot; "" if it can
	Host    string
	Process int
	Name    string // of its region, base64
}

// machine is what no other one has.
func machine() string {
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id") // a host without has its name
	name, _ := os.Hostname()
	return strings.TrimSpace(string(boot)) + " " + name
}

// prepare makes what a rank has, and names its region.
func (c *comm) prepare() (name []byte, err error) {
	if c.Size() > mostRanks {
		return nil, fmt.Errorf("%d ranks, more than %d", c.Size(), mostRanks)
	}
	var ok bool
	if c.share, ok = device.As[device.Sharer](c.dev); !ok || !c.share.CanShare() {
		return nil, fmt.Errorf("%s does not share its memory", c.dev.Info().ID)
	}
	if c.ranges, ok = device.As[device.RangeChecker](c.dev); !ok {
		return nil, fmt.Errorf("%s does not tell its memory from other memory", c.dev.Info().ID)
	}
	c.graphs, _ = device.As[device.Capturer](c.dev)
	if c.sums, err = loadSums(c.dev); err != nil {
		return nil, err
	}
	c.slotBytes = stagingBytes / int64(c.Size()) / unit * unit
	c.regions = make([]device.Ptr, c.Size())
	own := &c.regions[c.Rank()]
	if *own, err = c.dev.Alloc(headBytes + int64(c.Size()+1)*c.slotBytes); err != nil {
		return nil, err
	}
	if c.after, err = c.dev.NewEvent(device.EventNoTiming); err != nil {
		return nil, err
	}
	s, err := c.dev.NewStream()
	if err != nil {
		return nil, err
	}
	err = s.Memset(*own, 0, headBytes)
	if err == nil {
		err = s.Memset(c.word(c.Rank(), done, 0), 1, mostRanks*wordBytes) // nobody is at anything
	}
	if err = errors.Join(err, s.Close()); err != nil {
		return nil, err
	}
	return c.share.Share(*own)
}

// meet reaches the regions of the others.
func (c *comm) meet(texts []string) error {
	members := make([]member, len(texts))
	for i, text := range texts {
		if err := json.Unmarshal([]byte(text), &members[i]); err != nil {
			return fmt.Errorf("what rank %d says: %w", i, err)
		}
	}
	for i, m := range members { // all ranks come to the same
		if m.Problem != "" {
			return fmt.Errorf("rank %d: %s", i, m.Problem)
		}
		if m.Host != members[0].Host {
			return fmt.Errorf("ranks 0 and %d are on different hosts", i)
		}
		if i > 0 && c.sums != nil && c.sums.caller == nil && m.Process == members[0].Process {
			return fmt.Errorf("ranks 0 and %d are one process: GPUs that reach each other there wait for one another when memory is freed", i)
		}
	}
	for i, m := range members {
		if i == c.Rank() {
			continue
		}
		name, err := base64.StdEncoding.DecodeString(m.Name)
		if err == nil {
			c.regions[i], err = c.share.Reach(name)
		}
		if err != nil {
			return fmt.Errorf("the memory of rank %d: %w", i, err)
		}
	}
	return nil
}

// free gives everything back but the communicator that c is made of.
func (c *comm) free() error {
	err := c.unreach()
	if c.after != nil {
		err = errors.Join(err, c.after.Close())
	}
	if c.regions != nil && c.regions[c.Rank()] != 0 {
		err = errors.Join(err, c.dev.Free(c.regions[c.Rank()]))
	}
	if c.sums != nil {
		err = errors.Join(err, c.sums.Close())
	}
	return err
}

// unreach lets go of the others' regions.
func (c *comm) unreach() (err error) {
	for i := range c.regions {
		if i != c.Rank() && c.regions[i] != 0 {
			err = errors.Join(err, c.share.Unreach(c.regions[i]))
			c.regions[i] = 0
		}
	}
	return err
}

// word is that of a kind, in the region of a rank, which another one sets.
func (c *comm) word(region, kind, by int) device.Ptr {
	return c.regions[region].Add(int64(kind*mostRanks+by) * wordBytes)
}

// slot is where a rank has what another one sent; the last one has its own results.
func (c *comm) slot(region, of int) device.Ptr {
	return c.regions[region].Add(headBytes + int64(of)*c.slotBytes)
}

func (c *comm) result(region int) device.Ptr { return c.slot(region, c.Size()) }

// Unwrap returns the communicator that does everything that does not go by copies.
func (c *comm) Unwrap() parallel.Comm { return c.Comm }

// Beside is for [parallel.Beside].
func (c *comm) Beside(ctx context.Context) (parallel.Comm, error) {
	b, err := parallel.Beside(ctx, c.Comm)
	if b == c.Comm {
		b = c
	}
	return b, err
}

// Barrier implements [parallel.Comm].
func (c *comm) Barrier(ctx context.Context) error {
	c.mu.Lock()
	waits := c.last != nil
	c.mu.Unlock()
	if waits && ctx.Err() == nil {
		if err := device.Wait(ctx, c.after); err != nil && ctx.Err() == nil && c.aborts() == nil {
			return fmt.Errorf("copies: barrier: %w", err)
		}
		if err := ctx.Err(); err != nil { // nobody knows which ranks have come
			c.Abort(fmt.Errorf("barrier: %w", context.Cause(ctx)))
		}
	}
	return c.Comm.Barrier(ctx)
}

// Abort implements [parallel.Comm].
func (c *comm) Abort(reason error) {
	c.Comm.Abort(reason)
	c.aborting.Do(func() {
		c.cause = fmt.Errorf("copies: %w: %w", parallel.ErrAborted, reason)
		close(c.aborted)
		go c.release()
	})
}

// aborts is why the communicator was aborted, or nil.
func (c *comm) aborts() error {
	select {
	case <-c.aborted:
		return c.cause
	default:
		return nil
	}
}

// releaseEvery is how long streams of an aborted communicator wait for a word at most.
const releaseEvery = time.Millisecond

// release sets all words of this rank again and again, so that no stream waits for another rank
// any more: what was queued ends, and so does a graph that somebody still launches. It goes
// round in several streams, since one may share a queue of the device with a stream that waits.
func (c *comm) release() {
	defer close(c.released)
	var streams []device.Stream
	defer func() {
		for _, s := range streams {
			_ = s.Close()
		}
	}()
	const most = 16
	for i := 0; ; i++ {
		if len(streams) < most {
			if s, err := c.dev.NewStream(); err == nil {
				streams = append(streams, s)
			}
		}
		if len(streams) > 0 {
			s := streams[i%len(streams)]
			for kind := range kinds {
				for by := range c.Size() {
					_ = c.share.Signal(s, c.word(c.Rank(), kind, by)) // of a device that is closed, there is nothing left to end
				}
			}
		}
		select {
		case <-c.stop:
			return
		case <-time.After(releaseEvery):
		}
	}
}

// patience is how long Close waits for the device to be through with what was aborted.
const patience = 10 * time.Second

// Close implements [parallel.Comm].
func (c *comm) Close() error {
	c.closing.Do(func() { c.closed = c.close() })
	return c.closed
}

func (c *comm) close() error {
	err := c.leave()
	if c.aborts() == nil { // nobody copies to anybody any more
		return errors.Join(err, c.free(), c.Comm.Close())
	}
	// Others may still copy to this rank's region, which stays until the device is closed.
	idle := make(chan error, 1)
	go func() { idle <- c.dev.Synchronize() }()
	select {
	case <-idle:
		_ = c.unreach()
		_ = c.after.Close()
		_ = c.sums.Close()
	case <-time.After(patience):
	}
	close(c.stop)
	<-c.released
	return c.Comm.Close()
}

// leave waits until all ranks are through, and then until none reaches another's memory.
func (c *comm) leave() error {
	background := context.Background()
	err := c.Barrier(background)
	if err == nil {
		err = c.dev.Synchronize() // what graphs did, too
	}
	if err == nil {
		err = c.Comm.Barrier(background)
	}
	if err == nil {
		err = c.unreach()
	}
	if err == nil {
		err = c.Comm.Barrier(background)
	}
	if err != nil {
		c.Abort(err)
		if errors.Is(err, parallel.ErrAborted) {
			return nil
		}
	}
	return err
}

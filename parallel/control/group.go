package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pinion-gpu/pinion/internal/errs"
	"github.com/pinion-gpu/pinion/internal/provenance"
	"github.com/pinion-gpu/pinion/parallel/launch"
)

// Options say which rank joins, and how long it waits.
type Options struct {
	// World is this rank. Master is not needed by rank 0 if it has a Listener, nor
	// where Size is 1.
	World launch.World
	// Timeout is how long Join waits for all ranks. 0: 5 minutes.
	Timeout time.Duration
	// Lost is after how long without a sign of life a rank counts as lost. Signs are
	// given eight times as often. It is the same on all ranks. 0: 10 seconds.
	Lost time.Duration
	// Name is what errors call this rank, beside its rank. "": host and process.
	Name string
	// Listener is where rank 0 is met, if that is not World.Master. Join takes it over,
	// also if it fails.
	Listener *Listener

	version string // of Pinion, in tests
}

// Group is the ranks of a run, as one of them sees it. Its methods may be called by
// several goroutines. Close ends it.
type Group struct {
	world    launch.World
	name     string
	lost     time.Duration
	listener net.Listener // nil, but on rank 0
	hub      *hub         // nil, but on rank 0
	up       *link        // to rank 0; nil there
	headName string       // of rank 0

	at   atomic.Pointer[progress]
	turn chan struct{} // held by the exchange that goes on

	life    context.Context // ends all goroutines
	end     context.CancelFunc
	working sync.WaitGroup // those that end with life
	links   sync.WaitGroup // readers and writers, which end with their connections

	mu       sync.Mutex
	done     chan struct{}
	err      *RankError // why the run has failed
	closed   bool
	gone     *RankError // a rank that left
	headLeft bool       // rank 0 has
	broken   error      // why there can be no other exchange
	current  *exchange
	number   int64 // of the newest exchange
	waiting  string
	behind   string
}

// Join meets the other ranks: rank 0 listens at World.Master, or one of the 15 ports
// after it, and the others connect to it. It returns when all are there. It fails on
// all ranks if one does not fit, or ends, with a [RankError] that names it; with
// [ErrTimeout] if not all come; and with ctx's error. ctx is for Join alone.
func Join(ctx context.Context, o Options) (*Group, error) {
	g, err := newGroup(o)
	if err != nil {
		return nil, fmt.Errorf("control: %w", err)
	}
	timeout := cmp.Or(max(o.Timeout, 0), 5*time.Minute)
	limited, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	w := g.world
	own := greeting{
		Protocol: protocol, Version: cmp.Or(o.version, builtVersion()), Job: w.Job,
		Size: w.Size, Rank: w.Rank, Restart: w.Restart, Lost: g.lost, Name: g.name,
	}
	if w.Rank == 0 {
		err = g.lead(limited, own)
	} else {
		err = g.follow(limited, own)
	}
	if err == nil {
		g.Progress(0, "")
		g.working.Go(g.beat)
		_, err = g.exchange(limited, "join", nil)
	}
	if err == nil {
		return g, nil
	}
	if of := (*RankError)(nil); errors.As(err, &of) {
		if g.hub != nil {
			g.hub.linger(limited)
		}
	} else {
		if limited.Err() != nil {
			err = g.tooLate(ctx, timeout, err)
		}
		g.Fail(fmt.Errorf("it cannot join: %w", err))
	}
	_ = g.Close()
	return nil, fmt.Errorf("control: rank %d cannot join: %w", g.world.Rank, err)
}

// tooLate says why this rank waits no more for the others.
func (g *Group) tooLate(ctx context.Context, timeout time.Duration, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if waiting := g.awaited(); waiting != "" {
		err = errors.New(waiting)
	}
	return fmt.Errorf("%w within %v: %w", ErrTimeout, timeout, err)
}

func newGroup(o Options) (*Group, error) {
	w := o.World
	g := &Group{world: w, name: o.Name, lost: cmp.Or(max(o.Lost, 0), 10*time.Second), turn: make(chan struct{}, 1), done: make(chan struct{})}
	if o.Listener != nil {
		g.listener = o.Listener.listener
	}
	switch {
	case w.Size < 1 || w.Rank < 0 || w.Rank >= w.Size:
		return nil, errors.Join(fmt.Errorf("%w: rank %d of %d", ErrArgument, w.Rank, w.Size), g.unlisten())
	case len(o.Name) > maxName || len(w.Job) > maxName:
		return nil, errors.Join(fmt.Errorf("%w: a name of %d bytes and a job of %d, at most %d", ErrArgument, len(o.Name), len(w.Job), maxName), g.unlisten())
	case g.listener != nil && w.Rank != 0:
		return nil, errors.Join(fmt.Errorf("%w: rank %d has a Listener, which is for rank 0", ErrArgument, w.Rank), g.unlisten())
	case w.Master == "" && w.Size > 1 && g.listener == nil:
		return nil, fmt.Errorf("%w: World.Master does not say where rank 0 is met", ErrArgument)
	}
	if g.name == "" {
		host, err := os.Hostname()
		if err != nil {
			host = "?"
		}
		g.name = fmt.Sprintf("host %s, pid %d", host, os.Getpid())
	}
	g.life, g.end = context.WithCancel(context.Background())
	return g, nil
}

func (g *Group) unlisten() error {
	if g.listener == nil {
		return nil
	}
	return g.listener.Close()
}

// builtVersion is that of this program: ranks run the same one.
func builtVersion() string {
	r := provenance.Now()
	return fmt.Sprintf("%s (commit %s)", r.Version, r.Commit)
}

// lead makes rank 0 ready for the others.
func (g *Group) lead(ctx context.Context, own greeting) (err error) {
	g.hub = newHub(g, own)
	if g.listener == nil && g.world.Size > 1 {
		if g.listener, err = listenAt(ctx, g.world); err != nil {
			return err
		}
	}
	if g.listener != nil {
		g.working.Go(g.accept)
	}
	return nil
}

// accept lets ranks in, until life ends.
func (g *Group) accept() {
	slots := make(chan struct{}, 2*g.world.Size+64) // for handshakes; others come again
	for g.life.Err() == nil {
		conn, err := g.listener.Accept()
		if err != nil { // closed, or out of files
			select {
			case <-g.life.Done():
			case <-time.After(50 * time.Millisecond):
			}
			continue
		}
		select {
		case slots <- struct{}{}:
			g.working.Go(func() {
				defer func() { <-slots }()
				if r, l := g.hub.answer(g.life, conn); l != nil {
					g.run(l, func(m message) error { return g.hub.receive(r, m) }, func(err error) { g.hub.ended(r, err) })
				}
			})
		default:
			_ = conn.Close()
		}
	}
}

// follow finds rank 0.
func (g *Group) follow(ctx context.Context, own greeting) error {
	l, head, err := find(ctx, g.world, own)
	if err != nil {
		return err
	}
	g.up, g.headName = l, head.Name
	g.run(l, g.receive, g.headEnded)
	return nil
}

// run reads and writes on a link until it ends.
func (g *Group) run(l *link, receive func(message) error, ended func(error)) {
	g.links.Go(l.write)
	g.links.Go(func() {
		ended(l.read(receive))
		l.stop()
	})
}

// headEnded notes the end of the connection to rank 0.
func (g *Group) headEnded(err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.headLeft {
		g.fail(&RankError{Rank: 0, Name: g.headName, Reason: endText(err)})
	}
}

// beat gives signs of life, and looks for those of others, until life ends.
func (g *Group) beat() {
	ticker := time.NewTicker(max(g.lost/beats, time.Millisecond))
	defer ticker.Stop()
	for {
		select {
		case <-g.life.Done():
			return
		case <-ticker.C:
		}
		at := *g.at.Load()
		switch {
		case g.hub != nil:
			g.hub.beat(at)
		case g.up.silent.Add(1) > beats:
			g.mu.Lock()
			if !g.headLeft {
				g.fail(&RankError{Rank: 0, Name: g.headName, Reason: silentText(g.lost)})
			}
			g.mu.Unlock()
			g.up.stop()
		default:
			g.up.beat(message{kind: beat, number: at.n, what: at.what})
		}
	}
}

// receive takes what rank 0 sent.
func (g *Group) receive(m message) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch m.kind {
	case beat:
		g.waiting, g.behind = m.what, string(m.data)
	case part:
		return g.collect(m)
	case leaving:
		g.left(m)
	case failed:
		g.fail(&RankError{Rank: m.rank, Name: m.what, Reason: string(m.data)})
	default:
		return fmt.Errorf("%w: a message of kind %d", errs.ErrFormat, m.kind)
	}
	return nil
}

// fail ends the run as this rank sees it, with g.mu held. The first reason stays.
func (g *Group) fail(err *RankError) {
	if g.err == nil && !g.closed {
		g.err = err
		close(g.done)
	}
}

// Fail ends the run, because this rank cannot go on: all others learn its rank and the
// reason. It returns when they have been told, or after a second. Nothing happens if the
// run has ended before.
func (g *Group) Fail(err error) {
	m := message{kind: failed, rank: g.world.Rank, what: g.name, data: fmt.Append(nil, err)}
	g.mu.Lock()
	over := g.err != nil || g.closed
	if g.hub == nil { // rank 0 hears of it from its hub
		g.fail(&RankError{Rank: m.rank, Name: m.what, Reason: string(m.data)})
	}
	g.mu.Unlock()
	if over {
		return
	}
	g.tellHub(m)
	patience := time.After(time.Second)
	for _, l := range g.allLinks() {
		l.drain(patience)
	}
}

// Done is closed when the run has failed, on whichever rank, and by Close.
func (g *Group) Done() <-chan struct{} { return g.done }

// Err is a [RankError] that says why the run has failed, and nil while it has not.
func (g *Group) Err() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.err == nil {
		return nil
	}
	return g.err
}

// Close leaves the run, or frees what a failed one holds. A rank that leaves does not
// count as lost; exchanges that need it fail. Rank 0 waits for the others to leave, for
// at most Options.Lost: it fails if some stay, who then learn of no end any more, or if
// the run fails meanwhile.
func (g *Group) Close() error {
	g.mu.Lock()
	failed := g.err != nil
	if g.closed {
		g.mu.Unlock()
		return nil
	}
	g.closed = true
	if !failed {
		close(g.done)
	}
	g.mu.Unlock()

	var err error
	if g.hub != nil && !failed {
		err = g.hub.depart(g.life)
	}
	g.end()
	_ = g.unlisten()
	g.working.Wait()
	links := g.allLinks()
	for _, l := range links {
		if g.hub == nil && !failed {
			l.send(message{kind: leaving, rank: g.world.Rank, what: g.name})
		}
		l.finish()
	}
	over := make(chan struct{})
	go func() {
		g.links.Wait()
		close(over)
	}()
	select {
	case <-over: // what was sent has been read
	case <-time.After(time.Second):
	}
	for _, l := range links {
		l.stop()
	}
	<-over
	return err
}

func (g *Group) allLinks() []*link {
	switch {
	case g.hub != nil:
		return g.hub.links()
	case g.up != nil:
		return []*link{g.up}
	}
	return nil
}

// awaited is whom an exchange waits for.
func (g *Group) awaited() string {
	if g.hub != nil {
		g.hub.mu.Lock()
		defer g.hub.mu.Unlock()
		return g.hub.where()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.waiting
}

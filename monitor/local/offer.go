package local

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/pinion-gpu/pinion/internal/process"
)

// ErrOffered: this process offers its snapshot already.
var ErrOffered = errors.New("this process offers its snapshot already")

// Options say what a process offers.
type Options struct {
	// Handler serves the paths that this package does not. Writes end after ten
	// seconds, as those of a slow reader do, unless an http.ResponseController says
	// otherwise; the request's context ends with the offer, and stop waits for the
	// handler to return. nil: there are no others.
	Handler http.Handler
}

// How far readers may go.
const (
	maxConnections = 32
	maxHeader      = 8 << 10
	slowest        = 10 * time.Second // that a request or an answer may take
	idlest         = 30 * time.Second
)

// offered is held by the one offer of this process.
var offered = make(chan struct{}, 1)

// Offer shows the snapshot of this process to programs of its user, until ctx ends or
// stop is called, which returns when all is over; to call it again does nothing.
// Where PINION_TOP is off, Offer does nothing.
//
// It fails with [ErrOffered] the second time, with [ErrUnsafe] where the folder for
// the socket cannot be trusted, and with [errors.ErrUnsupported] on systems without
// owners of folders or start times of processes, such as Windows.
func Offer(ctx context.Context, o Options) (stop func(), err error) {
	list, err := places()
	if err != nil {
		return nil, fmt.Errorf("monitor: %w", err)
	}
	if list == nil {
		return func() {}, nil
	}
	id, err := process.Self()
	if err != nil {
		return nil, fmt.Errorf("monitor: %w", err)
	}
	select {
	case offered <- struct{}{}:
	default:
		return nil, fmt.Errorf("monitor: %w", ErrOffered)
	}
	l, path, err := listen(list, id)
	if err != nil {
		<-offered
		return nil, fmt.Errorf("monitor: %w", err)
	}

	requests, cancel := context.WithCancel(ctx)
	var serving sync.WaitGroup
	h := newHandler(o.Handler)
	server := &http.Server{
		Handler:           h,
		BaseContext:       func(net.Listener) context.Context { return requests },
		ReadHeaderTimeout: slowest,
		ReadTimeout:       slowest,
		WriteTimeout:      slowest,
		IdleTimeout:       idlest,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          log.New(io.Discard, "", 0),
	}
	serving.Go(func() { _ = server.Serve(&gate{UnixListener: l, most: maxConnections}) })
	end := sync.OnceFunc(func() {
		_ = os.Remove(path) // first, so that nobody comes to a closed door
		cancel()
		_ = server.Close()
		serving.Wait()
		h.close()
		<-offered
	})
	detach := context.AfterFunc(ctx, end)
	return func() {
		detach()
		end()
	}, nil
}

// listen makes the socket of a process in the first place that can be used, and
// removes those of dead processes there.
func listen(list []place, id process.ID) (*net.UnixListener, string, error) {
	var failed []error
	for _, p := range list {
		err := p.make()
		if err == nil {
			_, _ = search(p.folder)
			path := filepath.Join(p.folder, nameOf(id))
			var l *net.UnixListener
			if l, err = listenAt(path, filepath.Join(p.folder, draft+nameOf(id))); err == nil {
				return l, path, nil
			}
		}
		failed = append(failed, err)
	}
	return nil, "", reasons(failed)
}

// maxPath is the longest path of a socket, on Linux and elsewhere.
const maxPath = 103

// listenAt makes a socket beside its place, so that what is at path always listens.
func listenAt(path, draft string) (*net.UnixListener, error) {
	if len(draft) > maxPath {
		return nil, fmt.Errorf("%s is too long for a socket, which may have %d characters: set %s to a shorter folder", draft, maxPath, variable)
	}
	// Two runtimes of Go may be in one process, as in one of Python's.
	if _, err := os.Lstat(path); err == nil {
		return nil, fmt.Errorf("%w: %s is there", ErrOffered, path)
	}
	if err := os.Remove(draft); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: draft, Net: "unix"})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false) // it would remove the draft
	if err = os.Chmod(draft, 0o600); err == nil {
		err = os.Rename(draft, path)
	}
	if err != nil {
		return nil, errors.Join(err, l.Close(), os.Remove(draft))
	}
	return l, nil
}

// gate lets a limited number of connections in, of this user and of root.
type gate struct {
	*net.UnixListener
	most int

	mu   sync.Mutex
	open int
}

// Accept implements [net.Listener].
func (g *gate) Accept() (net.Conn, error) {
	for {
		c, err := g.AcceptUnix()
		if err != nil {
			return nil, err
		}
		if user, _, err := peer(c); err != nil || user != 0 && user != os.Geteuid() || !g.enter() {
			_ = c.Close()
			continue
		}
		return &visitor{UnixConn: c, leave: sync.OnceFunc(g.leave)}, nil
	}
}

func (g *gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open == g.most {
		return false
	}
	g.open++
	return true
}

func (g *gate) leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open--
}

// visitor is a connection that was let in.
type visitor struct {
	*net.UnixConn
	leave func()
}

func (v *visitor) Close() error {
	v.leave()
	return v.UnixConn.Close()
}

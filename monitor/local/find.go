package local

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/pinion-gpu/pinion/internal/errs"
	"github.com/pinion-gpu/pinion/monitor"
)

var (
	// ErrGone: the process ended, or offers its snapshot no more.
	ErrGone = errors.New("the process is gone")
	// ErrBusy: the process closed the connection, as it does while too many are open.
	ErrBusy = errors.New("the process serves others")
	// ErrNotOffered: the process does not offer its snapshot.
	ErrNotOffered = errors.New("no snapshot is offered")
	// ErrOff: PINION_TOP is off in this process, which looks for no others then.
	ErrOff = errors.New("switched off")
	// ErrVersion: the process speaks of things that this version does not know.
	ErrVersion = errors.New("the process runs a newer Pinion")
)

// Process is a process that offers its snapshot. It is a plain value, the same in
// every list.
type Process struct {
	PID int
	// Foreign: it is in another PID namespace, such as that of a container, so that
	// PID means nothing here, and whether it lives only a call tells.
	Foreign bool
	Path    string // of its socket
}

// Processes lists the processes of this user that offer their snapshots, by PID. It
// removes the sockets of those that ended. An error tells of folders that could not
// be searched; the processes of the others are listed all the same. It fails with
// [ErrOff] where PINION_TOP is off.
func Processes() ([]Process, error) {
	list, err := places()
	if err != nil {
		return nil, fmt.Errorf("monitor: %w", err)
	}
	if list == nil {
		return nil, fmt.Errorf("monitor: %w: %s is off here, so that no process is looked for: unset it", ErrOff, variable)
	}
	found := []Process{}
	var failed []error
	for _, p := range list {
		some, err := search(p.folder)
		found = append(found, some...)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			failed = append(failed, err)
		}
	}
	slices.SortFunc(found, func(a, b Process) int {
		return cmp.Or(cmp.Compare(a.PID, b.PID), strings.Compare(a.Path, b.Path))
	})
	if len(failed) > 0 {
		return found, fmt.Errorf("monitor: %w", reasons(failed))
	}
	return found, nil
}

// Find returns the process with a number. It fails with [ErrNotOffered] where none
// offers its snapshot.
func Find(pid int) (Process, error) {
	list, err := Processes()
	i := slices.IndexFunc(list, func(p Process) bool { return p.PID == pid && !p.Foreign })
	switch {
	case i >= 0:
		return list[i], nil
	case err != nil:
		return Process{}, fmt.Errorf("monitor: %w by process %d: %w", ErrNotOffered, pid, err)
	}
	return Process{}, fmt.Errorf("monitor: %w by process %d: it runs no Pinion, is another user's, or has %s=off", ErrNotOffered, pid, variable)
}

// search lists the processes with sockets in a folder, and removes the sockets of
// those that ended.
func search(folder string) ([]Process, error) {
	if err := check(folder); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(folder)
	var found []Process
	for _, e := range entries {
		path := filepath.Join(folder, e.Name())
		id, ok := parseName(e.Name())
		switch {
		case !ok:
		case !id.Alive():
			_ = os.Remove(path)
		case !strings.HasPrefix(e.Name(), draft):
			found = append(found, Process{PID: int(id.PID), Foreign: id.Foreign(), Path: path})
		}
	}
	return found, err
}

// Alive reports whether the process still runs; in doubt, that it does.
func (p Process) Alive() bool {
	id, ok := parseName(filepath.Base(p.Path))
	return ok && id.Alive()
}

// maxAnswer is the most bytes that a snapshot may have.
const maxAnswer = 16 << 20

// Snapshot asks the process for its snapshot. It fails with [ErrGone], [ErrBusy],
// [ErrVersion], or with ctx's error where the process does not answer in time, as one that is
// stopped or swapped out.
func (p Process) Snapshot(ctx context.Context) (s monitor.Snapshot, err error) {
	if err := p.get(ctx, &s); err != nil {
		return monitor.Snapshot{}, fmt.Errorf("monitor: process %d: %w", p.PID, err)
	}
	return s, nil
}

func (p Process) get(ctx context.Context, s *monitor.Snapshot) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://pinion"+snapshotPath, nil)
	if err != nil {
		return err
	}
	answer, err := p.Client().Do(request)
	if err != nil {
		var all *url.Error
		if errors.As(err, &all) {
			err = all.Err // the address in it is made up
		}
		return p.cut(err)
	}
	defer answer.Body.Close()
	if api, err := strconv.Atoi(answer.Header.Get(apiHeader)); err != nil || api > API {
		return fmt.Errorf("%w: its interface has number %q, this one knows %d: update this one",
			ErrVersion, answer.Header.Get(apiHeader), API)
	}
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("it answers %q", answer.Status)
	}
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer+1))
	if err != nil {
		return p.cut(err)
	}
	if len(text) > maxAnswer {
		return fmt.Errorf("%w: its snapshot has more than %d bytes", errs.ErrTooLarge, maxAnswer)
	}
	if err := json.Unmarshal(text, s); err != nil {
		return fmt.Errorf("its snapshot: %w: %w", errs.ErrFormat, err)
	}
	return nil
}

// cut says what an error means that is the end of a connection; others stay.
func (p Process) cut(err error) error {
	switch {
	case !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, syscall.ECONNRESET) && !errors.Is(err, syscall.EPIPE):
		return err
	case !p.Alive():
		return ErrGone
	}
	return fmt.Errorf("%w: it serves %d connections at a time: %w", ErrBusy, maxConnections, err)
}

// Client returns a client of HTTP whose requests go to the process, whatever host
// they name, each over a connection of its own.
func (p Process) Client() *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			DisableKeepAlives:      true,
			MaxResponseHeaderBytes: maxHeader,
			DialContext:            func(ctx context.Context, _, _ string) (net.Conn, error) { return p.dial(ctx) },
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// dial connects to the process, and checks who is at the other end.
func (p Process) dial(ctx context.Context) (net.Conn, error) {
	if !p.Alive() { // a child of it may have the socket open, and never answer
		return nil, ErrGone
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", p.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, ErrGone
	case errors.Is(err, syscall.ECONNREFUSED):
		if runtime.GOOS == "linux" { // elsewhere a busy process may refuse too
			_ = os.Remove(p.Path)
		}
		return nil, fmt.Errorf("%w: nobody listens", ErrGone)
	case err != nil:
		return nil, err
	}
	user, pid, err := peer(conn.(*net.UnixConn))
	if err == nil && (user != os.Geteuid() || pid != 0 && pid != p.PID && !p.Foreign) {
		err = fmt.Errorf("%w: process %d of user %d listens at %s", ErrUnsafe, pid, user, p.Path)
	}
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return &answering{Conn: conn}, nil
}

// answering is a connection that reports io.ErrUnexpectedEOF when it ends before the
// first byte: of io.EOF there, net/http makes an error that nothing can tell from others.
type answering struct {
	net.Conn
	begun bool
}

func (a *answering) Read(b []byte) (n int, err error) {
	n, err = a.Conn.Read(b)
	a.begun = a.begun || n > 0
	if err == io.EOF && !a.begun {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

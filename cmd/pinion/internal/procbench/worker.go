package procbench

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// worker is a process that measures, seen from its parent. One goroutine uses
// it at a time.
type worker struct {
	number  int // from 1
	seed    uint64
	timeout time.Duration
	cmd     *exec.Cmd
	conn    *net.UnixConn
	said    tail // on standard error
	wait    func() error
	failed  bool
}

// start starts process number i of the bench, from 0.
func (b *bench) start(i int) (*worker, error) {
	ours, theirs, err := socketPair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	b.seed++
	w := &worker{number: i + 1, seed: b.seed, timeout: b.o.Timeout, conn: ours}
	w.cmd = exec.CommandContext(b.ctx, b.exe, b.o.Args...)
	w.cmd.ExtraFiles = []*os.File{theirs} // socketDescriptor
	w.cmd.Stderr = &w.said
	w.cmd.WaitDelay = time.Second
	isolate(w.cmd)
	// It ends when this process does, however that ends.
	if _, err = w.cmd.StdinPipe(); err == nil {
		err = w.cmd.Start()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("process %d: %w", w.number, err), ours.Close())
	}
	w.wait = sync.OnceValue(w.cmd.Wait)
	return w, nil
}

// call sends a request, and what follows it if attach is set, and returns the
// answer. After an error that is not the process's own the process is gone.
func (w *worker) call(req request, attach func(*net.UnixConn) error) (rep reply, err error) {
	if w.failed {
		return rep, fmt.Errorf("process %d has ended", w.number)
	}
	err = w.conn.SetDeadline(time.Now().Add(w.timeout))
	if err == nil {
		err = writeFrame(w.conn, req)
	}
	if err == nil && attach != nil {
		err = attach(w.conn)
	}
	if err == nil {
		err = readFrame(w.conn, &rep)
	}
	if err != nil {
		return rep, w.gone(req.Op, err)
	}
	if err := rep.err(); err != nil {
		return rep, fmt.Errorf("process %d: %w", w.number, err)
	}
	return rep, nil
}

// gone ends a process that did not answer, and says why.
func (w *worker) gone(op string, err error) error {
	w.failed = true
	pid := w.cmd.Process.Pid
	var broken *net.OpError
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		w.cmd.Process.Kill()
		w.wait()
		err = fmt.Errorf("process %d (PID %d) did not answer %q within %v and was killed", w.number, pid, op, w.timeout)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.As(err, &broken):
		// It is ending by itself, most likely with a reason.
		defer time.AfterFunc(time.Second, func() { w.cmd.Process.Kill() }).Stop()
		if e := w.wait(); e != nil {
			err = e
		}
		err = fmt.Errorf("process %d (PID %d) ended when asked to %q: %w", w.number, pid, op, err)
	default:
		w.cmd.Process.Kill()
		w.wait()
		err = fmt.Errorf("process %d (PID %d) gave no answer to %q that makes sense: %w", w.number, pid, op, err)
	}
	return errors.Join(w.quote(err), w.conn.Close())
}

// end lets a process close what it has and exit, or kills it.
func (w *worker) end(orderly bool) error {
	if w.failed {
		return nil // and has been reported
	}
	w.failed = true
	err := w.conn.Close()
	if !orderly {
		w.cmd.Process.Kill()
		w.wait()
		return nil
	}
	defer time.AfterFunc(w.timeout, func() { w.cmd.Process.Kill() }).Stop()
	if e := w.wait(); e != nil {
		err = errors.Join(err, w.quote(fmt.Errorf("process %d (PID %d) did not close in order: %w", w.number, w.cmd.Process.Pid, e)))
	}
	return err
}

// quote adds what the process said. It has ended.
func (w *worker) quote(err error) error {
	if said := w.said.text(); said != "" {
		return fmt.Errorf("%w; its standard error ends in: %s", err, said)
	}
	return err
}

// tail keeps the last bytes that are written to it.
type tail struct{ last []byte }

const tailBytes = 2 << 10

func (t *tail) Write(b []byte) (int, error) {
	t.last = append(t.last, b...)
	if over := len(t.last) - tailBytes; over > 0 {
		t.last = bytes.Clone(t.last[over:])
	}
	return len(b), nil
}

// text is what was written, on one line.
func (t *tail) text() string {
	return strings.Join(strings.FieldsFunc(string(t.last), func(r rune) bool { return r == '\n' || r == '\r' }), " | ")
}

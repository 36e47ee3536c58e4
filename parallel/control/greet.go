package control

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/pinion-gpu/pinion/internal/errs"
)

// greeting is what both ends of a connection begin with. Rank 0 speaks first, so that
// nothing is sent to a port where another program listens.
type greeting struct {
	Protocol int
	Version  string // of Pinion
	Job      string
	Size     int
	Rank     int
	Restart  int
	Lost     time.Duration
	Name     string
}

// slowest is how long a handshake may take.
const slowest = 10 * time.Second

var (
	errForeign = errors.New("it is not rank 0 that answers")
	errLater   = errors.New("rank 0 is there, but")
)

func (g greeting) write(w io.Writer) error {
	data, err := json.Marshal(g)
	if err == nil {
		_, err = w.Write(message{kind: hello, data: data}.appendTo([]byte(magic)))
	}
	return err
}

func readGreeting(r io.Reader) (g greeting, err error) {
	begin := make([]byte, len(magic))
	if _, err := io.ReadFull(r, begin); err != nil || string(begin) != magic {
		return g, errForeign
	}
	m, err := readMessage(r, maxHello)
	if err == nil && m.kind != hello {
		err = fmt.Errorf("%w: a message of kind %d", errs.ErrFormat, m.kind)
	}
	if err == nil {
		err = json.Unmarshal(m.data, &g)
	}
	return g, err
}

// call connects to an address, and returns the link if rank 0 of this run is there and
// lets this rank in. A [RankError] is final; other errors are of this attempt.
func call(ctx context.Context, address string, limit time.Duration, own greeting) (*link, greeting, error) {
	dialer := net.Dialer{Timeout: limit}
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, greeting{}, err
	}
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	_ = conn.SetDeadline(time.Now().Add(limit))
	r := bufio.NewReader(conn)
	theirs, err := readGreeting(r)
	if err == nil && theirs.Job != own.Job {
		err = fmt.Errorf("rank 0 of another job is there: %q, this is %q", theirs.Job, own.Job)
	}
	if err == nil {
		_ = conn.SetDeadline(time.Now().Add(slowest))
		err = own.write(conn)
	}
	var answer message
	if err == nil {
		answer, err = readMessage(r, maxHello)
	}
	switch {
	case err != nil:
		err = fmt.Errorf("%s: %w", address, err)
	case answer.kind == welcome:
		return newLink(conn, r), theirs, conn.SetDeadline(time.Time{})
	case answer.kind == failed:
		err = &RankError{Rank: answer.rank, Name: answer.what, Reason: string(answer.data)}
	default:
		err = fmt.Errorf("%s: %w %s", address, errLater, answer.data)
	}
	_ = conn.Close()
	return nil, greeting{}, err
}

// answer is the other end of call: it lets a rank in, or tells it why not.
func (h *hub) answer(ctx context.Context, conn net.Conn) (int, *link) {
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	_ = conn.SetDeadline(time.Now().Add(slowest))
	r := bufio.NewReader(conn)
	var theirs greeting
	err := h.own.write(conn)
	if err == nil {
		theirs, err = readGreeting(r)
	}
	if err != nil {
		_ = conn.Close()
		return 0, nil
	}
	l := newLink(conn, r)
	refusal, in := h.admit(theirs, l)
	refusal.data = refusal.data[:min(len(refusal.data), maxHello)]
	if in {
		_ = conn.SetDeadline(time.Time{})
		return theirs.Rank, l
	}
	if _, err := conn.Write(refusal.appendTo(nil)); err == nil {
		_, _ = io.Copy(io.Discard, io.LimitReader(conn, maxHello)) // until the other has read it
	}
	_ = conn.Close()
	if theirs.Job == h.own.Job {
		h.mu.Lock()
		h.met++
		h.mu.Unlock()
	}
	return 0, nil
}

// admit checks a rank, and takes its link in or says what to answer. While ranks are
// still waited for, one that does not fit ends the run.
func (h *hub) admit(theirs greeting, l *link) (refusal message, in bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	own, r := h.own, theirs.Rank
	bad := &RankError{Rank: r, Name: theirs.Name}
	switch {
	case theirs.Job != own.Job:
		bad.Reason = fmt.Sprintf("belongs to job %q, rank 0 to %q", theirs.Job, own.Job)
	case theirs.Protocol != own.Protocol:
		bad.Reason = fmt.Sprintf("speaks protocol %d, %s speaks %d", theirs.Protocol, called(0, own.Name), own.Protocol)
	case theirs.Version != own.Version:
		bad.Reason = fmt.Sprintf("runs Pinion %s, %s runs %s", theirs.Version, called(0, own.Name), own.Version)
	case theirs.Size != own.Size:
		bad.Reason = fmt.Sprintf("counts %d ranks, %s counts %d", theirs.Size, called(0, own.Name), own.Size)
	case theirs.Lost != own.Lost:
		bad.Reason = fmt.Sprintf("has Options.Lost of %v, %s of %v", theirs.Lost, called(0, own.Name), own.Lost)
	case r < 0 || r >= h.size:
		bad.Reason = fmt.Sprintf("there are %d ranks", h.size)
	case h.peers[r].send != nil:
		bad.Reason = fmt.Sprintf("has come twice: %s came before", called(r, h.peers[r].name))
	case h.err == nil:
		l.send(message{kind: welcome})
		h.peers[r] = peer{name: theirs.Name, send: l.send, link: l}
		h.met++
		return message{}, true
	default:
		bad = h.err
	}
	if (h.joined || h.err != nil) && theirs.Restart > own.Restart {
		return message{kind: later, data: []byte("its run has not ended yet")}, false
	}
	if !h.joined && theirs.Job == own.Job {
		h.fail(bad)
	}
	return message{kind: failed, rank: bad.Rank, what: bad.Name, data: []byte(bad.Reason)}, false
}

package control

import (
	"bufio"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// link is a connection between rank 0 and another one, after the handshake. Its owner
// runs write and read, in a goroutine each, and ends both by stop.
type link struct {
	conn   net.Conn
	reader *bufio.Reader
	silent atomic.Int32 // beats of this process since the other's last message

	mu     sync.Mutex
	queue  []outgoing
	last   bool          // nothing is queued any more
	wake   chan struct{} // there is something for write to do
	unsent chan struct{} // closed when write has ended
}

// outgoing is a message, or a mark that is closed when all before it is written.
type outgoing struct {
	message
	written chan struct{}
}

func newLink(conn net.Conn, r *bufio.Reader) *link {
	return &link{conn: conn, reader: r, wake: make(chan struct{}, 1), unsent: make(chan struct{})}
}

// send queues a message. It never waits: what is queued is bounded by what one exchange
// is answered.
func (l *link) send(m message) { l.enqueue(outgoing{message: m}, false) }

func (l *link) enqueue(o outgoing, last bool) {
	l.mu.Lock()
	if !l.last {
		if l.last = last; !last {
			l.queue = append(l.queue, o)
		}
	}
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// beat queues a sign of life, unless others wait that are one as well.
func (l *link) beat(m message) {
	l.mu.Lock()
	idle := len(l.queue) == 0
	l.mu.Unlock()
	if idle {
		l.send(m)
	}
}

// drain waits until what was queued is in the hands of the system.
func (l *link) drain(patience <-chan time.Time) {
	mark := outgoing{written: make(chan struct{})}
	l.enqueue(mark, false)
	select {
	case <-mark.written:
	case <-l.unsent:
	case <-patience:
	}
}

// finish lets the other end see the end of the connection behind what is queued.
func (l *link) finish() { l.enqueue(outgoing{}, true) }

// stop ends read and write.
func (l *link) stop() {
	_ = l.conn.Close()
	l.finish()
}

// write writes what is queued, until finish or stop.
func (l *link) write() {
	defer close(l.unsent)
	w := bufio.NewWriter(l.conn) // which keeps its first error
	var head []byte
	for range l.wake {
		l.mu.Lock()
		queue, last := l.queue, l.last
		l.queue = nil
		l.mu.Unlock()
		for _, o := range queue {
			if o.written != nil {
				_ = w.Flush()
				close(o.written)
				continue
			}
			head = o.appendHead(head[:0])
			_, _ = w.Write(head)
			_, _ = w.Write(o.body())
		}
		switch err := w.Flush(); {
		case err != nil:
			l.stop()
			return
		case last:
			if c, ok := l.conn.(interface{ CloseWrite() error }); ok {
				_ = c.CloseWrite()
			}
			return
		}
	}
}

// read passes on what arrives, until the connection ends or a message is none.
func (l *link) read(receive func(message) error) error {
	defer l.conn.Close()
	for {
		m, err := readMessage(l.reader, maxData)
		if err != nil {
			return err
		}
		l.silent.Store(0)
		if err := receive(m); err != nil {
			return err
		}
	}
}

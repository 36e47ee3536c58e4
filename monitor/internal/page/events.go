package page

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// events sends a message for every sample, as server-sent events, until the client
// goes or the server shuts down.
func (s *server) events(w http.ResponseWriter, r *http.Request) {
	if _, err := parse(r); err != nil {
		refuse(w, err)
		return
	}
	ctx, done := s.streams.begin(r)
	defer done()
	watcher, err := s.samples.watch()
	if err != nil {
		w.Header().Set("Retry-After", "10")
		refuse(w, err)
		return
	}
	defer s.samples.leave(watcher)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Accel-Buffering", "no") // of a proxy
	control := http.NewResponseController(w)
	send := func(text []byte) bool {
		_ = control.SetWriteDeadline(time.Now().Add(readWithin)) // where there are deadlines
		_, err := w.Write(text)
		return err == nil && control.Flush() == nil
	}
	if !send([]byte("retry: 1000\n\n")) || r.Method == http.MethodHead {
		return
	}
	for {
		select {
		case <-ctx.Done():
			return
		case m := <-watcher.messages:
			var text bytes.Buffer
			fmt.Fprintf(&text, "event: %s\ndata: %s\n\n", m.kind, m.text)
			if !send(text.Bytes()) {
				return
			}
		}
	}
}

// readWithin is how long a client may take to read a message.
const readWithin = 10 * time.Second

// streams are those of events, which a server that shuts down would wait for.
type streams struct {
	mu      sync.Mutex
	servers map[*http.Server]context.Context
}

// begin returns a context that is done when the client goes or its server shuts down.
func (s *streams) begin(r *http.Request) (ctx context.Context, done func()) {
	ctx, cancel := context.WithCancel(r.Context())
	server, _ := ctx.Value(http.ServerContextKey).(*http.Server)
	if server == nil {
		return ctx, cancel
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	down := s.servers[server]
	if down == nil {
		var shut context.CancelFunc
		down, shut = context.WithCancel(context.Background())
		if s.servers == nil {
			s.servers = map[*http.Server]context.Context{}
		}
		s.servers[server] = down
		server.RegisterOnShutdown(func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			delete(s.servers, server)
			shut()
		})
	}
	forget := context.AfterFunc(down, cancel)
	return ctx, func() { forget(); cancel() }
}

package page

import (
	"bytes"
	"fmt"
	"net/http"
	"sync"
	"time"
)

// events sends a message for every sample, as server-sent events, until the client
// goes. If the server shuts down the last message says so.
func (s *server) events(w http.ResponseWriter, r *http.Request) {
	if _, err := parse(r); err != nil {
		refuse(w, err)
		return
	}
	down := s.streams.shutdown(r)
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
		case <-r.Context().Done():
			return
		case <-down:
			send([]byte("event: end\ndata: {}\n\n"))
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
	servers map[*http.Server]chan struct{} // closed when it shuts down, and kept: requests under way may come later
}

// shutdown returns a channel that is closed when the server of r shuts down.
func (s *streams) shutdown(r *http.Request) <-chan struct{} {
	server, _ := r.Context().Value(http.ServerContextKey).(*http.Server)
	if server == nil {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	down := s.servers[server]
	if down == nil {
		down = make(chan struct{})
		if s.servers == nil {
			s.servers = map[*http.Server]chan struct{}{}
		}
		s.servers[server] = down
		server.RegisterOnShutdown(sync.OnceFunc(func() { close(down) }))
	}
	return down
}

package local

import (
	"encoding/json"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/pinion-gpu/pinion/monitor"
)

const (
	// API is the number of the meaning of what is served. It rises when a key gets
	// another meaning or goes, not when one is added.
	API = 1

	apiHeader    = "Pinion-Api"
	snapshotPath = "/snapshot"

	// fresh is how old a snapshot may be that is served again.
	fresh = 50 * time.Millisecond
)

// handler serves the snapshot, and what others serves.
type handler struct {
	others http.Handler // may be nil

	door   sync.Mutex
	closed bool
	inside sync.WaitGroup

	mu    sync.Mutex
	taken time.Time
	text  []byte
}

func newHandler(others http.Handler) *handler { return &handler{others: others} }

// enter lets a request in, until close.
func (h *handler) enter() bool {
	h.door.Lock()
	defer h.door.Unlock()
	if !h.closed {
		h.inside.Add(1)
	}
	return !h.closed
}

// close waits for the requests that are inside.
func (h *handler) close() {
	h.door.Lock()
	h.closed = true
	h.door.Unlock()
	h.inside.Wait()
}

// ServeHTTP implements [http.Handler].
func (h *handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !h.enter() {
		return
	}
	defer h.inside.Done()
	w.Header().Set(apiHeader, strconv.Itoa(API))
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "GET or HEAD", http.StatusMethodNotAllowed)
	case r.URL.Path == snapshotPath:
		text, err := h.snapshot()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(len(text)))
		_, _ = w.Write(text) // who asked is gone
	case h.others != nil:
		h.others.ServeHTTP(w, r)
	default:
		http.NotFound(w, r)
	}
}

// snapshot is the snapshot as JSON. A snapshot holds the pools up for a moment, so
// who asks too often gets the last one.
func (h *handler) snapshot() ([]byte, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.text != nil && time.Since(h.taken) < fresh {
		return h.text, nil
	}
	text, err := json.Marshal(monitor.Take())
	if err != nil {
		return nil, err
	}
	h.text, h.taken = append(text, '\n'), time.Now()
	return h.text, nil
}

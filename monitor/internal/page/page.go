package page

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/vram"
)

//go:embed assets
var assets embed.FS

// Source is the process that is shown.
type Source struct {
	// Sample says how things are now, and what was done since the sample before, which
	// is nil for the first.
	Sample func(before *Sample) *Sample

	// Metrics answers at metrics.
	Metrics http.Handler

	// Pools lists the open pools of device memory.
	Pools func() []*vram.Pool

	// Others lists the memory of other allocators. Nil: none.
	Others func() []Other

	// Devices lists the devices that something is open on.
	Devices func() []device.Device

	// Interval is the time between two samples. Default: 0, a second.
	Interval time.Duration
}

// Other is the memory of another allocator on one device.
type Other struct {
	Source, Device string

	// Visit calls f for every block: segment by segment, and by address in each; first
	// says that b begins a segment.
	Visit func(f func(b vram.BlockInfo, first bool, stack []string))
}

// Sample is the state at one moment.
type Sample struct {
	At       time.Time
	Snapshot any     // of the process, as JSON
	Values   []Value // that charts show
	Limits   []Limit
}

// Value is a number of a chart. Of amounts the history keeps the largest where it has
// no room for all, and of rates the mean.
type Value struct {
	Column
	Value float64 `json:"value"`
}

// Column is what a number is about.
type Column struct {
	Chart  string `json:"chart"` // ends in its unit
	Device string `json:"device"`
	Name   string `json:"name"`
	Rate   bool   `json:"rate"` // not an amount
}

// Limit names what holds the loaders of a device up.
type Limit struct {
	Device string `json:"device"`
	Limit  string `json:"limit"`
}

// server serves the page.
type server struct {
	source  Source
	files   map[string]file
	samples *sampler
	streams streams
	surveys surveys
}

// file is an asset. Those whose names end in .gz are served without it, unpacked where
// a client wants them so.
type file struct {
	content []byte
	packed  bool
	kind    string
	tag     string
}

// kinds are the types of assets.
var kinds = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
	".txt":  "text/plain; charset=utf-8",
}

// New serves a source. Nothing runs until somebody asks.
func New(source Source) http.Handler {
	if source.Interval <= 0 {
		source.Interval = time.Second
	}
	s := &server{source: source, files: map[string]file{}, samples: newSampler(source)}
	s.surveys.list.do = func() (list []holder) {
		for _, p := range source.Pools() {
			list = append(list, pool{p})
		}
		if source.Others != nil {
			for _, o := range source.Others() {
				list = append(list, &other{o})
			}
		}
		return list
	}
	list, _ := fs.ReadDir(assets, "assets") // which is there
	for _, e := range list {
		content, _ := assets.ReadFile("assets/" + e.Name())
		sum := sha256.Sum256(content)
		name, packed := strings.CutSuffix(e.Name(), ".gz")
		s.files[name] = file{content, packed, kinds[path.Ext(name)], `"` + hex.EncodeToString(sum[:12]) + `"`}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/{$}", func(w http.ResponseWriter, r *http.Request) { s.asset(w, r, "index.html") })
	mux.HandleFunc("/{file}", func(w http.ResponseWriter, r *http.Request) { s.asset(w, r, r.PathValue("file")) })
	mux.HandleFunc("/api/snapshot", document(s.snapshot))
	mux.HandleFunc("/api/history", s.history)
	mux.HandleFunc("/api/events", s.events)
	mux.HandleFunc("/api/memory", document(s.memory))
	mux.HandleFunc("/api/blocks", document(s.blocks))
	mux.HandleFunc("/api/holders", document(s.holders))
	mux.HandleFunc("/api/leaks", document(s.leaks))
	mux.HandleFunc("/api/timeline", document(s.timeline))
	if source.Metrics != nil {
		mux.Handle("/metrics", source.Metrics)
	}
	return s.guard(mux)
}

// policy allows what the page has, from where it came, and nothing else.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// answerWithin is how long a client may take to read an answer.
const answerWithin = 30 * time.Second

// guard lets through what may read this page, and reads.
func (s *server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", policy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cache-Control", "no-cache")
		switch {
		case r.Method != http.MethodGet && r.Method != http.MethodHead:
			h.Set("Allow", "GET, HEAD")
			http.Error(w, "GET or HEAD", http.StatusMethodNotAllowed)
			return
		case !hostAllowed(r):
			http.Error(w, "This server is for this machine: ask for it as localhost or by its address.", http.StatusForbidden)
			return
		case r.Header.Get("Sec-Fetch-Site") == "cross-site" && r.Header.Get("Sec-Fetch-Mode") != "navigate":
			http.Error(w, "Other sites may not read this.", http.StatusForbidden)
			return
		}
		s.streams.shutdown(r)                                                            // from now on it is known
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(answerWithin)) // where there are deadlines
		next.ServeHTTP(w, r)
	})
}

// hostAllowed refuses names that somebody made lead to the loopback address, so that a
// page of theirs could read this one (DNS rebinding). What is reached from elsewhere
// is protected by whoever opened it.
func hostAllowed(r *http.Request) bool {
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if tcp, ok := local.(*net.TCPAddr); !ok || !tcp.IP.IsLoopback() {
		return true
	}
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

func (s *server) asset(w http.ResponseWriter, r *http.Request, name string) {
	f, there := s.files[name]
	if !there {
		http.Error(w, "There is no such page.", http.StatusNotFound)
		return
	}
	h := w.Header()
	h.Set("Content-Type", f.kind)
	h.Set("ETag", f.tag)
	if r.Header.Get("If-None-Match") == f.tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	if f.packed {
		h.Set("Vary", "Accept-Encoding")
		if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
			unpacked, err := gzip.NewReader(bytes.NewReader(f.content))
			if err == nil {
				_, _ = io.Copy(w, unpacked) // who asked is gone
			}
			return
		}
		h.Set("Content-Encoding", "gzip")
	}
	_, _ = w.Write(f.content) // likewise
}

func (s *server) snapshot(r *http.Request) (any, error) {
	if _, err := parse(r); err != nil {
		return nil, err
	}
	now, err := s.samples.call.get(r.Context(), patience)
	if err != nil {
		return nil, err
	}
	return now.Snapshot, nil
}

func (s *server) history(w http.ResponseWriter, r *http.Request) {
	_, err := parse(r)
	var text []byte
	if err == nil {
		text, err = s.samples.past(r.Context())
	}
	if err != nil {
		refuse(w, err)
		return
	}
	send(w, text)
}

// document serves as JSON what make makes for a request.
func document(make func(*http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		d, err := make(r)
		if err != nil {
			refuse(w, err)
			return
		}
		text, err := json.Marshal(d)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		send(w, text)
	}
}

// send answers with JSON.
func send(w http.ResponseWriter, text []byte) {
	w.Header().Set("Content-Type", "application/json")
	if _, err := w.Write(text); err == nil { // else who asked is gone
		_, _ = w.Write([]byte("\n"))
	}
}

// refuse says what is wrong.
func refuse(w http.ResponseWriter, err error) {
	status := http.StatusServiceUnavailable
	switch {
	case errors.Is(err, errQuery):
		status = http.StatusBadRequest
	case errors.Is(err, errNoPool):
		status = http.StatusNotFound
	}
	http.Error(w, err.Error(), status)
}

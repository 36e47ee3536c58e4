package page

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/timeline"
	"github.com/pinion-gpu/pinion/vram"
)

// fake is a process whose samples count up.
func fake() Source {
	var n atomic.Int64
	return Source{
		Sample: func(*Sample) *Sample {
			k := n.Add(1)
			return &Sample{At: time.Now(), Snapshot: map[string]int64{"number": k}, Limits: []Limit{},
				Values: []Value{{Column{"device_bytes", "cuda:0", "weights", false}, float64(k)}}}
		},
		Pools:    func() []*vram.Pool { return nil },
		Devices:  func() []device.Device { return nil },
		Interval: 5 * time.Millisecond,
	}
}

func serve(t *testing.T, s Source) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(New(s))
	t.Cleanup(server.Close)
	return server
}

// ask sends a request and returns the answer with its text.
func ask(t *testing.T, method, url string, change func(*http.Request)) (*http.Response, string) {
	t.Helper()
	r, err := http.NewRequest(method, url, nil)
	testkit.OK(t, err)
	if change != nil {
		change(r)
	}
	answer, err := http.DefaultClient.Do(r)
	testkit.OK(t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	testkit.OK(t, err)
	return answer, string(text)
}

// uPlotSum is that of the file in npm's package uplot 1.6.32.
const uPlotSum = "19c8d4c6ad88929a79f4ae49d6f7161566dfd0ba3d15cc495e974f787eb78f1f"

// All assets together are small, and the page names nothing of another origin.
func TestAssets(t *testing.T) {
	total := 0
	testkit.OK(t, fs.WalkDir(assets, "assets", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		text, err := assets.ReadFile(name)
		total += len(text)
		if !strings.Contains(name, "uPlot") && (bytes.Contains(text, []byte("//"+"cdn")) || bytes.Contains(text, []byte("https://"))) {
			t.Errorf("%s names another origin", name)
		}
		return err
	}))
	if total > 100<<10 {
		t.Errorf("%d bytes of assets, of which 100 KiB are allowed", total)
	}
	t.Logf("%d bytes", total)
	server := serve(t, fake())
	for _, encoding := range []string{"gzip", "identity"} { // the client unpacks one, the server the other
		r, text := ask(t, "GET", server.URL+"/uPlot.iife.min.js", func(q *http.Request) {
			if encoding == "identity" {
				q.Header.Set("Accept-Encoding", encoding)
			}
		})
		if sum := fmt.Sprintf("%x", sha256.Sum256([]byte(text))); sum != uPlotSum || r.Header.Get("Vary") != "Accept-Encoding" {
			t.Errorf("uPlot, %s: %s, %v", encoding, sum, r.Header)
		}
	}
	for name, kind := range map[string]string{"": "text/html", "page.css": "text/css", "page.js": "text/javascript", "uPlot.iife.min.js": "text/javascript", "uPlot.LICENSE.txt": "text/plain"} {
		r, text := ask(t, "GET", server.URL+"/"+name, nil)
		if r.StatusCode != 200 || !strings.HasPrefix(r.Header.Get("Content-Type"), kind) || text == "" {
			t.Errorf("%s: %s, %s, %d bytes", name, r.Status, r.Header.Get("Content-Type"), len(text))
		}
		again, text := ask(t, "GET", server.URL+"/"+name, func(q *http.Request) { q.Header.Set("If-None-Match", r.Header.Get("ETag")) })
		if again.StatusCode != 304 || text != "" {
			t.Errorf("%s again: %s", name, again.Status)
		}
	}
}

// Every answer has the policy, only reading is allowed, and only under names of this
// machine.
func TestGuard(t *testing.T) {
	server := serve(t, fake())
	for _, c := range []struct {
		method, path string
		change       func(*http.Request)
		status       int
	}{
		{"GET", "/", nil, 200},
		{"HEAD", "/", nil, 200},
		{"HEAD", "/api/events", nil, 200},
		{"GET", "/api/snapshot", nil, 200},
		{"POST", "/", nil, 405},
		{"PUT", "/api/snapshot", nil, 405},
		{"DELETE", "/api/memory", nil, 405},
		{"OPTIONS", "/api/events", nil, 405},
		{"GET", "/nosuch", nil, 404},
		{"GET", "/../page.go", nil, 404},
		{"GET", "/assets/page.js", nil, 404},
		{"GET", "/api/", nil, 404},
		{"GET", "/api/nosuch", nil, 404},
		{"GET", "/", func(r *http.Request) { r.Host = "localhost:1234" }, 200},
		{"GET", "/", func(r *http.Request) { r.Host = "[::1]:1234" }, 200},
		{"GET", "/", func(r *http.Request) { r.Host = "127.1.2.3" }, 200},
		{"GET", "/", func(r *http.Request) { r.Host = "evil.example" }, 403},
		{"GET", "/api/snapshot", func(r *http.Request) { r.Host = "evil.example:80" }, 403},
		{"GET", "/api/events", func(r *http.Request) { r.Host = "localhost.evil.example" }, 403},
		{"GET", "/api/memory", func(r *http.Request) { r.Host = "10.0.0.1" }, 403},
		{"GET", "/api/memory", func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "cross-site") }, 403},
		{"GET", "/api/memory", func(r *http.Request) { r.Header.Set("Sec-Fetch-Site", "same-origin") }, 200},
	} {
		r, text := ask(t, c.method, server.URL+c.path, c.change)
		if r.StatusCode != c.status {
			t.Errorf("%s %s: %s, want %d", c.method, c.path, r.Status, c.status)
		}
		if r.Header.Get("Content-Security-Policy") != policy || r.Header.Get("X-Content-Type-Options") != "nosniff" || r.Header.Get("Referrer-Policy") != "no-referrer" {
			t.Errorf("%s %s: headers %v", c.method, c.path, r.Header)
		}
		if c.status >= 400 && (!strings.HasPrefix(r.Header.Get("Content-Type"), "text/plain") || strings.Contains(text, "evil")) {
			t.Errorf("%s %s: %s %q", c.method, c.path, r.Header.Get("Content-Type"), text)
		}
	}
	// Where it is reached from elsewhere, the name is that server's affair.
	w := httptest.NewRecorder()
	New(fake()).ServeHTTP(w, httptest.NewRequest("GET", "http://gpu7.example/", nil).WithContext(
		context.WithValue(context.Background(), http.LocalAddrContextKey, net.Addr(&net.TCPAddr{IP: net.IPv4(10, 0, 0, 1)}))))
	if w.Code != 200 {
		t.Error(w.Code)
	}
}

// What cannot be asked is refused, in plain text that repeats nothing.
func TestHostileQueries(t *testing.T) {
	server := serve(t, fake())
	for _, query := range []string{
		"/api/snapshot?x=1", "/api/history?step=<script>alert(1)</script>", "/api/events?a",
		"/api/memory?cells=0", "/api/memory?cells=16385", "/api/memory?cells=1e9", "/api/memory?cells=99999999999999999999999",
		"/api/memory?cells=4&cells=5", "/api/memory?from=-1", "/api/memory?to=9223372036854775807", "/api/memory?pool=-1",
		"/api/memory?pool=<img src=x onerror=alert(1)>", "/api/memory?%zz", "/api/memory?a;b", "/api/memory?evil=1",
		"/api/blocks?limit=65", "/api/blocks?limit=", "/api/blocks?limit=0x10", "/api/blocks?evil=%3Cscript%3E",
		"/api/holders?limit=101", "/api/holders?limit=%00", "/api/leaks?x=<b>", "/api/timeline?seconds=61", "/api/timeline?limit=5001", "/api/timeline?seconds=-1",
	} {
		r, text := ask(t, "GET", server.URL+strings.ReplaceAll(query, " ", "%20"), nil)
		if r.StatusCode != 400 || !strings.HasPrefix(r.Header.Get("Content-Type"), "text/plain") {
			t.Errorf("%s: %s %s", query, r.Status, r.Header.Get("Content-Type"))
		}
		if strings.ContainsAny(text, "<>") || strings.Contains(text, "evil") || len(text) > 200 {
			t.Errorf("%s: %q", query, text)
		}
	}
	for _, query := range []string{"/api/blocks?pool=1", "/api/memory?pool=7", "/api/holders?pool=1"} {
		if r, _ := ask(t, "GET", server.URL+query, nil); r.StatusCode != 404 {
			t.Errorf("%s: %s", query, r.Status)
		}
	}
}

func FuzzQuery(f *testing.F) {
	for _, q := range []string{"", "pool=1&from=0&to=5&cells=9", "pool=x", "pool=1&pool=2", "%", "a;b", "=", "pool=-9223372036854775808"} {
		f.Add(q)
	}
	numbers := []number{poolParameter, {"from", 0, maxOffset, 0}, {"cells", 1, maxCells, 4096}}
	f.Fuzz(func(t *testing.T, query string) {
		r := httptest.NewRequest("GET", "/", nil)
		r.URL.RawQuery = query
		values, err := parse(r, numbers...)
		if err != nil {
			if !errors.Is(err, errQuery) {
				t.Errorf("%q: %v", query, err)
			}
			return
		}
		for _, n := range numbers {
			if v := values[n.name]; v < n.least || v > n.most {
				t.Errorf("%q: %s is %d", query, n.name, v)
			}
		}
	})
}

// stream reads messages of a stream of events.
type stream struct {
	*bufio.Scanner
	body io.Closer
}

func open(t *testing.T, url string) *stream {
	t.Helper()
	r, err := http.Get(url + "/api/events")
	testkit.OK(t, err)
	t.Cleanup(func() { r.Body.Close() })
	if r.StatusCode != 200 || r.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatal(r.Status, r.Header)
	}
	s := bufio.NewScanner(r.Body)
	s.Buffer(nil, 1<<20)
	return &stream{s, r.Body}
}

// next returns the next message; ok is false at the end.
func (s *stream) next() (kind, data string, ok bool) {
	for s.Scan() {
		switch line := s.Text(); {
		case strings.HasPrefix(line, "event: "):
			kind = line[len("event: "):]
		case strings.HasPrefix(line, "data: "):
			data = line[len("data: "):]
		case line == "" && kind != "":
			return kind, data, true
		}
	}
	return "", "", false
}

// Who watches gets samples, all the same ones; with the last who watches they end, and
// with a new one they go on. The history has them.
func TestEvents(t *testing.T) {
	defer testkit.NoLeaks(t)
	source := fake()
	var taken atomic.Int64
	sample := source.Sample
	source.Sample = func(b *Sample) *Sample { taken.Add(1); return sample(b) }
	handler := New(source)
	server := httptest.NewServer(handler)
	defer server.Close()
	for range 2 {
		var streams []*stream
		for range 3 {
			streams = append(streams, open(t, server.URL))
		}
		for i, s := range streams {
			last := int64(0)
			for range 5 {
				kind, data, ok := s.next()
				var m struct {
					Snapshot struct{ Number int64 }
					Values   []Value
				}
				if !ok || kind != "sample" {
					t.Fatalf("stream %d: %q %q %v", i, kind, data, ok)
				}
				testkit.OK(t, json.Unmarshal([]byte(data), &m))
				if n := m.Snapshot.Number; n <= last || len(m.Values) != 1 || m.Values[0].Value != float64(n) || m.Values[0].Name != "weights" {
					t.Fatalf("stream %d: %s after %d", i, data, last)
				}
				last = m.Snapshot.Number
			}
		}
		for _, s := range streams {
			s.body.Close()
		}
		testkit.Eventually(t, "samples end", func() bool {
			n := taken.Load()
			time.Sleep(20 * source.Interval)
			return taken.Load() == n
		})
	}
	_, text := ask(t, "GET", server.URL+"/api/history", nil)
	var h historyDocument
	testkit.OK(t, json.Unmarshal([]byte(text), &h))
	if len(h.Columns) != 1 || h.Columns[0].Name != "weights" || len(h.Tiers) != len(steps) || len(h.Tiers[0].Times) == 0 {
		t.Errorf("%+v", h)
	}
	http.DefaultClient.CloseIdleConnections()
}

// A hundred clients that read nothing hold up neither the samples nor one that reads.
func TestSlowClients(t *testing.T) {
	source := fake()
	sample := source.Sample
	padding := strings.Repeat("x", 1<<16) // fills what the system keeps for a connection
	source.Sample = func(b *Sample) *Sample {
		s := sample(b)
		s.Snapshot = padding
		return s
	}
	server := serve(t, source)
	for range 100 {
		c, err := net.Dial("tcp", server.Listener.Addr().String())
		testkit.OK(t, err)
		defer c.Close()
		_, err = io.WriteString(c, "GET /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
		testkit.OK(t, err)
	}
	s := open(t, server.URL)
	for i := range 100 {
		if _, _, ok := s.next(); !ok {
			t.Fatal("the stream ended at", i, s.Err())
		}
	}
}

// Leaks are looked for while somebody watches, and spans are those of the recording
// that is on.
func TestLeaksAndTimeline(t *testing.T) {
	server := serve(t, fake())
	if d := get[leaksDocument](t, server.URL+"/api/leaks"); d.Watching || d.Leaks == nil || d.Others == nil || d.Caches == nil {
		t.Errorf("%+v", d)
	}
	s := open(t, server.URL)
	testkit.Eventually(t, "steps are taken", func() bool {
		d := get[leaksDocument](t, server.URL+"/api/leaks")
		return d.Watching && d.Steps > 1
	})
	s.body.Close()
	testkit.Eventually(t, "it ends", func() bool { return !get[leaksDocument](t, server.URL+"/api/leaks").Watching })

	if d := get[timelineDocument](t, server.URL+"/api/timeline"); d.Recording || d.Spans == nil {
		t.Errorf("%+v", d)
	}
	recording, err := timeline.Start(timeline.Options{Records: 4096})
	testkit.OK(t, err)
	defer recording.Stop()
	dev := recording.Wrap(devicetest.Open(t))
	for range 3 {
		p, err := dev.Alloc(4096)
		testkit.OK(t, err)
		testkit.OK(t, dev.Free(p))
	}
	testkit.Eventually(t, "spans", func() bool {
		d := get[timelineDocument](t, server.URL+"/api/timeline?seconds=60&limit=2")
		return d.Recording && d.NowSeconds > 0 && len(d.Spans) == 2
	})
}

// There are no more streams than may be.
func TestManyWatchers(t *testing.T) {
	s := newSampler(fake())
	for range maxWatchers {
		_, err := s.watch()
		testkit.OK(t, err)
	}
	_, err := s.watch()
	testkit.WantError(t, "one more", err, errWatched, "too many streams of events: there may be 256")
	for len(s.watchers) > 0 {
		for w := range s.watchers {
			s.leave(w)
		}
	}
}

// A server that shuts down does not wait for streams.
func TestShutdown(t *testing.T) {
	handler := New(fake())
	for range 2 { // one handler may have several servers
		server := httptest.NewServer(handler)
		s := open(t, server.URL)
		if _, _, ok := s.next(); !ok {
			t.Fatal("no sample")
		}
		ctx, cancel := context.WithTimeout(context.Background(), testkit.Hang)
		defer cancel()
		testkit.OK(t, server.Config.Shutdown(ctx))
		last := ""
		for {
			kind, _, ok := s.next()
			if !ok {
				break
			}
			last = kind
		}
		if last != "end" {
			t.Errorf("the last message is %q", last)
		}
	}
}

// A request that comes when the server shuts down already does not hold it up.
func TestLateStream(t *testing.T) {
	var s streams
	server := new(http.Server)
	r := httptest.NewRequest("GET", "/api/events", nil)
	r = r.WithContext(context.WithValue(r.Context(), http.ServerContextKey, server))
	select {
	case <-s.shutdown(r):
		t.Fatal("it is shut down before it is")
	default:
	}
	testkit.OK(t, server.Shutdown(ctx))
	testkit.Receive(t, "the end, for who was there", s.shutdown(r))
	testkit.Receive(t, "the end, for who comes later", s.shutdown(r))
}

// The history is made once for all who ask between two samples, and no longer kept when
// nobody watches.
func TestHistoryIsShared(t *testing.T) {
	s := newSampler(fake())
	s.interval = time.Hour // one sample
	w, err := s.watch()
	testkit.OK(t, err)
	testkit.Receive(t, "a sample", w.messages)
	a, err := s.past(ctx)
	testkit.OK(t, err)
	b, err := s.past(ctx)
	testkit.OK(t, err)
	if &a[0] != &b[0] || !json.Valid(a) {
		t.Errorf("%s, and then %s", a, b)
	}
	s.leave(w)
	c, err := s.past(ctx)
	testkit.OK(t, err)
	if &a[0] == &c[0] || string(a) != string(c) || s.text != nil {
		t.Errorf("%s, and then %s", a, c)
	}
}

// Where a pool or a driver hangs, who watches is told, and gets samples when it is over.
func TestHang(t *testing.T) {
	c := call[int]{}
	release := make(chan struct{})
	c.do = func() int { <-release; return 7 }
	for range 3 {
		if _, err := c.get(context.Background(), time.Millisecond); !errors.Is(err, errNoAnswer) {
			t.Fatal(err)
		}
	}
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := c.get(gone, time.Hour); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	close(release)
	if n, err := c.get(context.Background(), testkit.Hang); n != 7 || err != nil {
		t.Fatal(n, err)
	}

	s := newSampler(fake())
	w, err := s.watch()
	testkit.OK(t, err)
	defer s.leave(w)
	s.mu.Lock() // so that no sample comes between
	for len(w.messages) > 0 {
		<-w.messages
	}
	s.mu.Unlock()
	s.tell(context.Background(), nil, fmt.Errorf("%w for 9 s", errNoAnswer), nil)
	for m := range w.messages {
		if m.kind == "failure" {
			if string(m.text) != `{"error":"no answer for 9 s"}` {
				t.Errorf("%s", m.text)
			}
			break
		}
	}
}

// The history is what a simple model says, whatever comes, and no more than it may be.
func TestHistory(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	h := newHistory()
	var model []struct {
		at time.Time
		v  [2]float64
	}
	at := time.Unix(1_700_000_000, 0)
	columns := []Column{{"device_bytes", "cuda:0", "weights", false}, {"link_bytes_per_s", "cuda:0", "h2d staged", true}}
	for range 30_000 {
		at = at.Add(time.Duration(r.Int64N(int64(7 * time.Second))))
		v := [2]float64{r.Float64(), r.Float64()}
		h.add(at, []Value{{columns[0], v[0]}, {columns[1], v[1]}})
		model = append(model, struct {
			at time.Time
			v  [2]float64
		}{at, v})
	}
	for i, d := range h.document().Tiers {
		step := steps[i].step
		if len(d.Times) != steps[i].points || len(d.Values) != len(d.Times) || len(d.Samples) != len(d.Times) {
			t.Fatalf("%d points of %v, want %d", len(d.Times), step, steps[i].points)
		}
		k := len(model)
		for j := len(d.Times) - 1; j >= 0; j-- { // the newest first
			slot := d.Times[j] / step.Milliseconds()
			var most, sum float64
			n := 0
			for k > 0 && model[k-1].at.UnixMilli()/step.Milliseconds() == slot {
				k--
				n++
				most, sum = max(most, model[k].v[0]), sum+model[k].v[1]
			}
			mean := sum / float64(n)
			if diff := d.Values[j][1] - mean; n != d.Samples[j] || d.Values[j][0] != most || diff > 1e-9 || diff < -1e-9 {
				t.Fatalf("point %d of %v: %v of %d samples, want %v and %v of %d", j, step, d.Values[j], d.Samples[j], most, mean, n)
			}
		}
	}

	// Columns without end, and a name that comes late.
	for i := range 3 * maxColumns {
		at = at.Add(time.Second)
		h.add(at, []Value{{Column{"device_bytes", "cuda:0", fmt.Sprint(i), false}, 1}})
	}
	if len(h.columns) != maxColumns || len(h.index) != maxColumns {
		t.Errorf("%d columns", len(h.columns))
	}
	for _, x := range h.tiers {
		for _, p := range x.points {
			if len(p.values) > maxColumns {
				t.Fatal(len(p.values), "values in a point")
			}
		}
	}
}

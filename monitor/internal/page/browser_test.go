package page

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/internal/testkit/browser"
	"github.com/pinion-gpu/pinion/vram"
)

// plain is a snapshot of which nothing is open but a pool.
type plain struct {
	MeasuredAt time.Time `json:"measured_at"`
	Version    string    `json:"version"`
	PID        int       `json:"pid"`
	Command    string    `json:"command"`
	VRAM       []any     `json:"vram"`
	Pinned     []any     `json:"pinned"`
	Transfer   []any     `json:"transfer"`
	Tier       []any     `json:"tier"`
	Loader     []any     `json:"loader"`
}

func plainSample(at time.Time, weights float64) *Sample {
	return &Sample{
		At: at, Limits: []Limit{},
		Snapshot: plain{MeasuredAt: at, Version: "v1", PID: 7, Command: "train", Pinned: []any{}, Transfer: []any{}, Tier: []any{}, Loader: []any{},
			VRAM: []any{map[string]any{"device": "cuda:0", "pools": 1, "blocks": 3, "reserved_bytes": 1 << 30, "fragmented_bytes": 0, "out_of_memory": 0}}},
		Values: []Value{{Column{"device_bytes", "cuda:0", "weights", false}, weights}, {Column{"link_bytes_per_s", "cuda:0", "h2d staged", true}, 5e9}},
	}
}

func plainSource() Source {
	return Source{
		Sample:   func(*Sample) *Sample { return plainSample(time.Now(), 1<<29) },
		Pools:    func() []*vram.Pool { return nil },
		Devices:  func() []device.Device { return nil },
		Interval: 50 * time.Millisecond,
	}
}

// clean fails if the page had problems, or asked somebody else.
func clean(t *testing.T, tab *browser.Tab, origin string) {
	t.Helper()
	for _, p := range tab.Problems() {
		t.Error("problem:", p)
	}
	for _, r := range tab.Requests() {
		if !strings.HasPrefix(r, origin) && r != "about:blank" {
			t.Errorf("a request leaves the origin: %s", r)
		}
	}
}

// The page says when its process is gone, and goes on with the next one.
func TestRestart(t *testing.T) {
	b := browser.Start(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.OK(t, err)
	at := listener.Addr().String()
	serve := func(l net.Listener) *http.Server {
		s := &http.Server{Handler: New(plainSource())}
		go s.Serve(l)
		return s
	}
	server := serve(listener)
	tab := b.Open(t, "http://"+at+"/", browser.Options{})
	tab.Wait(t, "it is live", `document.querySelector("#status").textContent === "Live" && document.querySelector("#memory table").innerText.includes("512 MiB")`)
	clean(t, tab, "http://"+at)

	testkit.OK(t, server.Close()) // as if it were killed
	tab.Wait(t, "it says so", `document.querySelector("#status").textContent === "Disconnected" && document.querySelector("#since").textContent !== ""`)
	if text := tab.Text(t, "#memory table"); !strings.Contains(text, "512 MiB") {
		t.Errorf("the figures are gone: %q", text)
	}
	listener, err = net.Listen("tcp", at)
	if err != nil {
		t.Skip("somebody else took the port: ", err)
	}
	server = serve(listener)
	tab.Wait(t, "it is live again", `document.querySelector("#status").textContent === "Live" && document.querySelector("#since").textContent === ""`)

	go server.Shutdown(ctx) // as a command does that ends
	tab.Wait(t, "it says so", `document.querySelector("#status").textContent === "The process has ended"`)
}

// The page survives a day of samples, in bounded memory.
func TestDay(t *testing.T) {
	testkit.OnlyComputes(t)
	const samples = 24 * 60 * 60
	began := time.Now().Add(-samples * time.Second)
	handler := New(plainSource())
	mux := http.NewServeMux()
	mux.Handle("/", handler)
	over, end := context.WithCancel(ctx)
	mux.HandleFunc("/api/events", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for i := 0; i < samples && over.Err() == nil; i++ {
			x := plainSample(began.Add(time.Duration(i)*time.Second), float64(i+1)*1024)
			text, _ := json.Marshal(sampleMessage{x.At, x.Snapshot, x.Values, x.Limits, []deviceHealth{}})
			if _, err := fmt.Fprintf(w, "event: sample\ndata: %s\n\n", text); err != nil {
				return
			}
		}
		w.(http.Flusher).Flush()
		<-over.Done()
	})
	server := httptest.NewServer(mux)
	defer server.Close()
	defer end() // of the stream
	tab := browser.Start(t).Open(t, server.URL, browser.Options{})
	defer tab.Call(t, "Page.navigate", map[string]any{"url": "about:blank"}, nil)                        // ends the stream
	tab.Wait(t, "all samples", `document.querySelector("#memory table").innerText.includes("84.4 MiB")`) // 86,400 KiB
	points := 0
	for _, s := range steps {
		points += s.points
	}
	tab.Wait(t, "the points", fmt.Sprintf(`document.querySelector("#kept").textContent.includes("%d,%03d")`, points/1000, points%1000))
	for _, window := range []string{"600", "7200", "86400"} {
		tab.Eval(t, fmt.Sprintf(`document.querySelector("[name=window][value='%s']").click()`, window), nil)
		tab.Wait(t, "the mean of the rate", `document.querySelector("#link table").innerText.split("5.00 GB/s").length === 4`) // now, mean, most
	}
	var heap struct{ UsedSize float64 }
	tab.Call(t, "HeapProfiler.collectGarbage", nil, nil)
	tab.Call(t, "Runtime.getHeapUsage", nil, &heap)
	t.Logf("%.1f MB of JavaScript", heap.UsedSize/1e6)
	if heap.UsedSize > 64e6 {
		t.Errorf("%.0f bytes of JavaScript", heap.UsedSize)
	}
	clean(t, tab, server.URL)
}

// A device that is gone, and a process that gives no figures, are said.
func TestFailures(t *testing.T) {
	dev := sick{device.Wrapper{Device: devicetest.Open(t)}, func() (device.Memory, error) { return device.Memory{}, errors.New("cuMemGetInfo: <b>lost</b>") }}
	hang, release := make(chan struct{}), make(chan struct{})
	s := plainSource()
	s.Devices = func() []device.Device { return []device.Device{dev} }
	sample := s.Sample
	s.Sample = func(b *Sample) *Sample {
		select {
		case <-hang:
			<-release
		default:
		}
		return sample(b)
	}
	server := serve(t, s)
	tab := browser.Start(t).Open(t, server.URL, browser.Options{})
	tab.Wait(t, "the device is said to be lost", `document.querySelector("#alerts").textContent.includes("cuMemGetInfo: <b>lost</b>")`)
	close(hang)
	tab.Wait(t, "no figures", `document.querySelector("#alerts").textContent.startsWith("No figures: no answer for") && document.querySelector("#status").textContent === "No figures"`)
	if r, text := ask(t, "GET", server.URL+"/api/snapshot", nil); r.StatusCode != 503 || !strings.Contains(text, "no answer") {
		t.Errorf("%s %s", r.Status, text)
	}
	close(release)
	tab.Wait(t, "figures", `document.querySelector("#status").textContent === "Live"`)
	clean(t, tab, server.URL)
}

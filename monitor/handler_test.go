package monitor_test

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/monitor"
	"github.com/pinion-gpu/pinion/transfer"
	"github.com/pinion-gpu/pinion/vram"
)

// The API of the dashboard shows what Take does, under a prefix too.
func TestHandler(t *testing.T) {
	dev := devicetest.Open(t)
	id := dev.Info().ID
	pool, err := vram.New(dev, vram.Options{})
	testkit.OK(t, err)
	defer pool.Close()
	block, err := pool.Alloc(ctx, 12_345, vram.Use{Purpose: vram.KVCache, Name: "<b>cache</b>"})
	testkit.OK(t, err)
	defer block.Free()
	engine, err := transfer.New(dev, transfer.Options{})
	testkit.OK(t, err)
	defer engine.Close()

	mux := http.NewServeMux()
	mux.Handle("/pinion/", http.StripPrefix("/pinion", monitor.Handler()))
	server := httptest.NewServer(mux)
	defer server.Close()
	read := func(path string) string {
		r, err := http.Get(server.URL + "/pinion/" + path)
		testkit.OK(t, err)
		defer r.Body.Close()
		text, err := io.ReadAll(r.Body)
		testkit.OK(t, err)
		if r.StatusCode != 200 {
			t.Errorf("%s: %s %s", path, r.Status, text)
		}
		return string(text)
	}
	var s monitor.Snapshot
	testkit.OK(t, json.Unmarshal([]byte(read("api/snapshot")), &s))
	now := monitor.Take()
	if a, b := vramOf(s, id), vramOf(now, id); a.AllocatedBytes != b.AllocatedBytes || a.AllocatedBytes == 0 || s.PID != now.PID {
		t.Errorf("%+v, want %+v", a, b)
	}
	if text := read("metrics"); !strings.Contains(text, "pinion_vram_purpose_allocated_bytes") {
		t.Error(text)
	}
	if text := read("api/holders"); strings.Contains(text, "<b>") || !strings.Contains(text, `\u003cb\u003ecache`) {
		t.Error(text)
	}
	if text := read(""); !strings.Contains(text, "<title>") {
		t.Error(text)
	}

	// Samples follow each other, with rates of what was copied meanwhile.
	r, err := http.Get(server.URL + "/pinion/api/events")
	testkit.OK(t, err)
	defer r.Body.Close()
	lines := bufio.NewScanner(r.Body)
	lines.Buffer(nil, 1<<20)
	type sample struct {
		Snapshot monitor.Snapshot
		Values   []struct {
			Chart, Device, Name string
			Rate                bool
			Value               float64
		}
		Devices []struct {
			Device     string
			TotalBytes int64 `json:"total_bytes"`
		}
	}
	moved := 0.0
	for n := 1; moved == 0 && n < 100 && lines.Scan(); n++ {
		text, is := strings.CutPrefix(lines.Text(), "data: ")
		if !is {
			continue
		}
		testkit.OK(t, engine.H2D(ctx, block.Ptr(), make([]byte, 12_345)))
		var x sample
		testkit.OK(t, json.Unmarshal([]byte(text), &x))
		kv := 0.0
		for _, v := range x.Values {
			switch {
			case v.Device == id && v.Chart == "device_bytes" && v.Name == "kvcache":
				kv = v.Value
			case v.Device == id && v.Chart == "link_bytes_per_s" && v.Rate && strings.HasPrefix(v.Name, "h2d"):
				moved += v.Value
			}
		}
		want := of(vramOf(now, id).Purposes, func(p monitor.Purpose) string { return p.Purpose }, "kvcache")
		if kv == 0 || kv != float64(want.AllocatedBytes) {
			t.Errorf("kv cache %v in %+v", kv, x.Values)
		}
		if len(x.Devices) == 0 || x.Devices[0].TotalBytes == 0 {
			t.Errorf("%+v", x.Devices)
		}
	}
	if moved <= 0 {
		t.Error("no sample has a rate")
	}
}

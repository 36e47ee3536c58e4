package monitor_test

import (
	"bufio"
	"context"
	"encoding/base64"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/internal/testkit/browser"
	"github.com/pinion-gpu/pinion/monitor"
	"github.com/pinion-gpu/pinion/pinned"
	"github.com/pinion-gpu/pinion/tier"
	"github.com/pinion-gpu/pinion/timeline"
	"github.com/pinion-gpu/pinion/transfer"
	"github.com/pinion-gpu/pinion/vram"
)

// TestPictures makes the pictures of docs/dashboard.md:
//
//	PINION_PICTURES=$PWD/docs/img go test ./monitor -run TestPictures
//
// It takes three minutes, on a machine that should have little else to do. The one of
// PyTorch needs PINION_LIBRARY, which python/build.sh --library makes.
func TestPictures(t *testing.T) {
	dir := os.Getenv("PINION_PICTURES")
	if dir == "" {
		t.Skip("PINION_PICTURES names no folder for pictures")
	}
	t.Run("feed", func(t *testing.T) {
		command := filepath.Join(t.TempDir(), "pinion")
		out, err := exec.Command("go", "build", "-o", command, "../cmd/pinion").CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		url := serving(t, exec.Command(command, "feed", "--epochs", "100000", "--http", ":0"))
		b := browser.Start(t)
		tab := b.Open(t, url, browser.Options{Width: 1280, Height: 900})
		time.Sleep(65 * time.Second)
		picture(t, tab, filepath.Join(dir, "dashboard-feed.webp"), "body", "#loader")
		tab = b.Open(t, url, browser.Options{Width: 400, Height: 900})
		time.Sleep(3 * time.Second)
		picture(t, tab, filepath.Join(dir, "dashboard-narrow.webp"), "body", "#link")
	})
	t.Run("map", func(t *testing.T) {
		url, b := training(t).URL, browser.Start(t)
		time.Sleep(40 * time.Second)
		tab := b.Open(t, url, browser.Options{Width: 1280, Height: 900, Dark: true})
		time.Sleep(2 * time.Second)
		tab.Eval(t, `(document.querySelector("#timeline").scrollIntoView(), 1)`, nil) // what is out of sight is not drawn anew
		time.Sleep(8 * time.Second)
		picture(t, tab, filepath.Join(dir, "dashboard-map.webp"), "#timeline", "#map-note")
	})
	t.Run("pytorch", func(t *testing.T) {
		if os.Getenv("PINION_LIBRARY") == "" {
			t.Skip("PINION_LIBRARY names no library")
		}
		python := exec.Command("python3", "-c", recordedTorch)
		python.Dir = "../python"
		tab := browser.Start(t).Open(t, serving(t, python), browser.Options{Width: 1024, Height: 900})
		time.Sleep(65 * time.Second)
		picture(t, tab, filepath.Join(dir, "dashboard-pytorch.webp"), "body", "body")
	})
}

// recordedTorch serves the dashboard of a process in which PyTorch says what it said
// on a GPU.
const recordedTorch = `
import pickle, sys, time, types
import pinion, pinion.monitor
segments = pickle.load(open("../vram/trace/testdata/torch-2.11.pickle", "rb"))["segments"]
blocks = [b for s in segments for b in s["blocks"]]
live = [b for b in blocks if b["state"] == "active_allocated"]
size, asked = sum(b["size"] for b in live), sum(b["requested_size"] for b in live)
reserved = sum(s["total_size"] for s in segments)
stats = {"reserved_bytes.all.current": reserved, "allocated_bytes.all.current": size, "requested_bytes.all.current": asked,
    "active_bytes.all.current": size, "inactive_split_bytes.all.current": sum(s["total_size"] for s in segments
        if any(b in live for b in s["blocks"])) - size,
    "allocation.all.current": len(live), "allocation.all.allocated": len(live), "allocation.all.freed": 0,
    "segment.all.allocated": len(segments), "segment.all.freed": 0, "num_alloc_retries": 0, "num_ooms": 0}
cuda = types.SimpleNamespace(is_initialized=lambda: True, device_count=lambda: 1, memory_stats=lambda device: stats,
    memory=types.SimpleNamespace(memory_snapshot=lambda **options: segments))
sys.modules["torch"] = types.SimpleNamespace(cuda=cuda)
with pinion.monitor.serve() as page:
    print(page.url, flush=True)
    time.sleep(600)
`

// serving starts a command, which ends with the test, and finds where it serves the
// dashboard by what it prints.
func serving(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	r, w, err := os.Pipe()
	testkit.OK(t, err)
	cmd.Stdout, cmd.Stderr = w, w
	testkit.OK(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // it may have ended
		_ = cmd.Wait()
		r.Close()
	})
	w.Close()
	said := bufio.NewScanner(r)
	for said.Scan() {
		if url := regexp.MustCompile(`http://\S+`).FindString(said.Text()); url != "" {
			go func() {
				for said.Scan() { // so that it can go on printing
				}
			}()
			return url
		}
		t.Log(said.Text())
	}
	t.Fatal("it serves no dashboard")
	return ""
}

// training serves the dashboard of a process that has weights of many layers, a cache
// of keys and values that comes and goes, and arrays for which the device has no room.
func training(t *testing.T) *httptest.Server {
	recording, err := timeline.Start(timeline.Options{})
	testkit.OK(t, err)
	t.Cleanup(recording.Stop)
	host, err := device.Open("host:2GiB")
	testkit.OK(t, err)
	t.Cleanup(func() { testkit.OK(t, host.Close()) })
	dev := recording.Wrap(host)
	pool, err := vram.New(dev, vram.Options{Stacks: vram.StacksSampled})
	testkit.OK(t, err)
	pins, err := pinned.NewPool(dev, pinned.Options{Budget: 64 << 20, AllowPageable: true})
	testkit.OK(t, err)
	engine, err := transfer.New(dev, transfer.Options{})
	testkit.OK(t, err)
	store, err := tier.New(dev, tier.Options{DeviceBytes: 64 << 20, HostBytes: 256 << 20})
	testkit.OK(t, err)
	stream, err := dev.NewStream()
	testkit.OK(t, err)
	var kept []vram.Block
	alloc := func(n int64, p vram.Purpose, name string) vram.Block {
		b, err := pool.Alloc(ctx, n, vram.Use{Purpose: p, Name: name})
		testkit.OK(t, err)
		return b
	}
	for layer := range 24 {
		name := fmt.Sprint("layer ", layer)
		kept = append(kept, alloc(8<<20, vram.Weights, name), alloc(8<<20, vram.Gradients, name), alloc(16<<20, vram.Optimizer, name))
	}
	var arrays []*tier.Array
	for i := range 24 {
		a, err := store.NewArray(fmt.Sprint("experts ", i), 8<<20)
		testkit.OK(t, err)
		arrays = append(arrays, a)
	}
	buffer, err := pins.Alloc(ctx, 4<<20)
	testkit.OK(t, err)
	over, end := context.WithCancel(ctx)
	var worker sync.WaitGroup
	worker.Go(func() {
		var cache []vram.Block
		for step := 0; over.Err() == nil; step++ {
			var of []vram.Block
			for layer := range 8 {
				of = append(of, alloc(int64(layer+1)<<20, vram.Activations, fmt.Sprint("layer ", layer)))
			}
			for range 40 {
				cache = append(cache, alloc(64<<10, vram.KVCache, fmt.Sprint("request ", step)))
			}
			if len(cache) > 2000 {
				for i, b := range cache {
					if i%3 > 0 {
						testkit.OK(t, b.Free())
					} else {
						cache[i/3] = b
					}
				}
				cache = cache[:(len(cache)+2)/3]
			}
			testkit.OK(t, engine.H2D(ctx, of[3].Ptr(), buffer.Bytes()))
			l, err := store.Use(ctx, stream, tier.Write(arrays[step%len(arrays)]))
			testkit.OK(t, err)
			testkit.OK(t, l.Release())
			testkit.OK(t, stream.Synchronize())
			testkit.OK(t, engine.D2H(ctx, buffer.Bytes()[:1<<20], of[3].Ptr()))
			time.Sleep(100 * time.Millisecond)
			for _, b := range of {
				testkit.OK(t, b.Free())
			}
		}
		kept = append(kept, cache...)
	})
	server := httptest.NewServer(monitor.Handler())
	t.Cleanup(func() {
		end()
		worker.Wait()
		server.CloseClientConnections()
		server.Close()
		for _, b := range kept {
			testkit.OK(t, b.Free())
		}
		testkit.OK(t, buffer.Free())
		testkit.OK(t, stream.Close())
		testkit.OK(t, store.Close())
		testkit.OK(t, engine.Close())
		testkit.OK(t, pins.Close())
		testkit.OK(t, pool.Close())
	})
	return server
}

// picture writes what the page shows from the top of one element to the end of another.
func picture(t *testing.T, tab *browser.Tab, path, from, to string) {
	t.Helper()
	var top, bottom, width float64
	tab.Eval(t, fmt.Sprintf(`Math.max(0, document.querySelector(%q).getBoundingClientRect().top + scrollY - 12)`, from), &top)
	tab.Eval(t, fmt.Sprintf(`document.querySelector(%q).getBoundingClientRect().bottom + scrollY + 12`, to), &bottom)
	tab.Eval(t, `document.documentElement.clientWidth`, &width)
	var shot struct{ Data string }
	tab.Call(t, "Page.captureScreenshot", map[string]any{"format": "webp", "quality": 80, "captureBeyondViewport": true,
		"clip": map[string]any{"x": 0, "y": top, "width": width, "height": bottom - top, "scale": 1}}, &shot)
	data, err := base64.StdEncoding.DecodeString(shot.Data)
	testkit.OK(t, err)
	testkit.OK(t, os.WriteFile(path, data, 0o644))
}

package monitor_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/device"
	_ "github.com/pinion-gpu/pinion/device/host"
	"github.com/pinion-gpu/pinion/internal/probe"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/internal/testkit/browser"
	"github.com/pinion-gpu/pinion/monitor"
	"github.com/pinion-gpu/pinion/timeline"
	"github.com/pinion-gpu/pinion/vram"
)

// A process with 32 GiB of blocks, and a timeline and a history that are full, is
// shown: what the server answers and what the page keeps is bounded. By default there
// are some thousands of blocks and events. PINION_LARGE=300000 makes as many blocks,
// 32 GiB in all, and ten million events in each, and prints what was measured; it
// takes two minutes and 3 GiB of memory. Then it also says how much of a processor the
// process takes while the page is open.
func TestLarge(t *testing.T) {
	blocks, events := 4000, 200_000
	large, _ := strconv.Atoi(os.Getenv("PINION_LARGE"))
	if large > 0 {
		blocks, events = large, 10_000_000
	}
	const total = int64(32) << 30
	dev, err := device.Open("host:40GiB") // of which nobody touches a page
	testkit.OK(t, err)
	defer func() { testkit.OK(t, dev.Close()) }()
	pool, err := vram.New(dev, vram.Options{History: events, Stacks: vram.StacksSampled})
	testkit.OK(t, err)
	size := total / int64(blocks) / 512 * 512
	held := make([]vram.Block, blocks)
	for i := range held {
		held[i], err = pool.Alloc(ctx, size, vram.Use{Purpose: vram.Purposes()[i%5], Name: fmt.Sprint("layer ", i%100)})
		testkit.OK(t, err)
	}
	defer func() {
		for _, b := range held {
			testkit.OK(t, b.Free())
		}
		testkit.OK(t, pool.Close())
	}()
	for range events / 2 {
		b, err := pool.Alloc(ctx, 4096, vram.Use{Purpose: vram.Workspace})
		testkit.OK(t, err)
		testkit.OK(t, b.Free())
	}
	recording, err := timeline.Start(timeline.Options{Records: max(events, 4096)})
	testkit.OK(t, err)
	defer recording.Stop()
	// They all end in the last seconds, as a busy process's do.
	for i := range events {
		end := recording.Began().Add(time.Duration(i) * time.Microsecond)
		recording.Span(probe.Row{Group: "loader", Name: fmt.Sprint("worker ", i%16)}, probe.Span{Name: "sample", Start: end.Add(-time.Microsecond), End: end, Bytes: 1000})
	}
	t.Logf("%d blocks, %d events of each kind", blocks, events)

	// Whoever allocates meanwhile measures how long it is held up.
	var worst atomic.Int64
	over, end := context.WithCancel(ctx)
	var worker sync.WaitGroup
	worker.Go(func() {
		for over.Err() == nil {
			began := time.Now()
			b, err := pool.Alloc(ctx, 4096, vram.Use{Purpose: vram.Workspace})
			if err == nil {
				err = b.Free()
			}
			worst.Store(max(worst.Load(), int64(time.Since(began))))
			if err != nil {
				t.Error(err)
				return
			}
			time.Sleep(50 * time.Microsecond)
		}
	})
	server := httptest.NewServer(monitor.Handler())
	defer server.Close()
	defer server.CloseClientConnections()

	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for _, c := range []struct {
		path string
		most int // bytes of the answer
	}{
		{"api/snapshot", 64 << 10}, {"api/memory?cells=16384", 256 << 10}, {"api/blocks?limit=64", 256 << 10}, {"api/holders?limit=100", 256 << 10},
		{"api/timeline?seconds=60&limit=5000", 2 << 20}, {"api/leaks", 256 << 10}, {"api/history", 64 << 10},
	} {
		for range 2 { // the second finds a survey
			began := time.Now()
			answer, err := http.Get(server.URL + "/" + c.path)
			testkit.OK(t, err)
			text, err := io.ReadAll(answer.Body)
			testkit.OK(t, err)
			testkit.OK(t, answer.Body.Close())
			t.Logf("%-40s %8d bytes in %v", c.path, len(text), time.Since(began).Round(time.Microsecond))
			if answer.StatusCode != http.StatusOK || len(text) > c.most {
				t.Errorf("%s: %s, %d bytes", c.path, answer.Status, len(text))
			}
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	t.Logf("%.1f MB more in the server", (float64(after.HeapAlloc)-float64(before.HeapAlloc))/1e6)
	t.Logf("an allocation took %v at most while the API was asked", time.Duration(worst.Load()))

	t.Run("page", func(t *testing.T) {
		tab := browser.Start(t).Open(t, server.URL, browser.Options{})
		tab.Eval(t, `(() => { window.longest = 0; new PerformanceObserver((l) => { for (const e of l.getEntries()) window.longest = Math.max(window.longest, e.duration) }).observe({ type: "longtask", buffered: true }); return 1 })()`, nil)
		tab.Wait(t, "it is live", `document.querySelector("#status").textContent === "Live"`)
		tab.Wait(t, "the map", `document.querySelector("#map .sum").textContent.includes(" mapped in ") && document.querySelector("#holders table tbody")?.rows.length > 4`)
		tab.Wait(t, "the spans", `document.querySelector("#timeline .sum").textContent.includes("spans of")`)
		if text := tab.Text(t, "#map .sum"); text == "" {
			t.Error("nothing is said of the map")
		} else {
			t.Log(text)
		}
		for range 3 {
			tab.Eval(t, `(() => { const c = document.querySelector("#cells canvas"); c.focus(); c.dispatchEvent(new KeyboardEvent("keydown", { key: "ArrowRight" })); c.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter" })); return 1 })()`, nil)
			tab.Wait(t, "blocks", `document.querySelector("#blocks tbody")?.rows.length > 0`)
		}
		var longest float64
		tab.Eval(t, `window.longest`, &longest)
		var heap struct{ UsedSize float64 }
		tab.Call(t, "HeapProfiler.collectGarbage", nil, nil)
		tab.Call(t, "Runtime.getHeapUsage", nil, &heap)
		var painted float64
		tab.Eval(t, `performance.getEntriesByName("first-contentful-paint")[0].startTime`, &painted)
		t.Logf("the first paint came after %.0f ms", painted)
		t.Logf("the page was busy for %.0f ms at most, and has %.1f MB of JavaScript", longest, heap.UsedSize/1e6)
		if heap.UsedSize > 64e6 {
			t.Errorf("%.0f bytes of JavaScript", heap.UsedSize)
		}
		for _, p := range tab.Problems() {
			t.Error("problem:", p)
		}
		if large > 0 {
			end()
			worker.Wait()
			began, used := time.Now(), processorTime(t)
			time.Sleep(time.Minute)
			t.Logf("the process took %.2f %% of a processor while the page was open", 100*(processorTime(t)-used)/time.Since(began).Seconds())
		}
	})
	end()
	worker.Wait()
	t.Logf("an allocation took %v at most", time.Duration(worst.Load()))
}

// processorTime is that of this process so far, in seconds: Linux tells it, in 1/100 s.
func processorTime(t *testing.T) float64 {
	t.Helper()
	text, err := os.ReadFile("/proc/self/stat")
	testkit.OK(t, err)
	fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
	user, err := strconv.ParseFloat(fields[11], 64)
	testkit.OK(t, err)
	system, err := strconv.ParseFloat(fields[12], 64)
	testkit.OK(t, err)
	return (user + system) / 100
}

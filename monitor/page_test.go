package monitor_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/internal/testkit/browser"
	"github.com/pinion-gpu/pinion/internal/units"
	"github.com/pinion-gpu/pinion/monitor"
	"github.com/pinion-gpu/pinion/pinned"
	"github.com/pinion-gpu/pinion/timeline"
	"github.com/pinion-gpu/pinion/transfer"
	"github.com/pinion-gpu/pinion/vram"
)

// hostile is a name that is markup.
const hostile = `<img src=x onerror="window.hit=1">`

// servePage serves the dashboard of a process in which something is open.
func servePage(t *testing.T) *httptest.Server {
	recording, err := timeline.Start(timeline.Options{Records: 4096})
	testkit.OK(t, err)
	t.Cleanup(recording.Stop)
	dev := recording.Wrap(devicetest.Open(t))
	pool, err := vram.New(dev, vram.Options{Stacks: vram.StacksAll})
	testkit.OK(t, err)
	pins, err := pinned.NewPool(dev, pinned.Options{Budget: 16 << 20, AllowPageable: true})
	testkit.OK(t, err)
	engine, err := transfer.New(dev, transfer.Options{})
	testkit.OK(t, err)
	var blocks []vram.Block
	for i, purpose := range vram.Purposes() {
		for k := range i + 1 {
			name := fmt.Sprint("layer ", k)
			switch purpose {
			case vram.KVCache:
				name = hostile
			case vram.Staging:
				name = strings.Repeat("a long name ", 40)
			}
			b, err := pool.Alloc(ctx, int64(i+1)*123_456, vram.Use{Purpose: purpose, Name: name})
			testkit.OK(t, err)
			blocks = append(blocks, b)
		}
	}
	buffer, err := pins.Alloc(ctx, 1<<20)
	testkit.OK(t, err)
	testkit.OK(t, engine.H2D(ctx, blocks[0].Ptr(), make([]byte, 123_456)))
	// The page shows the last seconds, so something has to happen in them, however slow
	// the machine is.
	stream, err := dev.NewStream()
	testkit.OK(t, err)
	work, end := context.WithCancel(ctx)
	var worker sync.WaitGroup
	worker.Go(func() {
		for tick := time.Tick(100 * time.Millisecond); ; {
			if err := stream.Memset(blocks[0].Ptr(), 1, 1024); err != nil {
				t.Error(err)
				return
			}
			select {
			case <-tick:
			case <-work.Done():
				return
			}
		}
	})
	server := httptest.NewServer(monitor.Handler())
	t.Cleanup(func() {
		end()
		worker.Wait()
		testkit.OK(t, stream.Close())
		server.CloseClientConnections()
		server.Close()
		testkit.OK(t, buffer.Free())
		for _, b := range blocks {
			testkit.OK(t, b.Free())
		}
		testkit.OK(t, engine.Close())
		testkit.OK(t, pins.Close())
		testkit.OK(t, pool.Close())
	})
	return server
}

// What the page shows is what the API says; markup is text; nothing leaves the origin
// or breaks the policy; keys do what a mouse does.
func TestPage(t *testing.T) {
	b := browser.Start(t)
	server := servePage(t)
	id := devicetest.Open(t).Info().ID
	tab := b.Open(t, server.URL, browser.Options{})
	tab.Wait(t, "it is live", `document.querySelector("#status").textContent === "Live"`)
	tab.Eval(t, fmt.Sprintf(`(() => { const s = document.querySelector("#device"); s.value = %q; s.dispatchEvent(new Event("change")); return 1 })()`, id), nil)
	for _, section := range []string{"memory", "link", "pinned", "map", "holders", "timeline"} {
		tab.Wait(t, section, fmt.Sprintf(`document.querySelector("#%s table tbody")?.rows.length`, section))
	}

	r, err := http.Get(server.URL + "/api/snapshot")
	testkit.OK(t, err)
	var s monitor.Snapshot
	testkit.OK(t, json.NewDecoder(r.Body).Decode(&s))
	r.Body.Close()
	v, x := vramOf(s, id), transferOf(s, id)
	var want []string // rows, of which a name and the first number
	for _, p := range v.Purposes {
		want = append(want, p.Purpose+" "+units.Bytes(p.AllocatedBytes))
	}
	want = append(want, "free in pools "+units.Bytes(v.FreeBytes))
	rows := `[...document.querySelectorAll("%s table tbody tr")].map((r) => r.cells[0].innerText.trim() + " " + r.cells[%d].innerText.trim())`
	var got []string
	tab.Eval(t, fmt.Sprintf(rows, "#memory", 1), &got)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("the page has\n%q, the API\n%q", got, want)
	}
	for selector, text := range map[string]string{
		"#memory .sum": fmt.Sprintf("%d blocks, %s reserved", v.Blocks, units.Bytes(v.ReservedBytes)),
		"#pinned .sum": units.Bytes(pinnedOf(s, id).ReservedBytes) + " in segments",
		"#process":     fmt.Sprintf("process %d", os.Getpid()),
		"#map .sum":    fmt.Sprintf("%d blocks", v.Blocks),
		"#link table":  units.Bytes(x.Traffic[0].Bytes),
		"#holders":     hostile,
	} {
		if have := tab.Text(t, selector); !strings.Contains(have, text) {
			t.Errorf("%s is %q, without %q", selector, have, text)
		}
	}

	// Keys.
	tab.Eval(t, `document.querySelector("#cells canvas").focus()`, nil)
	tab.Press(t, "ArrowRight")
	tab.Press(t, "ArrowDown")
	tab.Wait(t, "the blocks of a cell", `document.querySelector("#blocks-h").textContent.startsWith("At ")`)
	tab.Press(t, "Enter")
	tab.Wait(t, "a part of the pool", `document.querySelector("#map .sum").textContent.includes("In view")`)
	tab.Press(t, "Escape")
	tab.Wait(t, "the whole pool", `!document.querySelector("#map .sum").textContent.includes("In view")`)
	tab.Eval(t, `document.querySelector("#memory .chart").focus()`, nil)
	tab.Press(t, "ArrowLeft")
	tab.Wait(t, "the numbers of another time", `/\d\d:\d\d:\d\d/.test(document.querySelector("#memory thead").innerText)`)
	tab.Eval(t, `document.querySelector("#lanes canvas").focus()`, nil)
	tab.Press(t, "ArrowLeft")
	tab.Wait(t, "a span", `document.querySelector("#timeline-note").textContent.includes(" took ")`)
	tab.Eval(t, `document.querySelector("#pause").click()`, nil)
	tab.Wait(t, "it pauses", `document.querySelector("#status").textContent === "Paused"`)
	tab.Eval(t, `document.querySelector("#pause").click()`, nil)

	// Everything that takes the focus or is a picture has a name, and there are
	// landmarks.
	var tree struct {
		Nodes []struct {
			Ignored    bool
			Role, Name struct{ Value any }
		}
	}
	tab.Call(t, "Accessibility.getFullAXTree", nil, &tree)
	roles := map[string]int{}
	for _, n := range tree.Nodes {
		role, _ := n.Role.Value.(string)
		if n.Ignored {
			continue
		}
		roles[role]++
		if name, _ := n.Name.Value.(string); name == "" && slices.Contains([]string{"button", "link", "image", "radio", "combobox", "table", "region", "group"}, role) && role != "group" {
			t.Errorf("a %s without a name", role)
		}
	}
	for role, least := range map[string]int{"banner": 1, "main": 1, "contentinfo": 1, "heading": 7, "status": 1, "table": 5, "radio": 4, "button": 4} {
		if roles[role] < least {
			t.Errorf("%d of %s, want %d: %v", roles[role], role, least, roles)
		}
	}

	var hit bool
	tab.Eval(t, `window.hit === 1 || document.querySelector("main img") !== null`, &hit)
	if hit {
		t.Error("a name became markup")
	}
	for _, p := range tab.Problems() {
		t.Error("problem:", p)
	}
	for _, r := range tab.Requests() {
		if !strings.HasPrefix(r, server.URL+"/") {
			t.Errorf("a request leaves the origin: %s", r)
		}
	}
	// Were one to become markup all the same, the policy would stop it.
	tab.Eval(t, fmt.Sprintf(`document.body.insertAdjacentHTML("beforeend", %q)`, hostile), nil)
	testkit.Eventually(t, "the policy is broken", func() bool {
		return slices.ContainsFunc(tab.Problems(), func(p string) bool { return strings.Contains(p, "Content Security Policy") })
	})
	tab.Eval(t, `window.hit === 1`, &hit)
	if hit {
		t.Error("the policy does not hold")
	}
}

// It fits a phone, and is light or dark as the reader likes. PINION_SCREENSHOTS names a
// folder for pictures.
func TestPageLooks(t *testing.T) {
	b := browser.Start(t)
	server := servePage(t)
	backgrounds := map[string]bool{}
	for name, o := range map[string]browser.Options{
		"wide-light": {}, "wide-dark": {Dark: true}, "narrow-light": {Width: 400, Height: 900}, "narrow-dark": {Width: 400, Height: 900, Dark: true},
	} {
		tab := b.Open(t, server.URL, o)
		tab.Wait(t, "it shows figures", `document.querySelector("#memory table tbody")?.rows.length && document.querySelector("#map table tbody")?.rows.length`)
		var excess int
		tab.Eval(t, `document.documentElement.scrollWidth - document.documentElement.clientWidth`, &excess)
		if excess > 0 {
			t.Errorf("%s is %d pixels too wide", name, excess)
		}
		var tallest int // three lines of a name, and a few of where it is from
		tab.Eval(t, `Math.max(...[...document.querySelectorAll("#map tbody tr, #holders tbody tr")].map((r) => r.offsetHeight))`, &tallest)
		if tallest > 160 {
			t.Errorf("%s: a row of a table is %d pixels high", name, tallest)
		}
		var background string
		tab.Eval(t, `getComputedStyle(document.body).backgroundColor`, &background)
		backgrounds[background] = true
		if dir := os.Getenv("PINION_SCREENSHOTS"); dir != "" {
			testkit.OK(t, os.WriteFile(filepath.Join(dir, name+".png"), tab.Screenshot(t), 0o644))
		}
		for _, p := range tab.Problems() {
			t.Error("problem:", p)
		}
	}
	if len(backgrounds) != 2 {
		t.Errorf("backgrounds %v", backgrounds)
	}
}

// Package browser lets tests use a real browser: a headless Chromium, driven by the
// DevTools protocol through a pipe. Tests are skipped where there is none.
//
//	tab := browser.Start(t).Open(t, server.URL, browser.Options{})
//	tab.Wait(t, "a title", `document.title != ""`)
//	if bad := tab.Problems(); len(bad) > 0 {
//		t.Error(bad)
//	}
package browser

import (
	"bufio"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pinion-gpu/pinion/internal/testkit"
)

// Browser is a running Chromium.
type Browser struct {
	to io.Writer

	mu      sync.Mutex
	last    int64
	answers map[int64]chan answer
	tabs    map[string]*Tab // by session
	gone    chan struct{}   // closed when it has ended
}

type answer struct {
	Result json.RawMessage
	Error  *struct{ Message string }
}

// Options say what a reader's browser is like.
type Options struct {
	Width, Height int  // default: 1280 by 800
	Dark          bool // prefers dark colours
}

// Tab is a page in a browser.
type Tab struct {
	browser *Browser
	session string

	mu       sync.Mutex
	requests []string
	problems []string
}

// programs are names that Chromium has.
var programs = []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"}

// Start starts a browser, which ends with the test.
func Start(t testing.TB) *Browser {
	t.Helper()
	path := ""
	for _, name := range programs {
		if found, err := exec.LookPath(name); err == nil {
			path = found
			break
		}
	}
	if path == "" || runtime.GOOS == "windows" { // which passes no pipes on
		t.Skip("there is no Chromium: Debian's package chromium has it")
	}
	dir, err := os.MkdirTemp("", "pinion-browser")
	testkit.OK(t, err)
	toRead, to, err := os.Pipe()
	testkit.OK(t, err)
	from, fromWrite, err := os.Pipe()
	testkit.OK(t, err)
	args := []string{"--headless", "--remote-debugging-pipe", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--no-proxy-server",
		"--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions", "--hide-scrollbars", "--mute-audio",
		"--force-color-profile=srgb", "--user-data-dir=" + dir}
	if os.Getuid() == 0 {
		args = append(args, "--no-sandbox") // which root cannot have
	}
	cmd := exec.Command(path, append(args, "about:blank")...)
	cmd.ExtraFiles = []*os.File{toRead, fromWrite} // its descriptors 3 and 4
	testkit.OK(t, cmd.Start())
	toRead.Close()
	fromWrite.Close()
	b := &Browser{to: to, answers: map[int64]chan answer{}, tabs: map[string]*Tab{}, gone: make(chan struct{})}
	go b.read(from)
	t.Cleanup(func() {
		_ = b.call("", "Browser.close", nil, nil) // it may be gone
		to.Close()
		timer := time.AfterFunc(10*time.Second, func() { cmd.Process.Kill() })
		cmd.Wait()
		timer.Stop()
		from.Close()
		<-b.gone
		for range 50 { // its children may write there until they are gone, too
			if os.RemoveAll(dir) == nil {
				break
			}
			time.Sleep(20 * time.Millisecond)
		}
	})
	return b
}

// read takes what the browser says: JSON, with a zero byte behind each.
func (b *Browser) read(from io.Reader) {
	defer close(b.gone)
	r := bufio.NewReaderSize(from, 1<<20)
	for {
		text, err := r.ReadBytes(0)
		if err != nil {
			return
		}
		var m struct {
			ID        int64
			Method    string
			Params    json.RawMessage
			SessionID string `json:"sessionId"`
			answer
		}
		if json.Unmarshal(text[:len(text)-1], &m) != nil {
			continue
		}
		b.mu.Lock()
		waiting, tab := b.answers[m.ID], b.tabs[m.SessionID]
		delete(b.answers, m.ID)
		b.mu.Unlock()
		switch {
		case waiting != nil:
			waiting <- m.answer
		case tab != nil:
			tab.note(m.Method, m.Params)
		}
	}
}

// call calls a method of the protocol.
func (b *Browser) call(session, method string, params, result any) error {
	if params == nil {
		params = struct{}{}
	}
	b.mu.Lock()
	b.last++
	id, waiting := b.last, make(chan answer, 1)
	b.answers[id] = waiting
	m := map[string]any{"id": id, "method": method, "params": params}
	if session != "" {
		m["sessionId"] = session
	}
	text, err := json.Marshal(m)
	if err == nil {
		_, err = b.to.Write(append(text, 0))
	}
	b.mu.Unlock()
	if err != nil {
		return err
	}
	select {
	case a := <-waiting:
		if a.Error != nil {
			return fmt.Errorf("%s: %s", method, a.Error.Message)
		}
		if result != nil {
			return json.Unmarshal(a.Result, result)
		}
		return nil
	case <-b.gone:
		return fmt.Errorf("%s: the browser is gone", method)
	case <-time.After(testkit.Hang):
		return fmt.Errorf("%s: no answer", method)
	}
}

// Open opens a page in a tab of its own, with no history and no cache of others.
func (b *Browser) Open(t testing.TB, url string, o Options) *Tab {
	t.Helper()
	if o.Width == 0 {
		o.Width, o.Height = 1280, 800
	}
	var made struct {
		BrowserContextID string `json:"browserContextId"`
		TargetID         string `json:"targetId"`
		SessionID        string `json:"sessionId"`
	}
	testkit.OK(t, b.call("", "Target.createBrowserContext", nil, &made))
	testkit.OK(t, b.call("", "Target.createTarget", map[string]any{"url": "about:blank", "browserContextId": made.BrowserContextID}, &made))
	testkit.OK(t, b.call("", "Target.attachToTarget", map[string]any{"targetId": made.TargetID, "flatten": true}, &made))
	tab := &Tab{browser: b, session: made.SessionID}
	b.mu.Lock()
	b.tabs[tab.session] = tab
	b.mu.Unlock()
	for _, domain := range []string{"Page", "Runtime", "Network", "Log", "Audits"} {
		tab.Call(t, domain+".enable", nil, nil)
	}
	scheme := "light"
	if o.Dark {
		scheme = "dark"
	}
	tab.Call(t, "Emulation.setDeviceMetricsOverride", map[string]any{"width": o.Width, "height": o.Height, "deviceScaleFactor": 1, "mobile": false}, nil)
	tab.Call(t, "Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
	tab.Call(t, "Page.navigate", map[string]any{"url": url}, nil)
	testkit.Eventually(t, "the page is there", func() bool {
		var r struct{ Result struct{ Value bool } }
		err := b.call(tab.session, "Runtime.evaluate", map[string]any{"expression": `location.href !== "about:blank" && document.readyState === "complete"`}, &r)
		return err == nil && r.Result.Value // an error: the page before it is going
	})
	return tab
}

// note keeps what tests ask for of what a page does.
func (tab *Tab) note(method string, params json.RawMessage) {
	var p struct {
		Request          struct{ URL string }
		Entry            struct{ Level, Text, URL string }
		Type             string
		Args             []struct{ Value, Description any }
		ExceptionDetails struct {
			Text      string
			Exception struct{ Description string }
		}
		Issue struct{ Code string }
	}
	if json.Unmarshal(params, &p) != nil {
		return
	}
	tab.mu.Lock()
	defer tab.mu.Unlock()
	switch method {
	case "Network.requestWillBeSent":
		tab.requests = append(tab.requests, p.Request.URL)
	case "Log.entryAdded":
		if p.Entry.Level == "error" {
			tab.problems = append(tab.problems, p.Entry.Text+" "+p.Entry.URL)
		}
	case "Runtime.consoleAPICalled":
		if p.Type == "error" || p.Type == "warning" || p.Type == "assert" {
			tab.problems = append(tab.problems, fmt.Sprint("console: ", p.Args))
		}
	case "Runtime.exceptionThrown":
		tab.problems = append(tab.problems, p.ExceptionDetails.Text+" "+p.ExceptionDetails.Exception.Description)
	case "Audits.issueAdded":
		if p.Issue.Code == "ContentSecurityPolicyIssue" || p.Issue.Code == "MixedContentIssue" {
			tab.problems = append(tab.problems, p.Issue.Code+" "+string(params))
		}
	}
}

// Problems are the errors of the page so far: what it wrote to the console, what it
// threw, what its policy forbids.
func (tab *Tab) Problems() []string {
	tab.mu.Lock()
	defer tab.mu.Unlock()
	return slices.Clone(tab.problems)
}

// Requests are the addresses that the page has asked for.
func (tab *Tab) Requests() []string {
	tab.mu.Lock()
	defer tab.mu.Unlock()
	return slices.Clone(tab.requests)
}

// Call calls a method of the protocol.
func (tab *Tab) Call(t testing.TB, method string, params, result any) {
	t.Helper()
	testkit.OK(t, tab.browser.call(tab.session, method, params, result))
}

// Eval evaluates an expression, waits for a promise, and decodes its value into
// result.
func (tab *Tab) Eval(t testing.TB, expression string, result any) {
	t.Helper()
	var r struct {
		Result           struct{ Value json.RawMessage }
		ExceptionDetails *struct {
			Exception struct{ Description string }
		}
	}
	tab.Call(t, "Runtime.evaluate", map[string]any{"expression": expression, "returnByValue": true, "awaitPromise": true}, &r)
	if r.ExceptionDetails != nil {
		t.Fatalf("%s: %s", expression, r.ExceptionDetails.Exception.Description)
	}
	if result != nil {
		if len(r.Result.Value) == 0 {
			t.Fatalf("%s is undefined", expression)
		}
		testkit.OK(t, json.Unmarshal(r.Result.Value, result))
	}
}

// Text is the text of the first element that a selector finds, as one sees it.
func (tab *Tab) Text(t testing.TB, selector string) (text string) {
	t.Helper()
	tab.Eval(t, fmt.Sprintf(`document.querySelector(%q)?.innerText ?? ""`, selector), &text)
	return text
}

// Wait waits until an expression holds.
func (tab *Tab) Wait(t testing.TB, what, expression string) {
	t.Helper()
	deadline := time.Now().Add(testkit.Hang)
	for {
		var holds bool
		tab.Eval(t, "!!("+expression+")", &holds)
		if holds {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: never; the page says %q, its problems are %s", what, tab.Text(t, "body"), strings.Join(tab.Problems(), "; "))
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// Press presses a key, such as "ArrowRight", on what has the focus.
func (tab *Tab) Press(t testing.TB, key string) {
	t.Helper()
	p := map[string]any{"type": "keyDown", "key": key, "code": key}
	if key == "Enter" {
		p["text"] = "\r"
	}
	if code, there := map[string]int{"Tab": 9, "Enter": 13, "Escape": 27, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39, "ArrowDown": 40}[key]; there {
		p["windowsVirtualKeyCode"] = code
	}
	tab.Call(t, "Input.dispatchKeyEvent", p, nil)
	p["type"] = "keyUp"
	delete(p, "text")
	tab.Call(t, "Input.dispatchKeyEvent", p, nil)
}

// Screenshot returns the whole page as a PNG.
func (tab *Tab) Screenshot(t testing.TB) []byte {
	t.Helper()
	var shot struct{ Data string }
	tab.Call(t, "Page.captureScreenshot", map[string]any{"format": "png", "captureBeyondViewport": true}, &shot)
	picture, err := base64.StdEncoding.DecodeString(shot.Data)
	testkit.OK(t, err)
	return picture
}

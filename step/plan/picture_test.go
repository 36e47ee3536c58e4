package plan

import (
	"errors"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/internal/testkit/browser"
)

// TestPictureHasAllBytes compares what a picture draws with what the plan says.
func TestPictureHasAllBytes(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 1))
	drawn, instead := 0, 0
	for range 90 {
		g := random(rng, 20)
		others(rng, &g, 20)
		whole, err := Make(g, Options{Align: 1})
		if err != nil {
			t.Fatal(err)
		}
		p, err := Make(g, Options{Align: 1, Budget: max(1, whole.Bytes*9/10), Out: 100, Back: 100})
		if errors.Is(err, ErrBudget) {
			p = whole
		} else if err != nil {
			t.Fatal(err)
		}
		used := p.used(&g)
		for i, r := range p.Runs {
			if r.Op >= len(g.Ops) && !r.Again {
				instead++
			}
			sum := int64(0)
			for _, b := range used[i] {
				if b < 0 {
					t.Fatalf("run %d: %v", i, used[i])
				}
				sum += b
			}
			if sum != r.Bytes {
				t.Fatalf("run %d has %d bytes in use, and %v are drawn", i, r.Bytes, used[i])
			}
			if used[i][useSent] > 0 || used[i][useAgain] > 0 {
				drawn++
			}
		}
		text, err := p.SVG(g)
		if err != nil || !strings.HasPrefix(text, "<svg ") || strings.Contains(text, "NaN") || strings.Contains(text, "Inf") {
			t.Fatalf("%v, %s", err, text)
		}
	}
	if drawn == 0 || instead == 0 {
		t.Errorf("%d runs with values that were evicted, and %d in place of others", drawn, instead)
	}
}

func TestPictureOfAnotherGraph(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 2))
	p, err := Make(chainOf(rng, 5), Options{})
	if err != nil {
		t.Fatal(err)
	}
	for name, f := range map[string]func() (string, error){
		"of a smaller graph": func() (string, error) { return p.SVG(chainOf(rng, 2)) },
		"of no graph":        func() (string, error) { return p.SVG(Graph{}) },
		"of no plan":         func() (string, error) { return new(Plan).SVG(chainOf(rng, 2)) },
	} {
		if _, err := f(); !errors.Is(err, ErrArgument) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestPictureInBrowser shows the picture of a plan in which values are sent and computed
// again: nothing is cut off, and no text lies on another.
func TestPictureInBrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("it only computes")
	}
	g := gpt(24, 16, 1024, 2048, 32768)
	p, err := Make(g, Options{Budget: 13 << 30, Out: 53e9, Back: 53e9})
	if err != nil {
		t.Fatal(err)
	}
	text, err := p.SVG(g)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "image/svg+xml")
		w.Write([]byte(text))
	}))
	defer server.Close()
	tab := browser.Start(t).Open(t, server.URL, browser.Options{Width: 900, Height: 500})
	tab.Wait(t, "a picture", `document.querySelectorAll("path").length >= 4`)
	var bad []string
	tab.Eval(t, `(() => {
		const bad = [], boxes = [...document.querySelectorAll("text")].map(e => [e.textContent, e.getBoundingClientRect()]);
		for (const [text, b] of boxes) if (b.left < 0 || b.top < 0 || b.right > 860 || b.bottom > 460) bad.push("cut off: " + text);
		boxes.forEach(([t1, a], i) => boxes.slice(i + 1).forEach(([t2, b]) => {
			if (a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom) bad.push(t1 + " on " + t2);
		}));
		return bad;
	})()`, &bad)
	if bad = append(bad, tab.Problems()...); len(bad) > 0 {
		t.Error(bad)
	}
}

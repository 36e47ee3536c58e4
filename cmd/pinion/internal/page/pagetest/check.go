// Package pagetest checks report pages in tests.
package pagetest

import (
	"encoding/xml"
	"io"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

var (
	svgPattern    = regexp.MustCompile(`(?s)<svg.*?</svg>`)
	boxPattern    = regexp.MustCompile(`^<svg class="plot[^>]*viewBox="0 0 (\S+) (\S+)"`)
	idPattern     = regexp.MustCompile(` id="([^"]*)"`)
	labelPattern  = regexp.MustCompile(`aria-labelledby="([^"]*)"`)
	remotePattern = regexp.MustCompile(`(?i)(?:\bsrc|href|action|data)\s*=\s*["']([^"']*)|url\(|@import`)
	numberPattern = regexp.MustCompile(` (?:x|y|cx|cy|x1|x2|y1|y2|r|width|height)="([^"]*)"`)
	pathPattern   = regexp.MustCompile(` d="([^"]*)"`)
)

// Check looks for what no page may have: markup that does not close,
// requests to the network, numbers that are none, marks outside their figure,
// names that are not there.
func Check(t *testing.T, text string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(text))
	d.Strict, d.AutoClose, d.Entity = false, xml.HTMLAutoClose, xml.HTMLEntity
	for {
		_, err := d.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Errorf("the page is not well formed: %v", err)
			break
		}
	}
	for _, want := range []string{"<!doctype html>", "<title>", `<meta name="description" content="`, "</html>", "prefers-color-scheme: dark", "@media print"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page has no %s", want)
		}
	}
	for _, m := range remotePattern.FindAllStringSubmatch(text, -1) {
		if m[1] != "https://github.com/pinion-gpu/pinion" && m[1] != "data:," {
			t.Errorf("the page asks for %q", m[0])
		}
	}
	ids := map[string]bool{}
	for _, m := range idPattern.FindAllStringSubmatch(text, -1) {
		if ids[m[1]] {
			t.Errorf("the id %q is there twice", m[1])
		}
		ids[m[1]] = true
	}
	for _, m := range labelPattern.FindAllStringSubmatch(text, -1) {
		for _, id := range strings.Fields(m[1]) {
			if !ids[id] {
				t.Errorf("a figure is named by %q, which is not there", id)
			}
		}
	}
	for _, svg := range svgPattern.FindAllString(text, -1) {
		checkFigure(t, svg)
	}
	// The words of a page are never those of a number that is none.
	for _, none := range []string{"NaN", "Inf", "%!", "ZgotmplZ"} {
		if strings.Contains(text, none) {
			t.Errorf("the page has %q: %s", none, text[max(0, strings.Index(text, none)-80):][:120])
		}
	}
}

func checkFigure(t *testing.T, svg string) {
	t.Helper()
	if err := xml.Unmarshal([]byte(svg), new(struct{})); err != nil {
		t.Errorf("a figure is not well formed: %v", err)
	}
	if strings.Contains(svg, "aria-hidden") {
		return // a swatch
	}
	box := boxPattern.FindStringSubmatch(svg)
	if box == nil || !strings.Contains(svg, `role="img"`) {
		t.Fatalf("not a figure: %.200s", svg)
	}
	w, _ := strconv.ParseFloat(box[1], 64)
	h, _ := strconv.ParseFloat(box[2], 64)
	inside := func(text string) {
		v, err := strconv.ParseFloat(text, 64)
		if err != nil || v < -1 || v > max(w, h)+1 {
			t.Errorf("%q in a figure of %g x %g", text, w, h)
		}
	}
	for _, m := range numberPattern.FindAllStringSubmatch(svg, -1) {
		inside(m[1])
	}
	for _, m := range pathPattern.FindAllStringSubmatch(svg, -1) {
		for _, v := range strings.FieldsFunc(m[1], func(r rune) bool { return strings.ContainsRune("MLZ ", r) }) {
			inside(v)
		}
	}
}

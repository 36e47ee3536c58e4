package monitor

import (
	"bufio"
	"net/http"
	"net/http/httptest"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/internal/testkit"
)

// The text of a small snapshot, with a device that nobody would name so.
func TestGolden(t *testing.T) {
	s := Snapshot{Version: "v1", Transfer: []Transfer{{
		Device: "a\"b\\c\n<d>\xff", Engines: 1, Waiting: 2, Traffic: []Traffic{
			{Direction: "h2d", Path: "plain", Copies: 3, Bytes: 1 << 40},
			{Direction: "d2h", Path: "staged", Active: 1, Failed: 4},
		},
	}}, Loader: []Loader{{Device: "b", Stages: []Stage{{Stage: "decode", Where: "worker", Seconds: 0.25}}}}}
	var b strings.Builder
	testkit.OK(t, s.WriteMetrics(&b))
	text := b.String()
	text = text[:strings.Index(text, "# HELP pinion_loader_loaders")] +
		text[strings.Index(text, "# HELP pinion_loader_stage_seconds"):]
	want := testkit.ReadFile(t, "testdata", "metrics.txt")
	if text != want {
		t.Errorf("got\n%s\nwant\n%s", text, want)
	}
}

var line = regexp.MustCompile(`^([a-z][a-z0-9_]*)\{([a-z]+="(?:[^"\\\n]|\\["\\n])*"(?:,[a-z]+="(?:[^"\\\n]|\\["\\n])*")*)\} -?[0-9][0-9.e+-]*$`)

// Every field of a snapshot is a metric with a name and a help of its own, and every
// line has the form that the format asks for, with the samples of a metric together
// and no series twice.
func TestForm(t *testing.T) {
	s := Snapshot{Version: `1"`}
	names := map[string]string{}
	var fill func(list reflect.Value, prefix string)
	fill = func(list reflect.Value, prefix string) {
		list.Set(reflect.MakeSlice(list.Type(), 2, 2))
		for k := range 2 {
			x := list.Index(k)
			for i, f := range fieldsOf(x.Type()) {
				field, value := x.Type().Field(i), x.Field(i)
				at := x.Type().Name() + "." + field.Name
				if key := field.Tag.Get("json"); key == "" || key != strings.ToLower(key) {
					t.Errorf("%s has the key %q", at, key)
				}
				switch value.Kind() {
				case reflect.String:
					value.SetString(strings.Repeat("x\"\\\n", k+1))
					continue
				case reflect.Slice:
					fill(value, prefix+f.help)
					continue
				case reflect.Float64:
					value.SetFloat(-1.5e-9 * float64(k))
				default:
					value.SetInt(1 << 62)
				}
				name := f.name
				if !strings.HasSuffix(f.help, ".") {
					t.Errorf("%s has the help %q", at, f.help)
				}
				if other, ok := names[prefix+name]; ok && other != at {
					t.Errorf("%s and %s are both %s", at, other, prefix+name)
				}
				names[prefix+name] = at
				if strings.Contains(field.Name, "Bytes") != strings.Contains(name, "bytes") ||
					strings.Contains(field.Name, "Seconds") != strings.Contains(name, "seconds") {
					if field.Name != "Seconds" && field.Name != "Bytes" {
						t.Errorf("%s is called %s", at, name)
					}
				}
			}
		}
	}
	v := reflect.ValueOf(&s).Elem()
	for i := range v.NumField() {
		if prefix := v.Type().Field(i).Tag.Get("prefix"); prefix != "" {
			fill(v.Field(i), prefix)
		}
	}
	var b strings.Builder
	testkit.OK(t, s.WriteMetrics(&b))
	seen, series, metric := map[string]bool{}, map[string]bool{}, ""
	for lines := bufio.NewScanner(strings.NewReader(b.String())); lines.Scan(); {
		text := lines.Text()
		if name, ok := strings.CutPrefix(text, "# HELP "); ok {
			name, _, _ = strings.Cut(name, " ")
			if seen[name] {
				t.Errorf("%s comes twice", name)
			}
			seen[name], metric = true, name
			continue
		}
		if strings.HasPrefix(text, "# TYPE ") {
			kind := "gauge"
			if strings.HasSuffix(metric, "_total") {
				kind = "counter"
			}
			if text != "# TYPE "+metric+" "+kind {
				t.Errorf("%q for %s", text, metric)
			}
			continue
		}
		m := line.FindStringSubmatch(text)
		if m == nil || m[1] != metric {
			t.Errorf("among %s: %q", metric, text)
		}
		if series[text] {
			t.Errorf("twice: %s", text)
		}
		series[text] = true
	}
	for name := range names {
		if !seen[name] {
			t.Errorf("%s is not written", name)
		}
	}
	page := map[string]bool{}
	for _, name := range regexp.MustCompile("pinion_[a-z0-9_]+").FindAllString(testkit.ReadFile(t, "..", "docs", "monitor.md"), -1) {
		if page[name] = true; !seen[name] {
			t.Errorf("docs/monitor.md has %s, which is no metric", name)
		}
	}
	for name := range seen {
		if !page[name] {
			t.Errorf("docs/monitor.md lacks %s", name)
		}
	}
}

func TestHandler(t *testing.T) {
	for method, want := range map[string]int{"GET": 200, "HEAD": 200, "POST": 405, "DELETE": 405} {
		w := httptest.NewRecorder()
		MetricsHandler().ServeHTTP(w, httptest.NewRequest(method, "/metrics?x=%ff", http.NoBody))
		if w.Code != want {
			t.Errorf("%s: %d, want %d", method, w.Code, want)
		}
		if got := w.Header().Get("Content-Type"); want == 200 && got != "text/plain; version=0.0.4; charset=utf-8" {
			t.Errorf("%s: %q", method, got)
		}
	}
}

// The sum of two snapshots less one of them is the other, in every count.
func TestFold(t *testing.T) {
	a := []Tier{{Device: "x", Stores: 1, Uses: 5, WaitSeconds: 0.5, Levels: []Level{{Tier: "host", UsedBytes: 3}}}}
	b := []Tier{{Device: "x", Stores: 2, Uses: 7, WaitSeconds: 0.25, Levels: []Level{{Tier: "file", UsedBytes: 4}, {Tier: "host", UsedBytes: 5}}}, {Device: "y", Uses: 1}}
	var sum []Tier
	for _, x := range append(a[:1:1], b...) {
		sum = merge(sum, x, false)
	}
	if len(sum) != 2 || sum[0].Stores != 3 || sum[0].Uses != 12 || sum[0].Levels[0].UsedBytes != 8 || len(sum[0].Levels) != 2 {
		t.Errorf("the sum is %+v", sum)
	}
	d := since(sum, a)
	if d[0].Uses != 7 || d[0].WaitSeconds != 0.25 || d[0].Stores != 3 || d[1].Uses != 1 || sum[0].Uses != 12 {
		t.Errorf("the rest is %+v", d)
	}
	closed := merge(nil, b[0], true)
	if closed[0].Stores != 0 || closed[0].Uses != 7 || closed[0].Levels[0].UsedBytes != 0 || b[0].Levels[0].UsedBytes != 4 {
		t.Errorf("the counts are %+v", closed)
	}
}

package monitor

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strconv"
	"strings"
)

// WriteMetrics writes s in Prometheus' text format, version 0.0.4: all metrics that
// begin with pinion_. It writes once.
func (s Snapshot) WriteMetrics(w io.Writer) error {
	m := metrics{samples: map[string]*bytes.Buffer{}}
	m.sample("pinion_build_info", "The version of Pinion in this process.", label("version", s.Version), "1")
	v := reflect.ValueOf(s)
	for i := range v.NumField() {
		if prefix := v.Type().Field(i).Tag.Get("prefix"); prefix != "" {
			m.list(v.Field(i), prefix, "")
		}
	}
	var text bytes.Buffer
	for _, name := range m.names {
		text.Write(m.samples[name].Bytes())
	}
	_, err := w.Write(text.Bytes())
	return err
}

// metrics is text by metric: the format wants all samples of one side by side.
type metrics struct {
	names   []string // in the order in which they came
	samples map[string]*bytes.Buffer
}

// list adds the elements of a list of structs, with the labels of what they are in.
func (m *metrics) list(list reflect.Value, prefix, labels string) {
	for k := range list.Len() {
		x, labels := list.Index(k), labels
		for _, f := range fieldsOf(x.Type()) {
			value := x.Field(f.index)
			switch {
			case f.kind == isLabel:
				if labels != "" {
					labels += ","
				}
				labels += label(f.name, value.String())
			case f.kind == isList:
				m.list(value, prefix+f.help, labels)
			case f.float:
				m.sample(prefix+f.name, f.help, labels, strconv.FormatFloat(value.Float(), 'g', -1, 64))
			default:
				m.sample(prefix+f.name, f.help, labels, strconv.FormatInt(value.Int(), 10))
			}
		}
	}
}

func (m *metrics) sample(name, help, labels, value string) {
	b := m.samples[name]
	if b == nil {
		b = new(bytes.Buffer)
		m.names, m.samples[name] = append(m.names, name), b
		kind := "gauge"
		if strings.HasSuffix(name, "_total") {
			kind = "counter"
		}
		fmt.Fprintf(b, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
	}
	fmt.Fprintf(b, "%s{%s} %s\n", name, labels, value)
}

var escaper = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// label writes a label, whose value may be anything.
func label(name, value string) string {
	return name + `="` + escaper.Replace(strings.ToValidUTF8(value, "\uFFFD")) + `"`
}

// MetricsHandler serves the metrics of this process to Prometheus, usually at
// /metrics. Each request takes a snapshot. It shows sizes, times and counts, and the
// names of devices; who may see them is for the server to decide.
func MetricsHandler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			http.Error(w, "GET or HEAD", http.StatusMethodNotAllowed)
			return
		}
		w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
		_ = Take().WriteMetrics(w) // who asked is gone
	})
}

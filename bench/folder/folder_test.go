package main

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"testing"
)

// TestRun: the document is what readers of it expect, and files that are there
// are used again.
func TestRun(t *testing.T) {
	o := options{device: "host", dir: filepath.Join(t.TempDir(), "photos"), files: 203, classes: 4, repeats: 1}
	for range 2 {
		var out bytes.Buffer
		if err := run(t.Context(), o, &out); err != nil {
			t.Fatal(err)
		}
		var d document
		if err := json.Unmarshal(out.Bytes(), &d); err != nil {
			t.Fatal(err)
		}
		if d.Peer != "Pinion" || d.What != "folder" || d.DeviceName == "" || d.Files != 203 || d.Folders != 4 {
			t.Errorf("%+v", d)
		}
		units := map[string]string{}
		for _, r := range d.Rows {
			units[r.Name] = r.Unit
			// So few files may be less than what else the heap gains and loses.
			few := r.Name == "list in memory"
			if r.Value <= 0 && !few || r.Value < r.Min || r.Value > r.Max {
				t.Errorf("%+v", r)
			}
		}
		for _, s := range d.NotAvailable {
			units[s.Name] = s.Reason
		}
		for _, name := range []string{"first list", "first list and first batch", "list", "list and first batch", "list in memory", "paths", "peak memory"} {
			if units[name] == "" {
				t.Errorf("no row %q", name)
			}
		}
		o.files, o.classes = 7, 7 // not asked for any more
	}
}

func TestOptions(t *testing.T) {
	for _, o := range []options{{files: 3, classes: 4, repeats: 1}, {files: 3, repeats: 1}, {files: 3, classes: 1}} {
		if err := run(t.Context(), o, new(bytes.Buffer)); err == nil {
			t.Errorf("%+v: no error", o)
		}
	}
}

package main

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/pinion-gpu/pinion/bench/internal/harness"
	"github.com/pinion-gpu/pinion/safetensors"
)

// TestQuick: the program runs, checks what it loads, and says so.
func TestQuick(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	var out bytes.Buffer
	if err := run(t.Context(), options{Options: harness.Options{Device: "host:64MiB", Quick: true}, copiers: 2}, &out); err != nil {
		t.Fatal(err)
	}
	var d document
	if err := json.Unmarshal(out.Bytes(), &d); err != nil {
		t.Fatal(err)
	}
	if len(d.Rows) != 4 || d.Bytes < 15<<20 || d.Tensors == 0 {
		t.Errorf("%d rows, %d tensors of %d bytes", len(d.Rows), d.Tensors, d.Bytes)
	}
	for _, r := range d.Rows {
		if r.Value <= 0 || r.By != by {
			t.Errorf("%+v", r)
		}
	}
}

// The model has the size that was asked for, to a row of its head.
func TestGenerate(t *testing.T) {
	for _, n := range []int64{1 << 20, 5_000_001, 20 << 20} {
		path := filepath.Join(t.TempDir(), "model")
		if err := generate(t.Context(), path, n); err != nil {
			t.Fatal(err)
		}
		ck, err := safetensors.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		head, _ := ck.Find("lm_head.weight")
		if row := 2 * head.Shape[1]; ck.Bytes() > n || n-ck.Bytes() > row {
			t.Errorf("%d bytes of %d", ck.Bytes(), n)
		}
		ck.Close()
	}
	for _, n := range []int64{8 << 30, 4 << 30} {
		size := int64(0)
		for _, x := range model(n) {
			size += 2 * x.Elements()
		}
		if size > n || n-size > 8192 {
			t.Errorf("a model of %d bytes has %d", n, size)
		}
	}
}

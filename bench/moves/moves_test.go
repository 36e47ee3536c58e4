package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/bench/internal/harness"
	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/device/devicetest"
	"github.com/pinion-gpu/pinion/transfer"
)

// quick are the options for small sizes on the host backend.
func quick(only string) harness.Options {
	return harness.Options{Device: "host", Quick: true, Only: only}
}

// TestQuick runs everything small on the host backend: the document is what
// readers of it expect, and nothing is skipped that the host can do.
func TestQuick(t *testing.T) {
	devicetest.NeedsPinned(t, devicetest.Open(t), 64<<20)
	file := filepath.Join(t.TempDir(), "data")
	data := make([]byte, 5<<20+123)
	fill(data, 1)
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := run(context.Background(), options{Options: quick(""), core: -1, file: file}, &out); err != nil {
		t.Fatal(err)
	}
	var d document
	if err := json.Unmarshal(out.Bytes(), &d); err != nil {
		t.Fatal(err)
	}
	have := map[string]bool{}
	for _, s := range d.NotAvailable {
		t.Logf("skipped: %s: %s", s.Name, s.Reason)
		have[s.Name] = true
	}
	for _, r := range d.Rows {
		if have[r.Name] {
			t.Errorf("two rows %q", r.Name)
		}
		have[r.Name] = true
		mayBeNone := r.Unit == "allocs" || r.Unit == "%"
		if r.Value < r.Min || r.Value > r.Max || r.Value < 0 || r.Value == 0 && !mayBeNone {
			t.Errorf("%+v", r)
		}
	}
	for _, name := range []string{
		"scattered 16 KiB d2d", "scattered 256 KiB d2h, pageable", "strided rows 16 KiB h2d", "scattered 64 KiB h2d",
		"pageable both", "pipeline in, pinned", "pipeline in, pageable",
		"pipeline in and out, pinned", "pipeline in and out, pageable",
		"file in page cache h2d", "file write d2h", "chosen path, slower than the best",
	} {
		if !have[name] {
			t.Errorf("no row %q", name)
		}
	}
	if have["4 KiB pinned h2d, queued"] || have["disk h2d"] {
		t.Error("queued copies or the disk were measured without being asked for")
	}
	if left, err := filepath.Glob(file + "?*"); err != nil || left != nil {
		t.Errorf("%v is left, %v", left, err)
	}
	if want := 2 * 5; len(d.Choice) != want { // 1 KiB to 256 KiB, both directions
		t.Errorf("%d sizes and directions, want %d", len(d.Choice), want)
	}
	for _, r := range d.Rows {
		if r.Unit == "%" && r.Max > 100 && strings.HasPrefix(r.Name, "pipeline") {
			t.Errorf("%s: up to %v %% of a bound", r.Name, r.Max)
		}
	}
	if d.Peer != "Pinion" || d.What != "moves" || d.DeviceName == "" || d.Commit == "" {
		t.Errorf("%+v", d)
	}
}

// TestOnly: groups can be measured apart, and queued copies only so.
func TestOnly(t *testing.T) {
	devicetest.NeedsPinned(t, devicetest.Open(t), 64<<20)
	for _, c := range []struct{ only, what, rows string }{
		{"queued", "queued", "4 KiB pinned h2d, queued; 4 KiB pinned h2d, queued: allocations; 4 KiB pinned h2d, queued, by the device's call; 4 KiB pinned h2d, queued, by the device's call: allocations"},
		{"page", "moves", "pageable h2d; pageable d2h; pageable both"},
		{"peer", "moves", ""}, // there is no second device
	} {
		var out bytes.Buffer
		if err := run(context.Background(), options{Options: quick(c.only), core: -1}, &out); err != nil {
			t.Fatal(err)
		}
		var d document
		if err := json.Unmarshal(out.Bytes(), &d); err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, r := range d.Rows {
			names = append(names, r.Name)
		}
		if got := strings.Join(names, "; "); got != c.rows || d.What != c.what {
			t.Errorf("--only %s: %q of %q, want %q of %q; skipped %+v", c.only, got, d.What, c.rows, c.what, d.NotAvailable)
		}
	}
	var out bytes.Buffer
	if err := run(context.Background(), options{Options: quick("queued copies"), core: -1}, &out); err == nil || !strings.Contains(err.Error(), "scattered, queued") {
		t.Errorf("%v, want one that names the groups", err)
	}
}

// TestOnlyWithoutFile: rows that need a file are not left out in silence when
// they are asked for.
func TestOnlyWithoutFile(t *testing.T) {
	for _, only := range []string{"disk", "file", "pageable,disk"} {
		var out bytes.Buffer
		err := run(context.Background(), options{Options: quick(only), core: -1}, &out)
		if !errors.Is(err, device.ErrArgument) || !strings.Contains(err.Error(), "--file") || out.Len() > 0 {
			t.Errorf("--only %s: %v, and %d bytes of output", only, err, out.Len())
		}
	}
}

// TestPeer: with a second device there are two rows, of checked bytes.
func TestPeer(t *testing.T) {
	dev, err := device.Open("host")
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	other, err := device.Open("host")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	b := &bench{sizes: quickSizes, document: newDocument(dev, 1), dev: dev}
	m, err := harness.NewMemory(dev)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(b.peerCopies(context.Background(), &memory{m}, other), m.Close()); err != nil {
		t.Fatal(err)
	}
	if len(b.Rows) != 2 || b.Rows[0].Path != "straight" || b.Rows[1].Path != "through host memory" {
		t.Errorf("%+v, skipped %+v", b.Rows, b.NotAvailable)
	}
}

func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var out bytes.Buffer
	if err := run(ctx, options{Options: quick(""), core: -1}, &out); err == nil || out.Len() > 0 {
		t.Errorf("%v, printed %q", err, &out)
	}
}

// TestScatteredRight: a byte in the wrong place is found, inside the blocks and
// beside them.
func TestScatteredRight(t *testing.T) {
	const size = 4
	src := []byte("aaaabbbbcccc")
	blocks := []transfer.Block{{Dst: 8, Src: 0, Bytes: size}, {Dst: 0, Src: 4, Bytes: size}}
	right := "bbbbZZZZaaaa" // blank is Z
	if err := scatteredRight([]byte(right), src, blocks); err != nil {
		t.Error(err)
	}
	for i := range right {
		wrong := []byte(right)
		wrong[i] ^= 1
		if scatteredRight(wrong, src, blocks) == nil {
			t.Errorf("%q passes", wrong)
		}
	}
}

func TestClampedRight(t *testing.T) {
	sent := []byte{0, 1, 127, 128, 255}
	if err := clampedRight([]byte{0, 1, 127, 0, 0}, sent); err != nil {
		t.Error(err)
	}
	if err := clampedRight([]byte{0, 1, 127, 0, 255}, sent); err == nil || !strings.Contains(err.Error(), "byte 4 of 5") {
		t.Error(err)
	}
}

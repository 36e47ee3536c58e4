package main

import (
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/pinion-gpu/pinion/cmd/pinion/internal/cli"
	"github.com/pinion-gpu/pinion/internal/provenance"
)

var feedKeys = []string{"measured_at", "version", "commit", "platform", "cpus", "device", "device_name", "dataset", "batch_shape", "dtype",
	"samples", "batches", "failed_samples", "replaced_samples", "failures", "limit", "initialisation_seconds", "seconds", "decode_on_device", "samples_per_s", "h2d_bytes",
	"h2d_gb_per_s", "device_wait_fraction", "workers", "slabs", "device_buffers", "host_bytes", "device_bytes",
	"pinned", "stages", "epochs"}

func TestFeedJSON(t *testing.T) {
	dir := makePhotos(t, 5)
	args := []string{"feed", dir, "--device", "host:1GiB", "--json", "--batch", "2", "--size", "16", "--epochs", "2", "--checksum", "--dtype", "bf16"}
	doc := document(t, append([]string{"checksum", "jpeg_decoder", "decode_reason", "pageable_reason"}, feedKeys...), args...)
	for key, want := range map[string]any{
		"device": "host:1GiB", "dataset": dir, "dtype": "bf16", "samples": 10., "batches": 6., "failed_samples": 0.,
		"h2d_bytes": 10. * (16*16*3 + 4), "pinned": false,
	} {
		if doc[key] != want {
			t.Errorf("%s is %v, want %v", key, doc[key], want)
		}
	}
	if _, err := time.Parse(time.RFC3339, doc["measured_at"].(string)); err != nil {
		t.Error(err)
	}
	if f := doc["device_wait_fraction"].(float64); f < 0 || f > 1 {
		t.Errorf("the device waited %g of the time", f)
	}
	if s := doc["seconds"].(float64); s <= 0 || math.Abs(doc["samples_per_s"].(float64)*s-10) > 1e-6 {
		t.Errorf("10 samples in %g s are %v a second", s, doc["samples_per_s"])
	}
	stages := doc["stages"].([]any)
	var names []string
	for _, s := range stages {
		row := s.(map[string]any)
		names = append(names, row["stage"].(string))
		for _, key := range []string{"where", "seconds", "seconds_per_sample", "busy_fraction"} {
			if _, there := row[key]; !there {
				t.Errorf("stage %v has no %q", row["stage"], key)
			}
		}
		if _, there := stageNames[row["stage"].(string)]; !there {
			t.Errorf("stage %v has no words for people", row["stage"])
		}
	}
	if !slices.Equal(names, []string{"read", "decode", "resize", "idle", "h2d", "decode on device", "transform"}) {
		t.Errorf("stages %q", names)
	}
	epochs := doc["epochs"].([]any)
	if len(epochs) != 2 {
		t.Fatalf("%d epochs", len(epochs))
	}
	for _, e := range epochs {
		row := e.(map[string]any)
		for _, key := range []string{"samples", "seconds", "samples_per_s", "device_free_bytes", "host_bytes", "heap_bytes"} {
			if row[key].(float64) <= 0 {
				t.Errorf("%s of an epoch is %v", key, row[key])
			}
		}
	}

	// The checksum is that of the bytes: the same with other settings, and
	// another with other bytes.
	sum := doc["checksum"].(string)
	if !strings.HasPrefix(sum, "sha256:") || len(sum) != 7+64 {
		t.Errorf("checksum %q", sum)
	}
	for _, more := range [][]string{{"--workers", "1"}, {"--workers", "5", "--prefetch", "1"}, {"--no-pin"}, {"--pin-budget", "1MiB"}, {"--batch", "5"}} {
		if again := document(t, nil, append(args, more...)...)["checksum"]; again != sum {
			t.Errorf("%q: checksum %v, was %s", more, again, sum)
		}
	}
	for _, more := range [][]string{{"--shuffle"}, {"--shuffle", "--seed", "1"}, {"--drop-last"}, {"--dtype", "f16"}, {"--size", "17"}} {
		if again := document(t, nil, append(args, more...)...)["checksum"]; again == sum {
			t.Errorf("%q: the checksum is still %s", more, sum)
		}
	}
}

// An array has no decoder, and keeps its type unless told otherwise.
func TestFeedArray(t *testing.T) {
	file := writeFile(t, t.TempDir(), "a.npy", npy("{'descr': '<f4', 'fortran_order': False, 'shape': (9, 2, 3)}", 54))
	doc := document(t, feedKeys, "feed", file, "--device", "host", "--json", "--batch", "4")
	if _, there := doc["jpeg_decoder"]; there || doc["dtype"] != "f32" || doc["samples"] != 9. || doc["h2d_bytes"] != 2.*(4*24+16)+32+4 {
		t.Errorf("%v", doc)
	}
	if doc := document(t, nil, "feed", file, "--device", "host", "--json", "--dtype", "f16", "--batch", "9", "--drop-last"); doc["dtype"] != "f16" || doc["samples"] != 9. {
		t.Errorf("%v", doc)
	}
	r := pinion(t, "feed", file, "--device", "host", "--batch", "9")
	for _, want := range []string{"9 samples in 1 batch of 9x2x3 f32", "STAGE"} {
		if r.code != exitDone || !strings.Contains(r.stdout, want) {
			t.Errorf("exit code %d, %q is missing in\n%s%s", r.code, want, r.stdout, r.stderr)
		}
	}
}

func TestDevicesJSON(t *testing.T) {
	doc := document(t, []string{"measured_at", "version", "commit", "platform", "cpus", "devices", "not_available", "libraries"}, "devices", "--json")
	found := false
	for _, d := range doc["devices"].([]any) {
		row := d.(map[string]any)
		for _, key := range []string{"id", "backend", "name", "memory_total_bytes", "memory_free_bytes", "copy_engines", "multiprocessors", "capabilities"} {
			if _, there := row[key]; !there {
				t.Errorf("device %v has no %q", row["id"], key)
			}
		}
		if node, there := row["numa_node"]; there && node.(float64) < 0 {
			t.Errorf("NUMA node %v", node)
		}
		found = found || row["backend"] == "host"
	}
	if !found {
		t.Error("the host backend is not listed")
	}
	for _, u := range doc["not_available"].([]any) {
		row := u.(map[string]any)
		if row["name"] != "cuda" || !strings.Contains(row["reason"].(string), "PINION_LIB_CUDA") {
			t.Errorf("not available: %v", row)
		}
	}
	if len(doc["not_available"].([]any)) != 1 {
		t.Errorf("%v, want one backend that is switched off", doc["not_available"])
	}
	libraries := map[string]bool{}
	for _, l := range doc["libraries"].([]any) {
		row := l.(map[string]any)
		libraries[row["name"].(string)] = true
		_, file := row["file"]
		if _, reason := row["reason"]; file == reason || row["use"] == "" {
			t.Errorf("a library is there or it is not, and is for something: %v", row)
		}
	}
	for _, name := range []string{"CUDA driver", "NVML", "cuFile", "nvJPEG", "libturbojpeg"} {
		if !libraries[name] {
			t.Errorf("%s is not listed", name)
		}
	}
}

func TestDevicesText(t *testing.T) {
	r := pinion(t, "devices")
	for _, want := range []string{"\nNot available:  cuda", "host  ", "\n  memory  ", "\nLIBRARY "} {
		if r.code != exitDone || !strings.Contains("\n"+r.stdout, want) {
			t.Errorf("exit code %d, %q is missing\n%s%s", r.code, want, r.stdout, r.stderr)
		}
	}
	node := 0
	list := &deviceList{
		Devices: []deviceRow{
			{ID: "cuda:0", Backend: "cuda", Name: "NVIDIA H200", MemoryTotalBytes: 150 << 30, MemoryFreeBytes: 149 << 30, CopyEngines: 3, NUMANode: &node,
				Link: &cli.LinkRow{Kind: "PCIe", Generation: 5, Width: 16, MaxGeneration: 5, MaxWidth: 16, WireGBPerS: 63.015}, Capabilities: []string{"pinned", "mapped", "managed", "virtual-memory", "stream-ordered-allocation", "batch", "box", "peer", "files", "kernels"}},
			{ID: "host", Backend: "host", Name: "host memory", SharesHostMemory: true, MemoryTotalBytes: 8 << 30, MemoryFreeBytes: 8 << 30, CopyEngines: 2},
		},
		Libraries: []libraryRow{
			{Name: "cuFile", Use: "files straight to the GPU", Reason: "libcufile.so.0: cannot open shared object file: No such file or directory"},
			{Name: "libturbojpeg", Use: "fast JPEG decoding", Reason: "switched off by PINION_LIB_TURBOJPEG"},
			{Name: "nvJPEG", Use: "JPEG decoding on the GPU", File: "/usr/local/cuda/lib64/libnvjpeg.so.13"},
		},
	}
	var text strings.Builder
	list.print(&text)
	const want = `cuda:0  NVIDIA H200
  memory        150 GiB, 149 GiB free
  link          PCIe 5.0 x16, 63 GB/s
  copy engines  3
  can do        pinned, mapped, managed, virtual-memory,
                stream-ordered-allocation, batch, box, peer, files, kernels

host  host memory
  memory        8 GiB, 8 GiB free
  link          none: shares the host's memory
  copy engines  2
  can do

LIBRARY       FOR                        FILE
cuFile        files straight to the GPU  not installed (libcufile.so.0)
libturbojpeg  fast JPEG decoding         not used: switched off by
                                         PINION_LIB_TURBOJPEG
nvJPEG        JPEG decoding on the GPU   /usr/local/cuda/lib64/libnvjpeg.so.13
`
	if text.String() != want {
		t.Errorf("got\n%s\nwant\n%s", text.String(), want)
	}
}

func TestBenchLinkJSON(t *testing.T) {
	args := []string{"bench", "link", "--device", "host:16MiB", "--size", "64KiB", "--repeats", "2"}
	doc := document(t, []string{"measured_at", "commit", "platform", "cpus", "device", "device_name", "size_bytes", "repeats",
		"initialisation_seconds", "bulk", "small_copies", "pin_cost", "not_available"}, append(args, "--json")...)
	if doc["size_bytes"] != 65536. || doc["repeats"] != 2. || doc["device"] != "host:16MiB" {
		t.Errorf("%v", doc)
	}
	paths := map[string]bool{}
	for _, b := range doc["bulk"].([]any) {
		row := b.(map[string]any)
		paths[row["path"].(string)+" "+row["direction"].(string)] = true
		least, median, most := row["min_gb_per_s"].(float64), row["gb_per_s"].(float64), row["max_gb_per_s"].(float64)
		if least <= 0 || median < least || most < median {
			t.Errorf("%v", row)
		}
	}
	for _, want := range []string{"pageable h2d", "pageable d2h", "staged h2d", "staged d2h"} {
		if !paths[want] {
			t.Errorf("%s is not measured", want)
		}
	}
	r := pinion(t, args...)
	if r.code != exitDone || !strings.Contains(r.stdout, "PATH") || !strings.Contains(r.stdout, "open the device (once)") {
		t.Errorf("exit code %d\n%s%s", r.code, r.stdout, r.stderr)
	}
}

// What people read, word for word.
func TestFeedText(t *testing.T) {
	out := &feedOutput{
		Record: provenance.Record{}.On("cuda:0", "Fast GPU"), JPEGDecoder: "libjpeg-turbo", BatchShape: []int{64, 3, 224, 224}, DType: "bf16",
		Samples: 12800, Batches: 200, FailedSamples: 3, Seconds: 6.4, SamplesPerS: 2000, H2DGBPerS: 0.301, DeviceWaitFraction: 0.123,
		classes: []string{"", "bee\x1b[2J", "cat", "dog that has a very long name", "eel", "fox", "gnu"},
		Workers: 16, Slabs: 5, DeviceBuffers: 3, HostBytes: 48 << 20, DeviceBytes: 144 << 20, Pinned: true, Checksum: "sha256:00", ReplacedSamples: 1, Limit: "decode",
		Stages: []stageRow{
			{"read", "worker", 0.5, 39e-6, 0.005},
			{"decode", "worker", 12, 938e-6, 0.117},
			{"h2d", "device", 0.04, 3.1e-6, 0.00625},
		},
	}
	var b strings.Builder
	out.print(&b)
	const want = `cuda:0  Fast GPU
12800 samples in 200 batches of 64x3x224x224 bf16, 6.40 s
7 classes: (outside of sub-folders), "bee\x1b[2J", cat, "dog that has a very long", eel, …

  2000 samples/s, 0.301 GB/s to the device; it waited for data 12.3 % of the time
  held up by decoding
  3 samples could not be read: 2 skipped, 1 replaced
  16 workers; 5 slabs of host memory, 48 MiB (pinned); 3 device buffers, 144 MiB
  JPEG by libjpeg-turbo
  checksum sha256:00

STAGE           WHERE         TOTAL  PER SAMPLE    BUSY
read files      16 workers   500 ms     39.0 µs   0.5 %
decode          16 workers   12.0 s      938 µs  11.7 %
copy to device  device      40.0 ms     3.10 µs   0.6 %
`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}

// Every command has an example of itself in its help.
func TestHelp(t *testing.T) {
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		path := cmd.CommandPath()
		r := pinion(t, append(strings.Fields(path)[1:], "--help")...)
		if r.code != exitDone || r.stderr != "" {
			t.Errorf("%s --help: exit code %d: %s", path, r.code, r.stderr)
		}
		if !strings.Contains(r.stdout, "Examples:\n"+cmd.Example) || !strings.Contains(cmd.Example, "  "+path) {
			t.Errorf("%s --help has no example of itself:\n%s", path, r.stdout)
		}
		for line := range strings.Lines(r.stdout) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
				t.Errorf("%s --help: a line of %d columns: %s", path, n, line)
			}
		}
		if !strings.Contains(r.stdout, cli.ExitCodes) {
			t.Errorf("%s --help does not say what the exit codes are", path)
		}
		if cmd.Short == "" || !strings.Contains(r.stdout, "--help") {
			t.Errorf("%s --help:\n%s", path, r.stdout)
		}
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
	}
	visit(newRoot())

	for _, args := range [][]string{nil, {"help"}, {"bench"}, {"help", "feed"}} {
		if r := pinion(t, args...); r.code != exitDone || !strings.Contains(r.stdout, "Examples:") {
			t.Errorf("%q: exit code %d:\n%s%s", args, r.code, r.stdout, r.stderr)
		}
	}
}

// The commands that the help of the root shows are there.
func TestRootExample(t *testing.T) {
	root := newRoot()
	for line := range strings.Lines(root.Example) {
		line, _, _ = strings.Cut(line, "#")
		args := strings.Fields(line)[1:]
		cmd, _, err := root.Find(args)
		if err != nil || cmd == root {
			t.Errorf("%q finds %s, %v", line, cmd.Name(), err)
		}
	}
}

// Classes are those of labels, not the one of a folder without sub-folders.
func TestFeedClasses(t *testing.T) {
	dir := makePhotos(t, 4)
	if doc := document(t, []string{"classes"}, "feed", dir, "--device", "host", "--json"); doc["classes"] != 2. {
		t.Errorf("%v classes", doc["classes"])
	}
	for path, want := range map[string]bool{dir: true, filepath.Join(dir, "even"): false} {
		r := pinion(t, "feed", path, "--device", "host")
		if r.code != exitDone || strings.Contains(r.stdout, "\n2 classes: even, odd\n") != want || strings.Contains(r.stdout, "class") != want {
			t.Errorf("%s: %+v", path, r)
		}
	}
}

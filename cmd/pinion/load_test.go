package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/internal/testkit"
	"github.com/pinion-gpu/pinion/safetensors"
)

// makeCheckpoint writes a model of a few layers, in files of at most so many
// bytes.
func makeCheckpoint(t testing.TB, shardBytes int64) string {
	t.Helper()
	tensors := []safetensors.Tensor{{Name: "lm_head.weight", DType: safetensors.BF16, Shape: []int64{100, 32}}, {Name: "scale", DType: safetensors.F32}}
	for _, i := range []int{0, 1, 2, 10} {
		tensors = append(tensors, safetensors.Tensor{Name: fmt.Sprintf("layers.%d.weight", i), DType: safetensors.BF16, Shape: []int64{64, 32}},
			safetensors.Tensor{Name: fmt.Sprintf("layers.%d.steps", i), DType: safetensors.I64, Shape: []int64{1}})
	}
	path := filepath.Join(t.TempDir(), "model")
	w, err := safetensors.CreateFolder(path, tensors, safetensors.WriterOptions{ShardBytes: shardBytes, Metadata: map[string]string{"format": "pt"}})
	ok(t, err)
	for _, x := range w.Tensors() {
		ok(t, w.Write(x.Name, testkit.RandomBytes(int(x.Bytes), uint64(len(x.Name)))))
	}
	ok(t, w.Commit())
	return path
}

func TestInspect(t *testing.T) {
	path := makeCheckpoint(t, 10_000)
	r := pinion(t, "inspect", path)
	want := `PATH: 10 tensors, 11,397 parameters, 22.3 KiB in 3 files
format: "pt"

TENSOR            DTYPE  SHAPE       SIZE
layers.0.steps    I64    1            8 B
layers.0.weight   BF16   64x32      4 KiB
layers.1.steps    I64    1            8 B
layers.1.weight   BF16   64x32      4 KiB
layers.2.steps    I64    1            8 B
layers.2.weight   BF16   64x32      4 KiB
layers.10.steps   I64    1            8 B
layers.10.weight  BF16   64x32      4 KiB
lm_head.weight    BF16   100x32  6.25 KiB
scale             F32    scalar       4 B

DTYPE  TENSORS      SIZE
BF16         5  22.2 KiB
I64          4      32 B
F32          1       4 B

FILE                              TENSORS      SIZE
model-00001-of-00003.safetensors        2  6.43 KiB
model-00002-of-00003.safetensors        4  8.34 KiB
model-00003-of-00003.safetensors        4  8.34 KiB
`
	if got := strings.ReplaceAll(r.stdout, path, "PATH"); r.code != exitDone || got != want {
		t.Errorf("%d\n%s\nwant\n%s", r.code, got, want)
	}

	doc := document(t, []string{"measured_at", "version", "platform", "dtypes", "metadata"}, "inspect", path, "--json")
	for key, value := range map[string]any{"checkpoint": path, "tensors": 10., "parameters": 11397., "bytes": 22820.} {
		if doc[key] != value {
			t.Errorf("%s is %v, want %v", key, doc[key], value)
		}
	}
	row := doc["rows"].([]any)[1].(map[string]any)
	if row["name"] != "layers.0.weight" || row["dtype"] != "BF16" || fmt.Sprint(row["shape"]) != "[64 32]" || row["bytes"] != 4096. || row["file_number"] != 1. {
		t.Errorf("row %v", row)
	}
	if file := doc["files"].([]any)[1].(map[string]any); file["name"] != filepath.Join(path, "model-00002-of-00003.safetensors") || file["tensors"] != 4. {
		t.Errorf("file %v", file)
	}

	// A name cannot do anything to a terminal.
	bad := filepath.Join(t.TempDir(), "bad.safetensors")
	w, err := safetensors.Create(bad, []safetensors.Tensor{{Name: "a\x1b[31m\n", DType: safetensors.U8, Shape: []int64{0}}},
		safetensors.WriterOptions{Metadata: map[string]string{"b\x1b[31m\n": "\x1b"}})
	ok(t, err)
	ok(t, w.Commit())
	if r := pinion(t, "inspect", bad); r.code != exitDone || strings.Contains(r.stdout, "\x1b") || !strings.Contains(r.stdout, `a\x1b[31m\n`) {
		t.Errorf("%d %q", r.code, r.stdout)
	}
	doc = document(t, []string{"tensors", "bytes"}, "load", bad, "--device", "host:1MiB", "--json")
	if path, there := doc["path"]; there {
		t.Errorf("nothing took the path %q", path)
	}
}

func TestLoadCommand(t *testing.T) {
	path := makeCheckpoint(t, 10_000)
	keys := []string{"measured_at", "device", "device_name", "checkpoint", "files", "devices", "tensors", "bytes", "device_bytes", "initialisation_seconds",
		"seconds", "gb_per_s", "path", "cached_bytes", "direct_bytes", "mapped_bytes", "cufile_bytes", "notes"}
	for _, c := range []struct {
		args    string
		devices string
		tensors float64
		bytes   float64
	}{
		{"--device host:1MiB", "[host:1MiB]", 10, 22820},
		{"--device host:1MiB,host:2MiB", "[host:1MiB host:2MiB]", 10, 22820},
		{"--device host:1MiB --only layers.1* --only scale", "[host:1MiB]", 5, 2*4104 + 4},
		{"--device host:1MiB --dtype f32", "[host:1MiB]", 10, 22820},
		{"--device host:20KiB --stream", "[host:20KiB]", 10, 22820},
		{"--device host:20KiB,host:30KiB --stream --buffers 1", "[host:20KiB host:30KiB]", 10, 22820},
		{"--device host:1MiB --path cached --copiers 2", "[host:1MiB]", 10, 22820},
	} {
		doc := document(t, keys, append([]string{"load", path, "--json"}, strings.Fields(c.args)...)...)
		if doc["tensors"] != c.tensors || doc["bytes"] != c.bytes || fmt.Sprint(doc["devices"]) != c.devices || doc["files"] != 3. {
			t.Errorf("%s: %v", c.args, doc)
		}
		if seconds := doc["seconds"].(float64); seconds <= 0 || doc["gb_per_s"].(float64)*seconds*1e9 < c.bytes*0.99 {
			t.Errorf("%s: %v GB/s in %v s", c.args, doc["gb_per_s"], seconds)
		}
		if _, streams := doc["layers"]; streams != strings.Contains(c.args, "--stream") {
			t.Errorf("%s: layers %v", c.args, doc["layers"])
		}
		ways := 0.
		for _, way := range []string{"cached", "direct", "mapped", "cufile"} {
			n := doc[way+"_bytes"].(float64)
			ways += n
			if slices.Contains(strings.Split(doc["path"].(string), "+"), way) != (n > 0) {
				t.Errorf("%s: path %v, %v bytes %s", c.args, doc["path"], n, way)
			}
		}
		if ways < c.bytes {
			t.Errorf("%s: %v bytes by all ways", c.args, ways)
		}
	}
	r := pinion(t, "load", path, "--device", "host:1MiB")
	for _, say := range []string{"host:1MiB  host memory", path + ": 10 tensors, 22.3 KiB in ", " GB/s\n", "device memory  "} {
		if !strings.Contains(r.stdout, say) {
			t.Errorf("%q is not in\n%s", say, r.stdout)
		}
	}
	r = pinion(t, "load", path, "--device", "host:1MiB", "--stream", "--buffers", "3")
	if !strings.Contains(r.stdout, "6 layers, one after the other") || !strings.Contains(r.stdout, "18.8 KiB") {
		t.Errorf("%s", r.stdout)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if r := pinionWith(t, ended, "load", path, "--device", "host:1MiB"); r.code != exitFailed || !strings.Contains(r.stderr, "interrupted") {
		t.Errorf("%d %s", r.code, r.stderr)
	}
}

func TestLoadCommandErrors(t *testing.T) {
	path := makeCheckpoint(t, 10_000)
	file := filepath.Join(path, "model-00001-of-00003.safetensors")
	broken := makeCheckpoint(t, 10_000)
	ok(t, os.Remove(filepath.Join(broken, "model-00002-of-00003.safetensors")))
	short := makeCheckpoint(t, 0)
	ok(t, os.Truncate(filepath.Join(short, "model.safetensors"), 2000))
	text := testkit.WriteFile(t, "not a model", t.TempDir(), "a.safetensors")
	for _, c := range []struct {
		args string
		code int
		say  []string
	}{
		{"inspect", 2, []string{"name a .safetensors file"}},
		{"load", 2, []string{"name a .safetensors file"}},
		{"inspect " + broken, 1, []string{"missing shards: 1 of 3, with 4 of 10 tensors; the first is model-00002-of-00003.safetensors: file does not exist\n"}},
		{"load " + broken, 1, []string{"missing shards: 1 of 3"}},
		{"inspect " + short, 1, []string{"model.safetensors: safetensors header: damaged", "cut short: the tensors have 22820 bytes"}},
		{"inspect " + text, 1, []string{"not a safetensors file"}},
		{"inspect " + t.TempDir(), 1, []string{"no .safetensors file and no index"}},
		{"inspect " + path + "/none", 1, []string{"none does not exist"}},
		{"inspect " + file + " " + path, 1, []string{"is also in"}},
		{"load --device host:10KiB " + path, 1, []string{"out of device memory", "loading 10 tensors needs", "host:10KiB has 10 KiB free", "--stream loads layer by layer"}},
		{"load --stream --device host:10KiB " + path, 1, []string{"2 buffers of 6.25 KiB", "--buffers 1"}},
		{"load --only x* --device host:1MiB " + path, 1, []string{"--only x* matches none of 10 tensors"}},
		{"load --only [ " + path, 2, []string{"--only", "no pattern"}},
		{"load --dtype u8 " + path, 2, []string{"--dtype", "f16"}},
		{"load --path sideways " + path, 2, []string{"--path", "direct"}},
		{"load --path cufile --device host:1MiB " + path, 1, []string{"cufile", "not supported"}},
		{"load --buffers 2 " + path, 2, []string{"--buffers needs --stream"}},
		{"load --buffers 0 --stream " + path, 2, []string{"--buffers"}},
		{"load --copiers -1 " + path, 2, []string{"--copiers"}},
		{"load --stream --device host:20KiB,host:2KiB " + path, 1, []string{"out of device memory", "host:2KiB has 2 KiB free"}},
		{"load --device cuda:0,cuda:0 " + path, 2, []string{"--device names cuda:0 twice"}},
		{"load --device host:1MiB,gpu " + path, 2, []string{"--device", "gpu"}},
	} {
		r := pinion(t, strings.Fields(c.args)...)
		if r.code != c.code || r.stdout != "" {
			t.Errorf("%s: exit code %d, want %d; %s%s", c.args, r.code, c.code, r.stdout, r.stderr)
		}
		for _, say := range c.say {
			if !strings.Contains(r.stderr, say) {
				t.Errorf("%s: %q is not in %s", c.args, say, r.stderr)
			}
		}
	}
}

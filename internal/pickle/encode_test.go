package pickle

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func encode(t testing.TB, v any) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := Encode(&b, v); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// corners is one value with every type and every width.
func corners() any {
	shared := &List{Items: []any{int64(1), "shared"}}
	long := &List{}
	for i := range 2500 {
		long.Items = append(long.Items, int64(i))
	}
	wide := &Dict{}
	for i := range 1001 {
		wide.Items = append(wide.Items, Item{fmt.Sprint("key", i), int64(i)})
	}
	tuple := &Tuple{Items: long.Items}
	list := &List{Items: []any{
		nil, true, false, 1.5, -0.25, math.Inf(-1), "", "ä€😀", strings.Repeat("x", 255), strings.Repeat("y", 256), strings.Repeat("z", 5000),
		[]byte{}, []byte("\x00\xff"), bytes.Repeat([]byte("b"), 300),
		&List{}, &Tuple{}, &Dict{}, shared, shared, long, wide, tuple, &Tuple{Items: []any{shared}},
		&Dict{Items: []Item{{int64(1), "int"}, {"a", nil}, {nil, shared}, {&Tuple{Items: []any{int64(1), "k"}}, 2.5}}},
		uint64(math.MaxUint64), new(big.Int).Lsh(big.NewInt(-1), 64), new(big.Int).Lsh(big.NewInt(3), 4000),
	}}
	for _, edge := range []int64{0, math.MaxUint8, math.MaxUint16, math.MaxInt32, math.MinInt32, math.MaxInt64, math.MinInt64} {
		for d := int64(-1); d <= 1; d++ {
			list.Items = append(list.Items, edge+d) // wraps at the ends, which is fine
		}
	}
	for _, shift := range []uint{63, 64, 71, 72, 127, 128} {
		for d := int64(-1); d <= 1; d++ {
			n := new(big.Int).Add(new(big.Int).Lsh(big.NewInt(1), shift), big.NewInt(d))
			if !n.IsUint64() {
				list.Items = append(list.Items, n)
			}
			if n = new(big.Int).Neg(n); !n.IsInt64() {
				list.Items = append(list.Items, n)
			}
		}
	}
	list.Items = append(list.Items, &Dict{Items: wide.Items[500:]}) // keys with memo numbers above 255
	return list
}

func TestRoundTrip(t *testing.T) {
	want := corners()
	got, err := Decode(encode(t, want))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(plain(got), plain(want)) {
		t.Fatalf("got %v, want %v", plain(got), plain(want))
	}
}

func TestRandomRoundTrip(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var shared []any
	var value func(level int) any
	value = func(level int) any {
		if len(shared) > 0 && rng.IntN(4) == 0 {
			return shared[rng.IntN(len(shared))]
		}
		kind := rng.IntN(9)
		if level == 0 {
			kind = rng.IntN(6)
		}
		items := make([]any, rng.IntN(5))
		if kind >= 6 {
			for i := range items {
				items[i] = value(level - 1)
			}
		}
		var v any
		switch kind {
		case 0:
			return nil
		case 1:
			return rng.IntN(2) == 0
		case 2:
			return int64(rng.Uint64()) >> rng.IntN(64)
		case 3:
			return rng.NormFloat64()
		case 4:
			return fmt.Sprint(rng.IntN(20))
		case 5:
			return []byte(fmt.Sprint(rng.IntN(20)))
		case 6:
			v = &List{Items: items}
		case 7:
			v = &Tuple{Items: items}
		case 8:
			d := &Dict{}
			for i, item := range items {
				d.Items = append(d.Items, Item{fmt.Sprint(i), item})
			}
			v = d
		}
		shared = append(shared, v)
		return v
	}
	for range 2000 {
		shared = shared[:0]
		want := value(4)
		got, err := Decode(encode(t, want))
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(plain(got), plain(want)) {
			t.Fatalf("got %v, want %v", plain(got), plain(want))
		}
	}
}

// TestConvenience: Go slices and maps are lists and dicts.
func TestConvenience(t *testing.T) {
	got, err := Decode(encode(t, map[string]any{"b": []any{1, "x"}, "a": nil}))
	if err != nil {
		t.Fatal(err)
	}
	want := []any{"dict", "a", nil, "b", []any{"list", int64(1), "x"}}
	if !reflect.DeepEqual(plain(got), want) {
		t.Fatalf("got %v, want %v", plain(got), want)
	}
}

// TestSmall: keys that repeat cost two bytes each.
func TestSmall(t *testing.T) {
	list := &List{}
	for range 1000 {
		list.Items = append(list.Items, &Dict{Items: []Item{{"a rather long key", int64(1)}, {"another long key", "and a value"}}})
	}
	if n := len(encode(t, list)); n > 13*1000+100 {
		t.Fatalf("%d bytes for 1000 records", n)
	}
}

func TestEncodeErrors(t *testing.T) {
	cycle := &List{}
	cycle.Items = []any{cycle, cycle}
	deep := any(nil)
	for range MaxDepth + 1 {
		deep = []any{deep}
	}
	for name, v := range map[string]any{
		"struct":      struct{}{},
		"inside":      []any{map[string]any{"a": int8(1)}},
		"not UTF-8":   "\xff",
		"cycle":       cycle,
		"nested deep": deep,
	} {
		if err := Encode(&bytes.Buffer{}, v); !errors.Is(err, ErrType) {
			t.Errorf("%s: got %v, want %v", name, err, ErrType)
		}
	}
	broken := errors.New("disk full")
	if err := Encode(failing{broken}, "x"); !errors.Is(err, broken) {
		t.Errorf("got %v, want %v", err, broken)
	}
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

// TestViewerOpcodes checks that records of numbers and strings are written
// with the opcodes that the reader of PyTorch's memory_viz page knows; it
// throws at any other.
func TestViewerOpcodes(t *testing.T) {
	records := &List{}
	frames := &List{Items: []any{&Dict{Items: []Item{{"filename", "a.py"}, {"line", int64(7)}, {"name", "f"}}}}}
	for i := range 3000 {
		records.Items = append(records.Items, &Dict{Items: []Item{
			{"action", "alloc"}, {"addr", int64(0x7f0000000000) + int64(i)}, {"size", int64(i)}, {"stream", int64(0)},
			{"name", fmt.Sprint(i)}, {"frames", frames}, {"pool", &Tuple{Items: []any{int64(0), int64(-1)}}},
			{"expandable", true}, {"large", false}, {"none", nil}, {"ratio", 0.5}, {"text", strings.Repeat("x", 300)},
		}})
	}
	width := map[byte]int{'e': 0, 'h': 1, 'J': 4, 'K': 1, 'M': 2, '}': 0, ']': 0, 'j': 4, '(': 0, 0x94: 0, 0x80: 1,
		'u': 0, '.': 0, 0x89: 0, ')': 0, 0x88: 0, 'N': 0, 'G': 8, 't': 0}
	in := encode(t, records)
	if in[1] > 4 {
		t.Fatalf("protocol %d", in[1])
	}
	for at := 0; at < len(in); {
		op := in[at]
		at++
		switch n, ok := width[op]; {
		case ok:
			at += n
		case op == opShortBinUnicode || op == opLong1:
			at += 1 + int(in[at])
		case op == opBinUnicode:
			at += 4 + int(in[at]) + int(in[at+1])<<8
		default:
			t.Fatalf("opcode 0x%02x at %d", op, at-1)
		}
	}
}

// TestPython has Python load what Encode writes and write it again in every
// protocol that is read here.
func TestPython(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("no python3")
	}
	dir := t.TempDir()
	want := corners()
	if err := os.WriteFile(filepath.Join(dir, "in"), encode(t, want), 0o600); err != nil {
		t.Fatal(err)
	}
	const script = `
import pickle, sys
value = pickle.load(open("in", "rb"))
assert value[:4] == [None, True, False, 1.5] and value[7] == "ä€😀", value[:8]
assert value[17] is value[18] and value[17] == [1, "shared"]
assert value[21] == tuple(range(2500)) and value[20]["key1000"] == 1000
assert value[23] == {1: "int", "a": None, None: [1, "shared"], (1, "k"): 2.5}
assert value[-1]["key1000"] == 1000 and len(value[-1]) == 501
assert value[24:27] == [2**64-1, -2**64, 3 << 4000]
for protocol in 2, 3, 4, 5:
    # Protocol 2 writes bytes as a call of codecs.encode.
    pickle.dump([v for v in value if type(v) is not bytes] if protocol == 2 else value, open(f"out{protocol}", "wb"), protocol)
`
	cmd := exec.Command(python, "-c", script)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PYTHONUTF8=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	noBytes := &List{}
	for _, item := range want.(*List).Items {
		if _, ok := item.([]byte); !ok {
			noBytes.Items = append(noBytes.Items, item)
		}
	}
	for protocol, want := range map[int]any{2: noBytes, 3: want, 4: want, 5: want} {
		in, err := os.ReadFile(filepath.Join(dir, fmt.Sprint("out", protocol)))
		if err != nil {
			t.Fatal(err)
		}
		got, err := Decode(in)
		if err != nil {
			t.Fatalf("protocol %d: %v", protocol, err)
		}
		if !reflect.DeepEqual(plain(got), plain(want)) {
			t.Fatalf("protocol %d: got %v, want %v", protocol, plain(got), plain(want))
		}
	}
}

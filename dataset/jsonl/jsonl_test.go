package jsonl

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dataset/internal/datatest"
	"github.com/pinion-gpu/pinion/dataset/internal/lines"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

func openJSON(t testing.TB, text string, opts Options) (*Dataset, error) {
	t.Helper()
	return Open(t.Context(), datatest.WriteFile(t, filepath.Join(t.TempDir(), "a.jsonl"), []byte(text)), opts)
}

func TestJSONLines(t *testing.T) {
	for _, c := range []struct {
		name string
		text string
		opts Options
		spec string
		want any
	}{
		{"arrays", "[1,2]\n[3,4]\n", Options{}, "2 f32", []float32{1, 2, 3, 4}},
		{"spelling", "\xef\xbb\xbf \t[ 1.5 , -2e3 ]\r\n\n  \n[1E+2,-0.0]", Options{}, "2 f32", []float32{1.5, -2000, 100, float32(math.Copysign(0, -1))}},
		{"numbers", "1\n2.5\n", Options{DType: dtype.F64}, "scalar f64", []float64{1, 2.5}},
		{"numbers without a length", "1\n2.5\n", Options{Ragged: true}, "scalar f32", []float32{1, 2.5}},
		{"nested", "[[1,2],[3,4],[5,6]]\n", Options{}, "3x2 f32", []float32{1, 2, 3, 4, 5, 6}},
		{"only field", `{"x":[1]}` + "\n" + `{"x":[2]}`, Options{}, "1 f32", []float32{1, 2}},
		{"path", `{"a":{"x":0,"b":{"x":[1,2]}},"x":3}`, Options{Field: "a.b.x"}, "2 f32", []float32{1, 2}},
		{"other values", `{"s":"a\"]}\\","n":null,"t":true,"o":{"x":[{}]},"x":7,"a":[[],[1,"]"]]}`, Options{Field: "x"}, "scalar f32", []float32{7}},
		{"escaped name", `{"\u0078\n":[7]}`, Options{Field: "x\n"}, "1 f32", []float32{7}},
		{"empty name", `{"":7,"x":8}`, Options{Field: "x"}, "scalar f32", []float32{8}},
		{"tokens", "[1,2,3]\n[]\n[-4]\n", Options{DType: dtype.I32, Ragged: true}, "<=3 i32", []int32{1, 2, 3, -4}},
		{"points", "[]\n[[1,2],[3,4]]\n[[5,6]]\n", Options{Ragged: true}, "<=2x2 f32", []float32{1, 2, 3, 4, 5, 6}},
		{"whole", "9223372036854775807\n-9223372036854775808\n1e3\n5.0\n9007199254740993\n", Options{DType: dtype.I64}, "scalar i64",
			[]int64{math.MaxInt64, math.MinInt64, 1000, 5, 9007199254740993}},
	} {
		d, err := openJSON(t, c.text, c.opts)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		var samples [][]byte
		if d.Spec().Ragged {
			samples = datatest.Samples(t, d)
		} else {
			samples, _ = datatest.ReadAll(t, d)
		}
		want, _ := binary.Append(nil, binary.LittleEndian, c.want)
		if got := bytes.Join(samples, nil); !bytes.Equal(got, want) || d.Spec().String() != c.spec || d.Label(0) != -1 {
			t.Errorf("%s: %v of %v, want %v of %s", c.name, got, d.Spec(), want, c.spec)
		}
	}
	d, err := openJSON(t, `{"x":[1,2],"y":{"class":3}}`+"\n"+`{"y":{"class":-4.0},"x":[5,6]}`, Options{Field: "x", Label: "y.class"})
	if err != nil {
		t.Fatal(err)
	}
	if _, labels := datatest.ReadAll(t, d); !slices.Equal(labels, []int32{3, -4}) || !strings.HasSuffix(d.Name(1), "a.jsonl[1]") {
		t.Error(labels, d.Name(1))
	}
}

// Blocks of many lines, against what was written.
func TestJSONLinesBlocks(t *testing.T) {
	rng := rand.New(rand.NewPCG(2, 3))
	var text bytes.Buffer
	var want [][]byte
	var labels []int32
	for i := range 6000 { // some 6 MB: several rounds of blocks
		if i%7 == 0 {
			text.WriteString("\n")
		}
		tokens := make([]int32, rng.IntN(150))
		for j := range tokens {
			tokens[j] = rng.Int32()
		}
		line, _ := json.Marshal(map[string]any{"tokens": tokens, "label": i, "text": strings.Repeat("ü[", rng.IntN(50))})
		text.Write(append(line, '\n'))
		sample, _ := binary.Append(nil, binary.LittleEndian, tokens)
		want, labels = append(want, sample), append(labels, int32(i))
	}
	opts := Options{Field: "tokens", Label: "label", DType: dtype.I32, Ragged: true}
	d, err := openJSON(t, text.String(), opts)
	if err != nil {
		t.Fatal(err)
	}
	got := datatest.Samples(t, d)
	if !slices.EqualFunc(got, want, bytes.Equal) {
		t.Error("samples differ")
	}
	for i, l := range labels {
		if d.Label(i) != l {
			t.Fatalf("label %d of sample %d", d.Label(i), i)
		}
	}
	lines := strings.SplitAfter(text.String(), "\n")
	for _, at := range []int{0, 17, 3000, 6500} { // the first of two errors, wherever blocks end
		bad := slices.Clone(lines)
		bad[at], bad[len(bad)-2] = "{\n", "}\n"
		_, err := openJSON(t, strings.Join(bad, ""), opts)
		testkit.WantError(t, "line", err, dataset.ErrFormat, fmt.Sprintf("a.jsonl:%d: format not supported: not JSON", at+1))
		bad[at] = "{\"label\":1,\"tokens\":[[1]]}\n"
		_, err = openJSON(t, strings.Join(bad, ""), opts)
		if at == 0 { // then all others are unlike it
			testkit.WantError(t, "shape", err, dataset.ErrFormat, "a.jsonl:2: format not supported: a sample of shape [")
		} else {
			testkit.WantError(t, "shape", err, dataset.ErrFormat, fmt.Sprintf("a.jsonl:%d: format not supported: a sample of shape [1 1], that of line ", at+1))
		}
	}
}

func TestJSONLinesErrors(t *testing.T) {
	deep := strings.Repeat("[", 33) + "1" + strings.Repeat("]", 33)
	for _, c := range []struct {
		text string
		opts Options
		err  error
		want string
	}{
		{"", Options{}, dataset.ErrEmpty, "no numbers in 0 lines"},
		{"\n \n", Options{}, dataset.ErrEmpty, "no numbers in 2 lines"},
		{"[]\n[]\n", Options{Ragged: true}, dataset.ErrEmpty, "no numbers in 2 lines"},
		{"[1]\n[]\n", Options{}, dataset.ErrEmpty, ":2: dataset is empty: an array of shape [0]"},
		{"[[],[]]\n", Options{Ragged: true}, dataset.ErrEmpty, ":1: dataset is empty: an array of shape [2 0]"},
		{"[1]\n[1,\n", Options{}, dataset.ErrFormat, ":2: format not supported: not JSON: unexpected end"},
		{"[NaN]\n", Options{}, dataset.ErrFormat, "not JSON: invalid character 'N'"},
		{"[01]\n", Options{}, dataset.ErrFormat, "not JSON"},
		{"[1] [2]\n", Options{}, dataset.ErrFormat, "not JSON"},
		{strings.Repeat("[", 20000), Options{}, dataset.ErrFormat, "exceeded max depth"},
		{deep, Options{}, dataset.ErrTooLarge, "arrays of more than 32 axes"},
		{deep[1 : len(deep)-1], Options{}, nil, ""},
		{strings.Repeat(" ", 18<<20), Options{}, dataset.ErrTooLarge, "a line of more than 16777216 bytes"},
		{"[1,2]\n\n[3]\n", Options{}, dataset.ErrFormat, ":3: format not supported: a sample of shape [1], that of line 1 has [2]; option Ragged"},
		{"[1,2]\n[[3]]\n", Options{}, dataset.ErrFormat, ":2: format not supported: a sample of shape [1 1], that of line 1 has [2]"},
		{"[[1,2]]\n[[3]]\n", Options{Ragged: true}, dataset.ErrFormat, "a sample of shape [1 1], that of line 1 has [1 2]"},
		{"[]\n1\n", Options{Ragged: true}, dataset.ErrFormat, ":1: format not supported: a sample of shape [0], that of line 2 has []"},
		{"1\n" + strings.Repeat("\n", 2<<20) + "[]\n", Options{Ragged: true}, dataset.ErrFormat, ":2097154: format not supported: a sample of shape [0], that of line 1 has []"},
		{"1\n[2]\n", Options{Ragged: true}, dataset.ErrFormat, ":2: format not supported: a sample of shape [1], that of line 1 has []"},
		{"[2]\n1\n", Options{Ragged: true}, dataset.ErrFormat, ":2: format not supported: a sample of shape [], that of line 1 has [1]"},
		{"[[1,2],[3]]\n", Options{}, dataset.ErrFormat, "arrays of 2 and 1 elements side by side"},
		{"[[1],2]\n", Options{}, dataset.ErrFormat, "numbers mixed with arrays"},
		{"[[],2]\n", Options{}, dataset.ErrFormat, "numbers mixed with arrays"},
		{"[1,[2]]\n", Options{}, dataset.ErrFormat, "arrays mixed with numbers"},
		{"[1,\"2\"]\n", Options{}, dataset.ErrFormat, "a string; want numbers"},
		{"[1,null]\n", Options{}, dataset.ErrFormat, "null; want numbers"},
		{"[true]\n", Options{}, dataset.ErrFormat, "true; want numbers"},
		{`{"x":{"y":1}}`, Options{}, dataset.ErrFormat, `an object; want numbers in field "x"`},
		{"[1e39]\n", Options{}, dataset.ErrFormat, "1e39 does not fit f32"},
		{"[1e999]\n", Options{DType: dtype.F64}, dataset.ErrFormat, "1e999 does not fit f64"},
		{"[2147483648]\n", Options{DType: dtype.I32}, dataset.ErrFormat, "2147483648 is not a whole number of 32 bits"},
		{"[9223372036854775808]\n", Options{DType: dtype.I64}, dataset.ErrFormat, "not a whole number of 64 bits"},
		{"[0.5]\n", Options{DType: dtype.I64}, dataset.ErrFormat, "0.5 is not a whole number"},
		{`{"x":1,"y":2}`, Options{}, dataset.ErrArgument, `which field holds the samples? There are "x", "y" (Field, --field)`},
		{`{}`, Options{}, dataset.ErrArgument, "There are none"},
		{`{"x":1,"y":2}`, Options{Field: "z"}, dataset.ErrFormat, `:1: format not supported: no field "z"; there are "x", "y"`},
		{`{"x":{"y":2}}`, Options{Field: "x.z"}, dataset.ErrFormat, `no field "z" in field "x"; there are "y"`},
		{`{"x":[2]}`, Options{Field: "x.y"}, dataset.ErrFormat, `an array, no object with a field "y" in field "x"`},
		{`{"x":1,"x":2}`, Options{Field: "x"}, dataset.ErrFormat, `two fields "x"`},
		{`[1]`, Options{Field: "x"}, dataset.ErrFormat, `an array, no object with a field "x"`},
		{`{"x":1}`, Options{Field: "x", Label: "y"}, dataset.ErrFormat, `no field "y"`},
		{`{"x":1,"y":"cat"}` + "\n" + `{"x":1,"y":2}`, Options{Field: "x", Label: "y"}, dataset.ErrFormat, `:2: format not supported: labels of 1 number mixed with labels of text in field "y"`},
		{`{"x":1,"y":[[1]]}`, Options{Field: "x", Label: "y"}, dataset.ErrFormat, `labels of shape [1 1]`},
		{`{"x":1,"y":3e9}`, Options{Field: "x", Label: "y"}, dataset.ErrFormat, `does not fit 32 bits in field "y"`},
		{"1", Options{DType: dtype.U8}, dataset.ErrArgument, "JSON numbers as u8"},
	} {
		_, err := openJSON(t, c.text, c.opts)
		if c.err == nil {
			if err != nil {
				t.Error(err)
			}
			continue
		}
		testkit.WantError(t, fmt.Sprintf("%.40q", c.text), err, c.err, c.want)
		testkit.WantError(t, fmt.Sprintf("%.40q", c.text), err, c.err, "a.jsonl")
	}
	_, err := Open(t.Context(), filepath.Join(t.TempDir(), "none"), Options{})
	testkit.WantError(t, "missing", err, fs.ErrNotExist, "none")
}

// jsonModel is what encoding/json makes of a line: the numbers and the shape
// of field x.
func jsonModel(line []byte) (numbers []float64, shape []int, ok bool) {
	var top map[string]any
	d := json.NewDecoder(bytes.NewReader(line))
	d.UseNumber()
	if !json.Valid(line) || d.Decode(&top) != nil {
		return nil, nil, false
	}
	var walk func(v any) ([]int, bool)
	walk = func(v any) ([]int, bool) {
		switch v := v.(type) {
		case json.Number:
			x, err := v.Float64()
			numbers = append(numbers, x)
			return nil, err == nil
		case []any:
			var inner []int
			for i, e := range v {
				s, ok := walk(e)
				if !ok || i > 0 && !slices.Equal(s, inner) {
					return nil, false
				}
				inner = s
			}
			return append([]int{len(v)}, inner...), true
		}
		return nil, false
	}
	shape, ok = walk(top["x"])
	return numbers, shape, ok
}

// FuzzJSONLines: a line means the same to encoding/json.
func FuzzJSONLines(f *testing.F) {
	for _, s := range []string{`{"x":[1,2]}`, `{"x":[[1.5e3],[-2]],"y":"\"]"}`, `{"x":7}`, `{"y":[{"x":1}],"x":[[],[]]}`, `{"x":[[1],[2,3]]}`, `{"x":[1,[2]]}`, `{"x":"1"}`, `{"x":null}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		line = bytes.TrimSpace(line)
		if len(line) == 0 || bytes.IndexByte(line, '\n') >= 0 {
			return
		}
		numbers, shape, ok := jsonModel(line)
		b := block{text: line}
		p := parser{opts: Options{DType: dtype.F64}, field: []string{"x"}}
		b.parse(&p)
		if b.err != nil {
			if !errors.Is(b.err, dataset.ErrFormat) && !errors.Is(b.err, dataset.ErrEmpty) && !errors.Is(b.err, dataset.ErrTooLarge) {
				t.Errorf("unknown kind of error: %v", b.err)
			}
			twice := strings.Contains(b.err.Error(), "two fields")
			if ok && !slices.Contains(shape, 0) && len(shape) <= maxAxes && !twice {
				t.Errorf("%q: %v, want %v of %v", line, b.err, numbers, shape)
			}
			return
		}
		want, _ := binary.Append(nil, binary.LittleEndian, numbers)
		if !ok || !bytes.Equal(b.data, want) || !slices.Equal(b.shape, shape) {
			t.Errorf("%q: %v of %v, want %v of %v, %t", line, b.data, b.shape, numbers, shape, ok)
		}
		if line[0] == '{' && !begins(line, true) {
			t.Errorf("%q is not recognised", line)
		}
	})
}

// TestHugeFile: what a file that seems to be larger than any memory begins
// with makes no room for all of it.
func TestHugeFile(t *testing.T) {
	file := &lines.Blocks{R: strings.NewReader(strings.Repeat("[1,2,3]\n", 1000)), Left: 1 << 46, Bytes: 4096}
	p := parser{opts: Options{DType: dtype.F64}, offsets: []int64{0}}
	if err := p.read(t.Context(), file, 1); !errors.Is(err, dataset.ErrDamaged) {
		t.Error(err)
	}
	if cap(p.data) > 512<<20 {
		t.Errorf("room for %d bytes", cap(p.data))
	}
}

// TestLabels: texts become classes with a table, and numbers that are no classes
// targets.
func TestLabels(t *testing.T) {
	for _, c := range []struct{ name, text, labels, classes, targets string }{
		{"texts", `{"x":1,"y":"dog"}|{"x":2,"y":"ant"}|{"x":3,"y":"do\u0067"}`, "[1 0 1]", `["ant" "dog"]`, ""},
		{"whole numbers", `{"x":1,"y":3}|{"x":2,"y":-1}`, "[3 -1]", "[]", ""},
		{"fractions", `{"x":1,"y":3}|{"x":2,"y":0.5}`, "[-1 -1]", "[]", "scalar f32 [3 0.5]"},
		{"several", `{"x":1,"y":[3,4]}|{"x":2,"y":[5,6]}`, "[-1 -1]", "[]", "2 f32 [3 4 5 6]"},
	} {
		d, err := openJSON(t, strings.ReplaceAll(c.text, "|", "\n"), Options{Label: "y"})
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		_, labels := datatest.ReadAll(t, d)
		targets := ""
		if with := dataset.Targets(d); with != nil {
			samples, _ := datatest.ReadAll(t, with)
			list, _ := dataset.Elements[float32](slices.Concat(samples...))
			targets = fmt.Sprint(with.Spec(), " ", list)
		}
		if got := fmt.Sprintf("%q", dataset.Classes(d)); fmt.Sprint(labels) != c.labels || got != c.classes || targets != c.targets {
			t.Errorf("%s: %v, %s, %q", c.name, labels, got, targets)
		}
	}
	// Blocks that do not agree, as they are parsed at the same time.
	text := strings.Repeat(`{"x":1,"y":7}`+"\n", 200_000) + `{"x":1,"y":"cat"}`
	_, err := openJSON(t, text, Options{Label: "y"})
	testkit.WantError(t, "kinds", err, dataset.ErrFormat, "labels of text")
}

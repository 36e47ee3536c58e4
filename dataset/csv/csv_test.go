package csv

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dataset/internal/datatest"
	"github.com/pinion-gpu/pinion/dataset/internal/lines"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

// rows returns a CSV's samples as numbers.
func rows(t testing.TB, d *Dataset) (list [][]float64) {
	t.Helper()
	samples, _ := datatest.ReadAll(t, d)
	for _, s := range samples {
		var row []float64
		for ; len(s) > 0; s = s[d.Spec().DType.Size():] {
			if d.Spec().DType == dtype.F64 {
				row = append(row, math.Float64frombits(binary.LittleEndian.Uint64(s)))
			} else {
				row = append(row, float64(math.Float32frombits(binary.LittleEndian.Uint32(s))))
			}
		}
		list = append(list, row)
	}
	return list
}

func TestCSV(t *testing.T) {
	for _, c := range []struct {
		name, text string
		opts       Options
		rows       string
		labels     []int32
		columns    []string
	}{
		{"plain", "1,2\n3,4\n", Options{}, "[[1 2] [3 4]]", []int32{-1, -1}, nil},
		{"no last line end", "1,2\n3,4", Options{}, "[[1 2] [3 4]]", []int32{-1, -1}, nil},
		{"one column", "1\n2\n", Options{}, "[[1] [2]]", []int32{-1, -1}, nil},
		{"label by name", "x,class,y\n1,7,2\n3,-8,4\n", Options{Label: "class"}, "[[1 2] [3 4]]", []int32{7, -8}, []string{"x", "y"}},
		{"label by number", "1,7\n3,8.0\n", Options{Label: "1"}, "[[1] [3]]", []int32{7, 8}, nil},
		{"label from the end", "1,2,7\n3,4,8\n", Options{Label: "-1"}, "[[1 2] [3 4]]", []int32{7, 8}, nil},
		{"a name before a number", "1,0\n3,4\n", Options{Label: "1", Header: 1}, "[[4]]", []int32{3}, []string{"0"}},
		{"numbers as names", "0,1\n3,4\n", Options{Header: 1}, "[[3 4]]", []int32{-1}, []string{"0", "1"}},
		{"CR LF, blank lines, comments", "\r\n# made\r\n1;2\r\n\r\n #x\r\n3;4\r\n", Options{}, "[[1 2] [3 4]]", []int32{-1, -1}, nil},
		{"byte order mark", "\xef\xbb\xbf1,2\n", Options{}, "[[1 2]]", []int32{-1}, nil},
		{"quotes", "\"a, b\",\"c\"\n\"1\",2\n3 , \" 4 \"\n", Options{}, "[[1 2] [3 4]]", []int32{-1, -1}, []string{"a, b", "c"}},
		{"tabs", "a b\tc\n1\t2\n", Options{}, "[[1 2]]", []int32{-1}, []string{"a b", "c"}},
		{"bars", "1|2\n", Options{}, "[[1 2]]", []int32{-1}, nil},
		{"blanks", "  1  2 \n3 \t4\t\n", Options{Delimiter: ' '}, "[[1 2] [3 4]]", []int32{-1, -1}, nil},
		{"blanks by content", "1 2\n3  4\n", Options{}, "[[1 2] [3 4]]", []int32{-1, -1}, nil},
		{"delimiter", "1:2\n", Options{Delimiter: ':'}, "[[1 2]]", []int32{-1}, nil},
		{"f32", "0.1,1e-3,-.5,5.,+1E+2\n", Options{}, fmt.Sprint([][]float64{{float64(float32(0.1)), float64(float32(0.001)), -0.5, 5, 100}}), []int32{-1}, nil},
		{"NaN with a sign", "1,-nan\n+NaN,2\n", Options{}, "[[1 NaN] [NaN 2]]", []int32{-1, -1}, nil},
		{"f64", "0.1,1.7976931348623157e308,nan,-Inf\n", Options{DType: dtype.F64}, "[[0.1 1.7976931348623157e+308 NaN -Inf]]", []int32{-1}, nil},
	} {
		path := datatest.WriteFile(t, filepath.Join(t.TempDir(), "a.csv"), []byte(c.text))
		d, err := Open(t.Context(), path, c.opts)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		_, labels := datatest.ReadAll(t, d)
		if got := fmt.Sprint(rows(t, d)); got != c.rows || !slices.Equal(labels, c.labels) || !slices.Equal(d.Columns(), c.columns) {
			t.Errorf("%s: %s, labels %v, columns %q", c.name, got, labels, d.Columns())
		}
		if d.Name(0) != path+"[0]" {
			t.Error(d.Name(0))
		}
	}
}

func TestCSVErrors(t *testing.T) {
	for _, c := range []struct {
		name, text string
		opts       Options
		err        error
		want       string
	}{
		{"empty", "", Options{}, dataset.ErrEmpty, ": dataset is empty: no rows in 0 lines"},
		{"comments", "\n# x\n\n", Options{}, dataset.ErrEmpty, "no rows in 3 lines"},
		{"header only", "a,b\n", Options{}, dataset.ErrEmpty, "no rows in 1 lines"},
		{"label only", "1\n2\n", Options{Label: "0"}, dataset.ErrEmpty, "no columns besides the label"},
		{"text", "a,b\n1,2\n3,x\n", Options{}, dataset.ErrFormat, `bad.csv:3: format not supported: column 1 "b": "x" is not a number; text can only be a label (Label, --label)`},
		{"UTF-16", "\xff\xfea\x00", Options{}, dataset.ErrFormat, "text in UTF-16"},
		{"one column", "1,2\n1\n", Options{}, dataset.ErrFormat, ":2: format not supported: 1 column, want 2"},
		{"text without header", "1,2\n\n3,x\n", Options{}, dataset.ErrFormat, `bad.csv:3: format not supported: column 1: "x" is not a number`},
		{"missing", "1,2,3\n1,,3\n", Options{}, dataset.ErrFormat, `:2: format not supported: column 1: it is empty, want a number`},
		{"missing at the end", "1,2\n1,\n", Options{}, dataset.ErrFormat, `:2: format not supported: column 1: it is empty, want a number`},
		{"decimal comma", "1;2,5\n", Options{Header: -1}, dataset.ErrFormat, `column 1: "2,5" is not a number; numbers have a decimal point`},
		{"two points", "1,2\n1.2.3,4\n", Options{}, dataset.ErrFormat, `column 0: "1.2.3" is not a number`},
		{"short row", "1,2,3\n1,2\n", Options{}, dataset.ErrFormat, ":2: format not supported: 2 columns, want 3"},
		{"long row", "1,2,3\n1,2,3,4,5\n", Options{}, dataset.ErrFormat, ":2: format not supported: 5 columns, want 3"},
		{"beyond f32", "1,1e39\n", Options{}, dataset.ErrFormat, `column 1: "1e39" does not fit f32`},
		{"beyond f64", "a\n1e309\n", Options{DType: dtype.F64}, dataset.ErrFormat, `"1e309" is not a number`},
		{"label large", "1,2147483648\n", Options{Label: "1"}, dataset.ErrFormat, `column 1: format not supported: label 2.147483648e+09 does not fit 32 bits`},
		{"text after numbers", "1,2\n3,cat\n", Options{Label: "1"}, dataset.ErrFormat, `:2: format not supported: column 1: "cat" is not a number`},
		{"no label", "a,b\n1,2\n", Options{Label: "c"}, dataset.ErrArgument, `no label column "c" among the 2: "a", "b"`},
		{"label number", "1,2\n", Options{Label: "2"}, dataset.ErrArgument, `no label column "2" among the 2`},
		{"label below", "1,2\n", Options{Label: "-3"}, dataset.ErrArgument, `no label column "-3"`},
		{"type", "1\n", Options{DType: dtype.I32}, dataset.ErrArgument, "i32"},
		{"header option", "1\n", Options{Header: 2}, dataset.ErrArgument, "header 2"},
		{"delimiter option", "1\n", Options{Delimiter: '.'}, dataset.ErrArgument, "delimiter '.'"},
		{"long line", strings.Repeat("1", 18<<20), Options{}, dataset.ErrTooLarge, "a line of more than"},
	} {
		path := datatest.WriteFile(t, filepath.Join(t.TempDir(), "bad.csv"), []byte(c.text))
		_, err := Open(t.Context(), path, c.opts)
		testkit.WantError(t, c.name, err, c.err, c.want)
		testkit.WantError(t, c.name, err, c.err, path)
	}
	_, err := Open(t.Context(), filepath.Join(t.TempDir(), "none.csv"), Options{})
	testkit.WantError(t, "missing file", err, fs.ErrNotExist, "none.csv")
	for _, left := range []int64{3, 5} {
		p := parser{opts: Options{DType: dtype.F32}}
		err := p.read(t.Context(), &lines.Blocks{R: strings.NewReader("1,2\n"), Left: left, Bytes: 8}, 1)
		testkit.WantError(t, "changed file", err, dataset.ErrDamaged, "changed its size")
	}
}

// The result does not depend on how the file is cut into blocks.
func TestCSVBlocks(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	var text strings.Builder
	text.WriteString("# c\n\na,b,c\n")
	var want []byte
	for range 200 {
		for c := range 3 {
			v := math.Round(rng.NormFloat64()*1e4) / 100
			want = binary.LittleEndian.AppendUint64(want, math.Float64bits(v))
			fmt.Fprint(&text, v, []string{",", ",", "\n"}[c])
		}
		if rng.IntN(10) == 0 {
			text.WriteString("\n#\n")
		}
	}
	good := text.String()
	bad := good + "1,2,x\n" + strings.Repeat("1,2,3\n", 50)
	for _, size := range []int{1, 2, 7, 64, 1000, len(bad)} {
		for _, workers := range []int{1, 3} {
			p := parser{opts: Options{DType: dtype.F64}}
			if err := p.read(t.Context(), &lines.Blocks{R: strings.NewReader(good), Left: int64(len(good)), Bytes: size}, workers); err != nil || !bytes.Equal(p.data, want) {
				t.Errorf("blocks of %d, %d workers: %v", size, workers, err)
			}
			p = parser{opts: Options{DType: dtype.F64}}
			err := p.read(t.Context(), &lines.Blocks{R: strings.NewReader(bad), Left: int64(len(bad)), Bytes: size}, workers)
			testkit.WantError(t, fmt.Sprint("blocks of ", size), err, dataset.ErrFormat, fmt.Sprintf(":%d: format not supported", strings.Count(good, "\n")+1))
		}
	}
}

// FuzzCSV: an accepted file says the same when it is written again, and as
// one block or many.
func FuzzCSV(f *testing.F) {
	f.Add([]byte("a,b\n1,2\n3,4\n"), "b")
	f.Add([]byte("1 2\n\n#\n3 4"), "")
	f.Add([]byte("\"a\";\"b;c\"\r\n\"1\";2\r\n"), "-1")
	f.Fuzz(func(t *testing.T, text []byte, label string) {
		parse := func(text []byte, size, workers int, opts Options) (*parser, error) {
			p := &parser{opts: opts}
			return p, p.read(t.Context(), &lines.Blocks{R: bytes.NewReader(text), Left: int64(len(text)), Bytes: size}, workers)
		}
		text = text[:min(len(text), 4<<10)] // blocks of 5 bytes are slow
		opts := Options{DType: dtype.F64, Label: label}
		p, err := parse(text, 1<<16, 1, opts)
		q, again := parse(text, 5, 2, opts)
		if fmt.Sprint(err) != fmt.Sprint(again) {
			t.Fatalf("%v, in small blocks %v", err, again)
		}
		begins(text, label == "")
		if err != nil {
			if !errors.Is(err, dataset.ErrFormat) && !errors.Is(err, dataset.ErrEmpty) && !errors.Is(err, dataset.ErrArgument) && !errors.Is(err, dataset.ErrTooLarge) {
				t.Errorf("unknown kind of error: %v", err)
			}
			return
		}
		var out strings.Builder
		for i := 0; i < len(p.data); i += 8 {
			end := ","
			if (i/8+1)%p.form.width == 0 {
				end = "\n"
			}
			fmt.Fprint(&out, math.Float64frombits(binary.LittleEndian.Uint64(p.data[i:])), end)
		}
		r, err := parse([]byte(out.String()), 1<<16, 1, Options{DType: dtype.F64, Header: -1})
		if err != nil || !bytes.Equal(p.data, q.data) || fmt.Sprint(p.labels) != fmt.Sprint(q.labels) || len(r.data) != len(p.data) {
			t.Errorf("%q: %v", out.String(), err)
		}
	})
}

func BenchmarkCSV(b *testing.B) {
	for name, format := range map[string]byte{"short": 'g', "exponent": 'e'} {
		rng := rand.New(rand.NewPCG(1, 1))
		var text []byte
		for len(text) < 32<<20 {
			for range 15 {
				text = append(strconv.AppendFloat(text, rng.NormFloat64(), format, 6, 64), ',')
			}
			text = append(text, "3\n"...)
		}
		path := datatest.WriteFile(b, filepath.Join(b.TempDir(), "a.csv"), text)
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				if _, err := Open(b.Context(), path, Options{Label: "-1"}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestHugeFile: what a file that seems to be larger than any memory begins
// with makes no room for all of it.
func TestHugeFile(t *testing.T) {
	file := &lines.Blocks{R: strings.NewReader(strings.Repeat("1,2,3\n", 1000)), Left: 1 << 46, Bytes: 4096}
	p := parser{opts: Options{DType: dtype.F32}}
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
	many := "x,kind\n"
	for i := range 3000 {
		many += fmt.Sprintf("%d,%s\n", i, []string{"dog", "ant", "\"cat, big\"", ""}[i%4])
	}
	for _, c := range []struct {
		name, text, label string
		labels            []int32 // of the first rows
		classes, targets  string
	}{
		{"texts", many, "kind", []int32{2, 0, 1, -1, 2}, `["ant" "cat, big" "dog"]`, ""},
		{"texts that begin as numbers", "1,1a\n2,2\n", "1", []int32{0, 1}, `["1a" "2"]`, ""},
		{"whole numbers", "1,3\n2,-1\n", "1", []int32{3, -1}, "[]", ""},
		{"fractions", "1,3\n2,0.5\n", "1", []int32{-1, -1}, "[]", "scalar f32 [3 0.5]"},
		{"several", "a,b,c\n1,3,4\n2,5,6\n", "c,a", []int32{-1, -1}, "[]", "2 f32 [1 4 2 6]"},
	} {
		d, err := Open(t.Context(), datatest.WriteFile(t, filepath.Join(t.TempDir(), "a.csv"), []byte(c.text)), Options{Label: c.label})
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		for i, want := range c.labels {
			if got := d.Label(i); got != want {
				t.Errorf("%s: label %d is %d, want %d", c.name, i, got, want)
			}
		}
		if got := fmt.Sprintf("%q", dataset.Classes(d)); got != c.classes {
			t.Errorf("%s: classes %s, want %s", c.name, got, c.classes)
		}
		targets := ""
		if with := dataset.Targets(d); with != nil {
			samples, _ := datatest.ReadAll(t, with)
			list, _ := dataset.Elements[float32](slices.Concat(samples...))
			targets = fmt.Sprint(with.Spec(), " ", list)
		}
		if targets != c.targets {
			t.Errorf("%s: targets %q, want %q", c.name, targets, c.targets)
		}
		if half, err := dataset.NewSubset(d, []int{1}); err != nil || (dataset.Targets(half) == nil) != (c.targets == "") {
			t.Errorf("%s: targets of a subset, %v", c.name, err)
		}
	}
}

package dataset

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

	"github.com/pinion-gpu/pinion/dtype"
)

// rows returns a CSV's samples as numbers.
func rows(t testing.TB, d *CSV) (list [][]float64) {
	t.Helper()
	samples, _ := readAll(t, d)
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
		opts       CSVOptions
		rows       string
		labels     []int32
		columns    []string
	}{
		{"plain", "1,2\n3,4\n", CSVOptions{}, "[[1 2] [3 4]]", []int32{-1, -1}, nil},
		{"no last line end", "1,2\n3,4", CSVOptions{}, "[[1 2] [3 4]]", []int32{-1, -1}, nil},
		{"one column", "1\n2\n", CSVOptions{}, "[[1] [2]]", []int32{-1, -1}, nil},
		{"label by name", "x,class,y\n1,7,2\n3,-8,4\n", CSVOptions{Label: "class"}, "[[1 2] [3 4]]", []int32{7, -8}, []string{"x", "y"}},
		{"label by number", "1,7\n3,8.0\n", CSVOptions{Label: "1"}, "[[1] [3]]", []int32{7, 8}, nil},
		{"label from the end", "1,2,7\n3,4,8\n", CSVOptions{Label: "-1"}, "[[1 2] [3 4]]", []int32{7, 8}, nil},
		{"a name before a number", "1,0\n3,4\n", CSVOptions{Label: "1", Header: 1}, "[[4]]", []int32{3}, []string{"0"}},
		{"numbers as names", "0,1\n3,4\n", CSVOptions{Header: 1}, "[[3 4]]", []int32{-1}, []string{"0", "1"}},
		{"CR LF, blank lines, comments", "\r\n# made\r\n1;2\r\n\r\n #x\r\n3;4\r\n", CSVOptions{}, "[[1 2] [3 4]]", []int32{-1, -1}, nil},
		{"byte order mark", "\xef\xbb\xbf1,2\n", CSVOptions{}, "[[1 2]]", []int32{-1}, nil},
		{"quotes", "\"a, b\",\"c\"\n\"1\",2\n3 , \" 4 \"\n", CSVOptions{}, "[[1 2] [3 4]]", []int32{-1, -1}, []string{"a, b", "c"}},
		{"tabs", "a b\tc\n1\t2\n", CSVOptions{}, "[[1 2]]", []int32{-1}, []string{"a b", "c"}},
		{"bars", "1|2\n", CSVOptions{}, "[[1 2]]", []int32{-1}, nil},
		{"blanks", "  1  2 \n3 \t4\t\n", CSVOptions{Delimiter: ' '}, "[[1 2] [3 4]]", []int32{-1, -1}, nil},
		{"blanks by content", "1 2\n3  4\n", CSVOptions{}, "[[1 2] [3 4]]", []int32{-1, -1}, nil},
		{"delimiter", "1:2\n", CSVOptions{Delimiter: ':'}, "[[1 2]]", []int32{-1}, nil},
		{"f32", "0.1,1e-3,-.5,5.,+1E+2\n", CSVOptions{}, fmt.Sprint([][]float64{{float64(float32(0.1)), float64(float32(0.001)), -0.5, 5, 100}}), []int32{-1}, nil},
		{"NaN with a sign", "1,-nan\n+NaN,2\n", CSVOptions{}, "[[1 NaN] [NaN 2]]", []int32{-1, -1}, nil},
		{"f64", "0.1,1.7976931348623157e308,nan,-Inf\n", CSVOptions{DType: dtype.F64}, "[[0.1 1.7976931348623157e+308 NaN -Inf]]", []int32{-1}, nil},
	} {
		path := writeFile(t, filepath.Join(t.TempDir(), "a.csv"), []byte(c.text))
		d, err := OpenCSV(t.Context(), path, c.opts)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		_, labels := readAll(t, d)
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
		opts       CSVOptions
		err        error
		want       string
	}{
		{"empty", "", CSVOptions{}, ErrEmpty, ": dataset is empty: no rows in 0 lines"},
		{"comments", "\n# x\n\n", CSVOptions{}, ErrEmpty, "no rows in 3 lines"},
		{"header only", "a,b\n", CSVOptions{}, ErrEmpty, "no rows in 1 lines"},
		{"label only", "1\n2\n", CSVOptions{Label: "0"}, ErrEmpty, "no columns beside the label"},
		{"text", "a,b\n1,2\n3,x\n", CSVOptions{}, ErrFormat, `bad.csv:3: format not supported: column 1 "b": "x" is no number`},
		{"text without header", "1,2\n\n3,x\n", CSVOptions{}, ErrFormat, `bad.csv:3: format not supported: column 1: "x" is no number`},
		{"missing", "1,2,3\n1,,3\n", CSVOptions{}, ErrFormat, `:2: format not supported: column 1: "" is no number`},
		{"missing at the end", "1,2\n1,\n", CSVOptions{}, ErrFormat, `:2: format not supported: column 1: "" is no number`},
		{"decimal comma", "1;2,5\n", CSVOptions{Header: -1}, ErrFormat, `column 1: "2,5" is no number`},
		{"two points", "1,2\n1.2.3,4\n", CSVOptions{}, ErrFormat, `column 0: "1.2.3" is no number`},
		{"short row", "1,2,3\n1,2\n", CSVOptions{}, ErrFormat, ":2: format not supported: 2 columns, want 3"},
		{"long row", "1,2,3\n1,2,3,4,5\n", CSVOptions{}, ErrFormat, ":2: format not supported: 5 columns, want 3"},
		{"beyond f32", "1,1e39\n", CSVOptions{}, ErrFormat, `column 1: "1e39" does not fit f32`},
		{"beyond f64", "a\n1e309\n", CSVOptions{DType: dtype.F64}, ErrFormat, `"1e309" is no number`},
		{"label fraction", "1,2.5\n", CSVOptions{Label: "1"}, ErrFormat, `column 1: label "2.5" is no whole number`},
		{"label large", "1,2147483648\n", CSVOptions{Label: "1"}, ErrFormat, `label "2147483648"`},
		{"label NaN", "1,nan\n", CSVOptions{Label: "1"}, ErrFormat, `label "nan"`},
		{"no label", "a,b\n1,2\n", CSVOptions{Label: "c"}, ErrArgument, `no label column "c" among the 2: "a", "b"`},
		{"label number", "1,2\n", CSVOptions{Label: "2"}, ErrArgument, `no label column "2" among the 2`},
		{"label below", "1,2\n", CSVOptions{Label: "-3"}, ErrArgument, `no label column "-3"`},
		{"type", "1\n", CSVOptions{DType: dtype.I32}, ErrArgument, "i32"},
		{"header option", "1\n", CSVOptions{Header: 2}, ErrArgument, "header 2"},
		{"delimiter option", "1\n", CSVOptions{Delimiter: '.'}, ErrArgument, "delimiter '.'"},
		{"long line", strings.Repeat("1", maxCSVLine+2<<20), CSVOptions{}, ErrTooLarge, "a line of more than"},
	} {
		path := writeFile(t, filepath.Join(t.TempDir(), "bad.csv"), []byte(c.text))
		_, err := OpenCSV(t.Context(), path, c.opts)
		wantError(t, c.name, err, c.err, c.want)
		wantError(t, c.name, err, c.err, path)
	}
	_, err := OpenCSV(t.Context(), filepath.Join(t.TempDir(), "none.csv"), CSVOptions{})
	wantError(t, "missing file", err, fs.ErrNotExist, "none.csv")
	for _, left := range []int64{3, 5} {
		p := csvParser{opts: CSVOptions{DType: dtype.F32}}
		err := p.read(t.Context(), &lineBlocks{r: strings.NewReader("1,2\n"), left: left, bytes: 8}, 1)
		wantError(t, "changed file", err, ErrDamaged, "changed its size")
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
			p := csvParser{opts: CSVOptions{DType: dtype.F64}}
			if err := p.read(t.Context(), &lineBlocks{r: strings.NewReader(good), left: int64(len(good)), bytes: size}, workers); err != nil || !bytes.Equal(p.data, want) {
				t.Errorf("blocks of %d, %d workers: %v", size, workers, err)
			}
			p = csvParser{opts: CSVOptions{DType: dtype.F64}}
			err := p.read(t.Context(), &lineBlocks{r: strings.NewReader(bad), left: int64(len(bad)), bytes: size}, workers)
			wantError(t, fmt.Sprint("blocks of ", size), err, ErrFormat, fmt.Sprintf(":%d: format not supported", strings.Count(good, "\n")+1))
		}
	}
}

func TestOpenByContent(t *testing.T) {
	dir := t.TempDir()
	for name, c := range map[string]struct{ text, want string }{
		"tensors": {string(tensorsFile("{"+entry("x", "U8", "2,2", 0, 4)+"}", []byte("abcd"))), "*dataset.SafeTensors 2 of 2 u8"},
		"header":  {"a,b\n1,2\n", "*dataset.CSV 1 of 2 f32"},
		"numbers": {"# by hand\n1 2 3\n4 5 6", "*dataset.CSV 2 of 3 f32"},
		"wide":    {strings.Repeat("1,", sniffBytes) + "1\n", "*dataset.CSV 1 of 65537 f32"},
		"words":   {"some words\nand 2 more\n3\n", ""},
		"binary":  {"1,2\n\x00", ""},
		"short":   {"\x02\x00\x00\x00\x00\x00\x00\x00{", ""},
	} {
		path := writeFile(t, filepath.Join(dir, name), []byte(c.text))
		d, err := Open(t.Context(), path, Options{})
		if c.want == "" {
			wantError(t, name, err, ErrFormat, path)
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := fmt.Sprintf("%T %d of %v", d, d.Len(), d.Spec()); got != c.want {
			t.Errorf("%s: %s", name, got)
		}
		if f, ok := d.(*SafeTensors); ok {
			f.Close()
		}
	}
}

// FuzzNumber: a number is that of the standard library, but for the sign of NaN,
// which that does not read.
func FuzzNumber(f *testing.F) {
	for _, s := range []string{"1", "-0.25", "9007199254740993", "1e22", "1e23", ".5", "5.", ".", "+1e-22", "18446744073709551616", "1e", "0e999", "0x1p-3", "1_0", "-nan"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, field []byte) {
		text := string(field)
		if sign := strings.IndexAny(text, "+-"); sign == 0 && strings.EqualFold(text[1:], "nan") {
			text = text[1:]
		}
		want, err := strconv.ParseFloat(text, 64)
		got, ok := parseNumber(field)
		if ok != (err == nil) || ok && math.Float64bits(got) != math.Float64bits(want) {
			t.Errorf("%q: %v %t, want %v, %v", field, got, ok, want, err)
		}
		if v, n, ok := scanNumber(field); ok {
			want, err := strconv.ParseFloat(string(field[:n]), 64)
			if err != nil || math.Float64bits(v) != math.Float64bits(want) {
				t.Errorf("%q: %v, want %v, %v", field[:n], v, want, err)
			}
		}
	})
}

// FuzzCSV: an accepted file says the same when it is written again, and as
// one block or many.
func FuzzCSV(f *testing.F) {
	f.Add([]byte("a,b\n1,2\n3,4\n"), "b")
	f.Add([]byte("1 2\n\n#\n3 4"), "")
	f.Add([]byte("\"a\";\"b;c\"\r\n\"1\";2\r\n"), "-1")
	f.Fuzz(func(t *testing.T, text []byte, label string) {
		parse := func(text []byte, size, workers int, opts CSVOptions) (*csvParser, error) {
			p := &csvParser{opts: opts}
			return p, p.read(t.Context(), &lineBlocks{r: bytes.NewReader(text), left: int64(len(text)), bytes: size}, workers)
		}
		text = text[:min(len(text), 4<<10)] // blocks of 5 bytes are slow
		opts := CSVOptions{DType: dtype.F64, Label: label}
		p, err := parse(text, 1<<16, 1, opts)
		q, again := parse(text, 5, 2, opts)
		if fmt.Sprint(err) != fmt.Sprint(again) {
			t.Fatalf("%v, in small blocks %v", err, again)
		}
		csvHead(text, label == "")
		if err != nil {
			if !errors.Is(err, ErrFormat) && !errors.Is(err, ErrEmpty) && !errors.Is(err, ErrArgument) && !errors.Is(err, ErrTooLarge) {
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
		r, err := parse([]byte(out.String()), 1<<16, 1, CSVOptions{DType: dtype.F64, Header: -1})
		if err != nil || !bytes.Equal(p.data, q.data) || !slices.Equal(p.labels, q.labels) || len(r.data) != len(p.data) {
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
		path := writeFile(b, filepath.Join(b.TempDir(), "a.csv"), text)
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				if _, err := OpenCSV(b.Context(), path, CSVOptions{Label: "-1"}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

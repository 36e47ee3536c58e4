package trace

import (
	"errors"
	"io"
	"os"
	"runtime"
	"strings"
	"testing"
)

func TestReadErrors(t *testing.T) {
	const live = `{"op":"alloc","id":1,"bytes":9223372036854775807}` + "\n"
	for name, test := range map[string]struct {
		in    string
		is    error
		holds string
	}{
		"not a trace":           {"hello\nworld\n", ErrFormat, "line 1: \"hello\""},
		"binary":                {"\x00\x01\x02", ErrFormat, "line 1"},
		"blank":                 {"\n\n", ErrFormat, ""},
		"endless line":          {strings.Repeat("x", 2*maxLine), ErrFormat, "longer than"},
		"header alone missing":  {"1,2,allocate,0x10,5,0\n", ErrFormat, "columns Action, Pointer and Size"},
		"cut gzip":              {"\x1f\x8b\x08", io.ErrUnexpectedEOF, ""},
		"second line":           {live + "{\n", ErrMalformed, "line 2: a string is missing at the end: `{`"},
		"blank lines count":     {live + "\n\n{}", ErrMalformed, `line 4: "op" is missing`},
		"long line":             {live + `{"op":"` + strings.Repeat("x", 200) + "\n", ErrMalformed, "x`…"},
		"too long line":         {live + `{"` + strings.Repeat("x", maxLine), ErrMalformed, "line 2: longer than 1048576 bytes"},
		"cut":                   {`{"op":"alloc","id":1,"bytes":1`, ErrMalformed, "line 1: ',' is missing at the end"},
		"no comma":              {`{"op":"alloc" "id":1}`, ErrMalformed, "',' is missing at column 15"},
		"trailing comma":        {`{"op":"alloc",}`, ErrMalformed, "a string is missing at column 15"},
		"behind the object":     {`{"op":"alloc","id":1,"bytes":1} x`, ErrMalformed, `"x" after the object`},
		"no op":                 {`{"id":1,"bytes":1}`, ErrMalformed, `"op" is missing`},
		"other op":              {`{"op":"realloc","id":1}`, ErrMalformed, `"op" is "realloc"`},
		"op of another type":    {`{"op":1}`, ErrMalformed, `"op": 1 is not a string`},
		"no id":                 {`{"op":"alloc","bytes":1}`, ErrMalformed, `"id" is missing`},
		"no bytes":              {`{"op":"alloc","id":1}`, ErrMalformed, `"bytes" is missing`},
		"no bytes at all":       {`{"op":"alloc","id":1,"bytes":0}`, ErrMalformed, "an allocation of 0 bytes"},
		"negative bytes":        {`{"op":"alloc","id":1,"bytes":-1}`, ErrMalformed, `"bytes": -1 is not an integer`},
		"fraction":              {`{"op":"alloc","id":1,"bytes":1.5}`, ErrMalformed, `"bytes": 1.5 is not an integer`},
		"bytes beyond 63 bits":  {`{"op":"alloc","id":1,"bytes":9223372036854775808}`, ErrMalformed, "is not an integer of 0 to 9223372036854775807"},
		"bytes beyond 64 bits":  {`{"op":"alloc","id":1,"bytes":99999999999999999999}`, ErrMalformed, "is not an integer"},
		"bytes in a string":     {`{"op":"alloc","id":1,"bytes":"1"}`, ErrMalformed, "is not an integer"},
		"leading zero":          {`{"op":"alloc","id":01,"bytes":1}`, ErrMalformed, "a value is missing at column 20"},
		"last id":               {`{"op":"alloc","id":18446744073709551615,"bytes":1}`, ErrMalformed, `"id"`},
		"no id is left":         {`{"op":"alloc","id":18446744073709551614,"bytes":1}` + "\n" + `{"op":"alloc","id":1,"bytes":1}`, ErrMalformed, "line 2: id 18446744073709551615 is out of range"},
		"stream beyond 31 bits": {`{"op":"alloc","id":1,"bytes":1,"stream":2147483648}`, ErrMalformed, `"stream"`},
		"bad time":              {`{"op":"alloc","id":1,"bytes":1,"time_seconds":1e300}`, ErrMalformed, `"time_seconds"`},
		"bad failed":            {`{"op":"alloc","id":1,"bytes":1,"failed":1}`, ErrMalformed, `"failed"`},
		"failed free":           {`{"op":"free","id":1,"failed":true}`, ErrMalformed, "a free cannot fail"},
		"failed of nothing":     {`{"op":"alloc","bytes":0,"failed":true}`, ErrMalformed, "a failed allocation of 0 bytes"},
		"bad value":             {`{"x":nope,"op":"free"}`, ErrMalformed, "a value is missing at column 6"},
		"bad nested value":      {`{"x":{"a" 1},"op":"free"}`, ErrMalformed, "a value is missing at column 6"},
		"bad string":            {`{"name":"\x","op":"free"}`, ErrMalformed, "is not a JSON string"},
		"free of nothing":       {`{"op":"free","id":8}`, ErrMalformed, "line 1: a free of a block that is not live"},
		"double free":           {live + `{"op":"free","id":1}` + "\n" + `{"op":"free","id":1}`, ErrMalformed, "line 3: a free of a block that is not live"},
		"double alloc":          {live[:len(live)-21] + "1}\n" + `{"op":"alloc","id":1,"bytes":1}`, ErrMalformed, "line 2: the block is already live"},
		"overflow":              {live + `{"op":"alloc","id":2,"bytes":1}`, ErrMalformed, "line 2: 1 bytes and 9223372036854775807 live ones exceed 64 bits"},
		"csv fields":            {rmmHeader + "1,2,free\n", ErrMalformed, "line 2: 3 fields, the header has 6: `1,2,free`"},
		"csv action":            {rmmHeader + "1,2,frob,0x10,5,0\n", ErrMalformed, `line 2: action "frob"`},
		"csv pointer":           {rmmHeader + "1,2,allocate,0xxy,5,0\n", ErrMalformed, `"0xxy" is not a pointer`},
		"csv pointer of free":   {rmmHeader + "1,2,free,,5,0\n", ErrMalformed, `"" is not a pointer`},
		"csv wide pointer":      {rmmHeader + "1,2,allocate,0x10000000000000000,5,0\n", ErrMalformed, "is not a pointer"},
		"csv size":              {rmmHeader + "1,2,allocate,0x10,-5,0\n", ErrMalformed, `size "-5" is not an integer`},
		"csv size 0":            {rmmHeader + "1,2,allocate,0x10,0,0\n", ErrMalformed, "an allocation of 0 bytes"},
		"csv huge size":         {rmmHeader + "1,2,allocate,0x10,9223372036854775808,0\n", ErrMalformed, "size"},
		"csv null":              {rmmHeader + "1,2,allocate,0x0,5,0\n", ErrMalformed, "5 bytes at a null pointer"},
		"csv stream":            {rmmHeader + "1,2,allocate,0x10,5,default\n", ErrMalformed, `"default" is not a stream`},
		"csv unknown pointer":   {rmmHeader + "1,2,free,0x10,5,0\n", ErrMalformed, "line 2: a free of a block that is not live: `1,2,free,0x10,5,0`"},
		"csv live pointer":      {rmmHeader + "1,2,allocate,0x10,5,0\n1,2,allocate,0x10,5,0\n", ErrMalformed, "line 3: the block is already live"},
		"csv failure of 0":      {rmmHeader + "1,2,allocate failure,0x0,0,0\n", ErrMalformed, "a failed allocation"},
		"csv quotes":            {rmmHeader + "1,2,\"free,0x10,5,0\n", ErrMalformed, "line 2"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := readAll(test.in, Options{})
			if !errors.Is(err, test.is) {
				t.Fatalf("got %v, want %v", err, test.is)
			}
			if !strings.Contains(err.Error(), test.holds) {
				t.Fatalf("%q does not say %q", err, test.holds)
			}
			if len(err.Error()) > 400 {
				t.Fatalf("an error of %d characters", len(err.Error()))
			}
		})
	}
}

// TestErrorStays: after an error, no further line is read.
func TestErrorStays(t *testing.T) {
	r, err := NewReader(strings.NewReader("{}\n"+`{"op":"alloc","id":1,"bytes":1}`), Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, first := r.Next()
	_, second := r.Next()
	if !errors.Is(first, ErrMalformed) || first != second {
		t.Fatalf("got %v, then %v", first, second)
	}
}

// TestBoundedMemory: a long trace of which little is live takes little memory.
func TestBoundedMemory(t *testing.T) {
	const pair = "1,2,allocate,0x10,5,0\n1,2,free,0x10,5,0\n"
	in := rmmHeader + strings.Repeat(pair, 100_000)
	r, err := NewReader(strings.NewReader(in), Options{})
	if err != nil {
		t.Fatal(err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	n := 0
	for _, err := range r.All() {
		if err != nil {
			t.Fatal(err)
		}
		n++
	}
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; n != 200_000 || got > 1<<20 {
		t.Fatalf("%d events took %d bytes", n, got)
	}
}

func TestReadFailure(t *testing.T) {
	broken := errors.New("disk gone")
	in := io.MultiReader(strings.NewReader(`{"op":"alloc","id":1,"bytes":1}`+"\n"), &failing{broken})
	r, err := NewReader(in, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Next(); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Next(); !errors.Is(err, broken) || errors.Is(err, ErrMalformed) {
		t.Fatalf("got %v, want %v", err, broken)
	}
	if _, err := NewReader(&failing{broken}, Options{}); !errors.Is(err, broken) {
		t.Fatalf("got %v, want %v", err, broken)
	}
}

func TestOpenErrors(t *testing.T) {
	if _, err := Open("testdata/none", Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	if _, err := Open("reader_test.go", Options{}); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), "reader_test.go") {
		t.Errorf("got %v", err)
	}
	if _, err := NewReader(strings.NewReader(""), Options{MaxSnapshotBytes: -1}); !errors.Is(err, ErrArgument) {
		t.Errorf("got %v", err)
	}
}

package pickle

import (
	"bytes"
	"errors"
	"math/big"
	"reflect"
	"runtime"
	"strings"
	"testing"
)

// plain strips the bookkeeping from containers, so that values compare.
func plain(v any) any {
	flat := func(items []any) []any {
		out := []any{}
		for _, item := range items {
			out = append(out, plain(item))
		}
		return out
	}
	switch v := v.(type) {
	case *List:
		return append([]any{"list"}, flat(v.Items)...)
	case *Tuple:
		return append([]any{"tuple"}, flat(v.Items)...)
	case *Dict:
		out := []any{"dict"}
		for item := range v.flat {
			out = append(out, plain(item))
		}
		return out
	}
	return v
}

func TestDecode(t *testing.T) {
	huge, _ := new(big.Int).SetString("-340282366920938463463374607431768211457", 10) // -2^128-1
	for name, test := range map[string]struct {
		in   string
		want any
	}{
		"none":                 {"\x80\x02N.", nil},
		"true":                 {"\x80\x02\x88.", true},
		"false":                {"\x80\x02\x89.", false},
		"small int":            {"\x80\x02K\xff.", int64(255)},
		"two bytes":            {"\x80\x02M\xff\xff.", int64(65535)},
		"negative int":         {"\x80\x02J\xfe\xff\xff\xff.", int64(-2)},
		"long 0":               {"\x80\x02\x8a\x00.", int64(0)},
		"negative long":        {"\x80\x02\x8a\x01\xff.", int64(-1)},
		"long":                 {"\x80\x02\x8a\x05\x00\x00\x00\x00\x01.", int64(1) << 32},
		"address":              {"\x80\x02\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x80\x00.", uint64(1) << 63},
		"long of 17 bytes":     {"\x80\x02\x8a\x11" + strings.Repeat("\xff", 16) + "\xfe.", huge},
		"long4":                {"\x80\x02\x8b\x02\x00\x00\x00\x00\x01.", int64(256)},
		"float":                {"\x80\x02G\x3f\xf8\x00\x00\x00\x00\x00\x00.", 1.5},
		"str":                  {"\x80\x04\x8c\x02\xc3\xa4.", "ä"},
		"str of protocol 2":    {"\x80\x02X\x02\x00\x00\x00ab.", "ab"},
		"str of Python 2":      {"\x80\x02U\x02ab.", "ab"},
		"long str":             {"\x80\x04\x8d\x02\x00\x00\x00\x00\x00\x00\x00ab.", "ab"},
		"bytes":                {"\x80\x03C\x02ab.", []byte("ab")},
		"bytearray":            {"\x80\x05\x96\x02\x00\x00\x00\x00\x00\x00\x00ab.", []byte("ab")},
		"list":                 {"\x80\x02]q\x00(K\x01K\x02e.", []any{"list", int64(1), int64(2)}},
		"append":               {"\x80\x02]K\x01a.", []any{"list", int64(1)}},
		"list by mark":         {"\x80\x02(K\x01l.", []any{"list", int64(1)}},
		"tuples":               {"\x80\x02)\x85N\x86NN\x87.", []any{"tuple", []any{"tuple", []any{"tuple", []any{"tuple"}}, nil}, nil, nil}},
		"dict":                 {"\x80\x02}(U\x01aK\x01K\x02NuN\x88s.", []any{"dict", "a", int64(1), int64(2), nil, nil, true}},
		"dict by mark":         {"\x80\x02(K\x01K\x02d.", []any{"dict", int64(1), int64(2)}},
		"memo put and get":     {"\x80\x02U\x01aq\x050j\x05\x00\x00\x00.", "a"},
		"long put":             {"\x80\x02U\x01ar\x03\x00\x00\x000h\x03.", "a"},
		"pop of a mark":        {"\x80\x02N(0.", nil},
		"pop mark":             {"\x80\x02N(K\x011.", nil},
		"dup":                  {"\x80\x02K\x012\x86.", []any{"tuple", int64(1), int64(1)}},
		"frame":                {"\x80\x04\x95\x02\x00\x00\x00\x00\x00\x00\x00N.", nil},
		"bytes behind the end": {"\x80\x02N.trailing", nil},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Decode([]byte(test.in))
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(plain(got), test.want) {
				t.Fatalf("got %#v, want %#v", plain(got), test.want)
			}
		})
	}
}

// TestSharing checks that a list filled after it was remembered is the same
// list wherever it is referred to.
func TestSharing(t *testing.T) {
	v, err := Decode([]byte("\x80\x04(]\x94K\x01ah\x00t."))
	if err != nil {
		t.Fatal(err)
	}
	pair := v.(*Tuple).Items
	if pair[0] != pair[1] || len(pair[0].(*List).Items) != 1 {
		t.Fatalf("got %v and %v", pair[0], pair[1])
	}
}

func TestDictGet(t *testing.T) {
	v, err := Decode([]byte("\x80\x02}(K\x01K\x02U\x01aK\x03U\x01aK\x04u."))
	if err != nil {
		t.Fatal(err)
	}
	if got, ok := v.(*Dict).Get("a"); !ok || got != int64(4) {
		t.Fatalf("Get(a) = %v, %v, want the last value", got, ok)
	}
	if _, ok := v.(*Dict).Get("b"); ok {
		t.Fatal("Get found a key that is not there")
	}
}

func TestDecodeErrors(t *testing.T) {
	for name, test := range map[string]struct {
		in    string
		is    error
		holds string
	}{
		"empty":                {"", ErrMalformed, "offset 0"},
		"not a pickle":         {"hello", ErrMalformed, "offset 0"},
		"cut short":            {"\x80\x02", ErrMalformed, "offset 2"},
		"global":               {"\x80\x02cos\nsystem\n.", ErrNotPlain, "offset 2: pickle is not plain data: opcode GLOBAL"},
		"stack global":         {"\x80\x04\x8c\x02os\x8c\x06system\x93.", ErrNotPlain, "offset 14: pickle is not plain data: opcode STACK_GLOBAL"},
		"reduce":               {"\x80\x02N)R.", ErrNotPlain, "opcode REDUCE"},
		"build":                {"\x80\x02NNb.", ErrNotPlain, "opcode BUILD"},
		"set":                  {"\x80\x04\x8f.", ErrNotPlain, "opcode EMPTY_SET"},
		"unknown":              {"\x80\x02\xff.", ErrMalformed, "no opcode 0xff"},
		"protocol 0":           {"(lp0\n.", ErrMalformed, "not with PROTO"},
		"protocol 9":           {"\x80\x09N.", ErrNotPlain, "protocol 9"},
		"length of 4 GiB":      {"\x80\x02X\xff\xff\xff\xff.", ErrMalformed, "4294967295 bytes are needed, 1 are left"},
		"length beyond an int": {"\x80\x04\x8e\xff\xff\xff\xff\xff\xff\xff\xff.", ErrMalformed, "are left"},
		"frame too long":       {"\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\xffN.", ErrMalformed, "are left"},
		"two values":           {"\x80\x02NN.", ErrMalformed, "2 values"},
		"no value":             {"\x80\x02.", ErrMalformed, "0 values"},
		"open mark":            {"\x80\x02N(.", ErrMalformed, "1 marks"},
		"no mark":              {"\x80\x02]Ne.", ErrMalformed, "no mark"},
		"append through mark":  {"\x80\x02](a.", ErrMalformed, "needed"},
		"tuple through mark":   {"\x80\x02N(N\x86.", ErrMalformed, "needed"},
		"append to none":       {"\x80\x02NNa.", ErrMalformed, "<nil>"},
		"items into list":      {"\x80\x02]NNs.", ErrMalformed, "*pickle.List"},
		"odd dict":             {"\x80\x02}(Nu.", ErrMalformed, "without a value"},
		"list as key":          {"\x80\x02}]Ns.", ErrMalformed, "dict key"},
		"empty memo":           {"\x80\x02h\x00.", ErrMalformed, "memo number 0"},
		"memo far away":        {"\x80\x02Nr\xff\xff\xff\x7f.", ErrMalformed, "memo number 2147483647"},
		"skipped memo":         {"\x80\x02Nq\x05h\x04\x86.", ErrMalformed, "memo number 4"},
		"list in itself":       {"\x80\x04]\x94h\x00a.", ErrMalformed, "holds itself"},
		"tuple in itself":      {"\x80\x04]\x94h\x00\x85a.", ErrMalformed, "holds itself"},
		"dict in itself":       {"\x80\x04}\x94Nh\x00s.", ErrMalformed, "holds itself"},
		"deep":                 {"\x80\x02)" + strings.Repeat("\x85", MaxDepth) + ".", ErrMalformed, "1000 levels"},
	} {
		t.Run(name, func(t *testing.T) {
			v, err := Decode([]byte(test.in))
			if !errors.Is(err, test.is) {
				t.Fatalf("got %v, %v, want %v", v, err, test.is)
			}
			if !strings.Contains(err.Error(), test.holds) {
				t.Fatalf("%q does not say %q", err, test.holds)
			}
		})
	}
}

// TestDepth checks the limit itself, and that sharing does not hide depth.
func TestDepth(t *testing.T) {
	if _, err := Decode([]byte("\x80\x02)" + strings.Repeat("\x85", MaxDepth-1) + ".")); err != nil {
		t.Fatal(err)
	}
	// 600 levels, remembered, then 600 levels around them.
	shared := "\x80\x04(]" + strings.Repeat("\x85", 599) + "\x94h\x00" + strings.Repeat("\x85", 600) + "t."
	if _, err := Decode([]byte(shared)); !errors.Is(err, ErrMalformed) {
		t.Fatalf("got %v, want %v", err, ErrMalformed)
	}
}

// TestDoubling decodes 40 levels of pairs of the level below: 2^40 leaves for
// whoever walks them as a tree, 40 tuples here.
func TestDoubling(t *testing.T) {
	in := "\x80\x04)" + strings.Repeat("2\x86", 40) + "."
	if _, err := Decode([]byte(in)); err != nil {
		t.Fatal(err)
	}
}

// TestMemory checks that memory is in proportion to the input, on input that
// makes the most of each byte. What is counted includes garbage, so that the
// limit is twice what Decode promises.
func TestMemory(t *testing.T) {
	for _, dense := range []string{"}", "}\x94", "2", "N"} {
		in := []byte("\x80\x04]" + strings.Repeat(dense, 1<<17) + ".")
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		Decode(in) // fails at the end, with everything still there
		runtime.ReadMemStats(&after)
		if got := after.TotalAlloc - before.TotalAlloc; got > 200*uint64(len(in)) {
			t.Errorf("%q: %d bytes allocated for %d bytes of input", dense, got, len(in))
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Fuzz(func(t *testing.T, in []byte) {
		v, err := Decode(in)
		if err != nil {
			if !errors.Is(err, ErrMalformed) && !errors.Is(err, ErrNotPlain) {
				t.Fatalf("foreign error %v", err)
			}
			return
		}
		// What was read can be written, unless a string is not UTF-8, and
		// reads the same. The shape is compared as a pickle, since walking it
		// as a tree may take for ever.
		var once, again bytes.Buffer
		if err := Encode(&once, v); err != nil {
			if !errors.Is(err, ErrType) {
				t.Fatal(err)
			}
			return
		}
		w, err := Decode(once.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		if err := Encode(&again, w); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(once.Bytes(), again.Bytes()) {
			t.Fatalf("%x was read as %x", once.Bytes(), again.Bytes())
		}
	})
}

package screen

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
)

func TestDecode(t *testing.T) {
	for _, c := range []struct {
		parts []string
		want  []Key
	}{
		{[]string{"q"}, []Key{'q'}},
		{[]string{"\x03"}, []Key{Interrupt}},
		{[]string{"\x1b"}, []Key{Escape}},
		{[]string{"\x1b[A\x1bOB\x1b[5~\x1b[6~x"}, []Key{Up, Down, PageUp, PageDown, 'x'}},
		{[]string{"\x1b[H\x1bOF\x1b[1~\x1b[8~"}, []Key{Home, End, Home, End}},
		{[]string{"\x1b[", "5", "~q"}, []Key{PageUp, 'q'}},
		{[]string{"\x1b[1;5Aq"}, []Key{Unknown, 'q'}},
		{[]string{"\x1bq"}, []Key{Escape, 'q'}},
		{[]string{"\x00\xff\r"}, []Key{Unknown, Unknown, Unknown}},
		{[]string{"\x1b[00000000000000000000", "A"}, []Key{'A'}},
	} {
		var d decoder
		var got []Key
		for _, part := range c.parts {
			got = append(got, d.decode([]byte(part))...)
		}
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%q: %v, want %v", c.parts, got, c.want)
		}
	}
}

// Whatever arrives, in whatever parts, the decoder keeps little of it, and a letter
// in the end is one.
func TestDecodeAnything(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for range 2000 {
		var d decoder
		sent := ""
		for range r.IntN(10) {
			part := make([]byte, r.IntN(12))
			for i := range part {
				part[i] = "\x1b[O~A5q;\xff\x03"[r.IntN(10)]
			}
			sent += fmt.Sprintf("%q ", part)
			d.decode(part)
			if len(d.pending) > 32 {
				t.Fatalf("%s: %d bytes are kept", sent, len(d.pending))
			}
		}
		d.decode([]byte("AAA")) // ends a sequence, if there is one
		if keys := d.decode([]byte("q")); !reflect.DeepEqual(keys, []Key{'q'}) {
			t.Fatalf("%s: %v", sent, keys)
		}
	}
}

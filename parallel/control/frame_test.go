package control

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"github.com/pinion-gpu/pinion/internal/errs"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

func TestMessages(t *testing.T) {
	var stream []byte
	list := []message{
		{kind: hello},
		{kind: part, rank: 1023, number: -5, what: "weights", data: make([]byte, maxData)},
		{kind: failed, rank: 1<<31 - 1, number: 1<<63 - 1, what: strings.Repeat("é", maxWhat/2), data: []byte{0}},
	}
	for _, m := range list {
		stream = m.appendTo(stream)
	}
	r := bytes.NewReader(stream)
	for i, want := range list {
		got := testkit.Must(readMessage(r, maxData))(t)
		if got.kind != want.kind || got.rank != want.rank || got.number != want.number || got.what != want.what || !bytes.Equal(got.data, want.data) {
			t.Errorf("message %d is another", i)
		}
	}
	if _, err := readMessage(r, maxData); err != io.EOF {
		t.Errorf("the end: %v", err)
	}
	long := message{kind: failed, what: strings.Repeat("x", maxWhat+1), data: make([]byte, maxData+1)}
	if got := testkit.Must(readMessage(bytes.NewReader(long.appendTo(nil)), maxData))(t); len(got.what) != maxWhat || len(got.data) != maxData {
		t.Errorf("%d and %d bytes", len(got.what), len(got.data))
	}
}

func TestBadMessages(t *testing.T) {
	good := message{kind: part, rank: 1, what: "what", data: []byte("data")}.appendTo(nil)
	bad := func(what string, kind error, change func(b []byte) []byte) {
		t.Helper()
		_, err := readMessage(bytes.NewReader(change(bytes.Clone(good))), 100)
		testkit.WantError(t, what, err, kind)
	}
	bad("kind 0", errs.ErrFormat, func(b []byte) []byte { b[0] = 0; return b })
	bad("a kind that is none", errs.ErrFormat, func(b []byte) []byte { b[0] = byte(numKinds); return b })
	bad("a long name", errs.ErrTooLarge, func(b []byte) []byte { b[13] = 0xff; return b })
	bad("much data", errs.ErrTooLarge, func(b []byte) []byte { b[15] = 0xff; return b })
	bad("cut short", errs.ErrDamaged, func(b []byte) []byte { return b[:len(b)-1] })
	bad("a piece of a head", io.ErrUnexpectedEOF, func(b []byte) []byte { return b[:headerSize-1] })
}

// Whatever arrives gives an error or a message that is written as it came, and costs no
// more memory than it may have.
func FuzzMessage(f *testing.F) {
	f.Add(message{kind: part, rank: 3, number: 7, what: "weights", data: []byte("bytes")}.appendTo(nil))
	f.Add([]byte("GET / HTTP/1.1\r\nHost: a\r\n\r\n"))
	f.Add(bytes.Repeat([]byte{0xff}, headerSize))
	f.Fuzz(func(t *testing.T, b []byte) {
		const limit = 1 << 10
		m, err := readMessage(bytes.NewReader(b), limit)
		if err != nil {
			return
		}
		if len(m.data) > limit || len(m.what) > maxWhat {
			t.Errorf("%d and %d bytes", len(m.what), len(m.data))
		}
		if again := m.appendTo(nil); !bytes.HasPrefix(b, again) {
			t.Errorf("%x is written as %x", b, again)
		}
	})
}

// A greeting is one, or an error.
func FuzzGreeting(f *testing.F) {
	var b bytes.Buffer
	if err := (greeting{Protocol: 1, Version: "v1", Job: "a", Size: 2, Rank: 1}).write(&b); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Add([]byte(magic))
	f.Add([]byte("SSH-2.0-x\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		g, err := readGreeting(bytes.NewReader(b))
		if err != nil {
			return
		}
		var again bytes.Buffer
		testkit.OK(t, g.write(&again))
		if same, err := readGreeting(&again); again.Len() < maxHello && (err != nil || same != g) {
			t.Errorf("%+v, and %+v, %v", g, same, err)
		}
	})
}

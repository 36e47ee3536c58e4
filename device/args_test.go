package device

import (
	"bytes"
	"encoding/binary"
	"math"
	"testing"
)

// Parameters lie where C puts them: each at a multiple of its own size.
func TestArgs(t *testing.T) {
	var (
		p8 = func(v uint64) []byte { return binary.LittleEndian.AppendUint64(nil, v) }
		p4 = func(v uint32) []byte { return binary.LittleEndian.AppendUint32(nil, v) }
	)
	for _, c := range []struct {
		name string
		args *Args
		want [][]byte
	}{
		{"none", new(Args), nil},
		{"pointer", new(Args).Ptr(0x1234_5678_9abc_def0), [][]byte{p8(0x1234_5678_9abc_def0)}},
		{"negative", new(Args).Int32(-2).Int32(math.MinInt32).Int64(-3),
			[][]byte{p4(0xFFFF_FFFE), p4(0x8000_0000), p8(math.MaxUint64 - 2)}},
		{"float", new(Args).Float32(1).Float32(float32(math.Inf(-1))), [][]byte{p4(0x3F80_0000), p4(0xFF80_0000)}},
		{"gap before 8 bytes", new(Args).Int32(1).Ptr(2), [][]byte{p4(1), p4(0), p8(2)}},
		{"no gap before 4 bytes", new(Args).Ptr(2).Int32(1).Float32(0.5).Int64(7),
			[][]byte{p8(2), p4(1), p4(0x3F00_0000), p8(7)}},
		{"no gap at the end", new(Args).Ptr(2).Int32(1), [][]byte{p8(2), p4(1)}},
	} {
		if got, want := c.args.Bytes(), bytes.Join(c.want, nil); !bytes.Equal(got, want) {
			t.Errorf("%s: % x, want % x", c.name, got, want)
		}
	}
}

// Args are values: a copy goes its own way.
func TestArgsCopy(t *testing.T) {
	var a Args
	if got, want := a.Int32(5).Bytes(), []byte{5, 0, 0, 0}; !bytes.Equal(got, want) {
		t.Errorf("% x, want % x", got, want)
	}
	b := a
	b.Int32(6)
	if len(a.Bytes()) != 4 || len(b.Bytes()) != 8 {
		t.Errorf("%d and %d bytes, want 4 and 8", len(a.Bytes()), len(b.Bytes()))
	}
}

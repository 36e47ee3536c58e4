package stored

import (
	"bytes"
	"encoding/binary"
	"io"
	"testing"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

func TestSource(t *testing.T) {
	le, be := binary.LittleEndian, binary.BigEndian
	for _, c := range []struct {
		name string
		Type
		file, want []byte
	}{
		{"u32", Unsigned(4), le.AppendUint32(le.AppendUint32(nil, 1), 1<<32-1), le.AppendUint64(le.AppendUint64(nil, 1), 1<<32-1)},
		{"u64", Unsigned(8), le.AppendUint64(nil, 1<<63-1), le.AppendUint64(nil, 1<<63-1)},
		{">u4", Type{dtype.I64, 4, true, true}, be.AppendUint32(nil, 70000), le.AppendUint64(nil, 70000)},
		{">i2", Type{dtype.I16, 2, true, false}, be.AppendUint16(be.AppendUint16(nil, 258), 3), le.AppendUint16(le.AppendUint16(nil, 258), 3)},
		{">f8", Type{dtype.F64, 8, true, false}, be.AppendUint64(nil, 5), le.AppendUint64(nil, 5)},
		{"|u1", Type{dtype.U8, 1, true, false}, []byte{1, 2}, []byte{1, 2}},
	} {
		s := Source{c.Type, bytes.NewReader(append([]byte("head"), c.file...)), 4}
		got := make([]byte, len(c.want))
		if n, err := s.ReadAt(got, 0); n != len(got) || err != nil || !bytes.Equal(got, c.want) {
			t.Errorf("%s: % x, want % x: %v", c.name, got, c.want, err)
		}
		size := c.DType.Size()
		last := make([]byte, size)
		if _, err := s.ReadAt(last, int64(len(got)-size)); err != nil || !bytes.Equal(last, got[len(got)-size:]) {
			t.Errorf("%s: the last is % x: %v", c.name, last, err)
		}
		if n, err := s.ReadAt(last, int64(len(got))); n != 0 || err != io.EOF {
			t.Errorf("%s: %d bytes behind the end, %v", c.name, n, err)
		}
	}
	_, err := Source{Unsigned(8), bytes.NewReader(bytes.Repeat([]byte{255}, 16)), 0}.ReadAt(make([]byte, 16), 0)
	testkit.WantError(t, "too large", err, dataset.ErrFormat, "element 0 is 18446744073709551615, which is too large for i64")
}

func TestTranspose(t *testing.T) {
	// numpy.arange(24).reshape(2, 3, 4) in Fortran order.
	file := bytes.NewReader([]byte{0, 12, 4, 16, 8, 20, 1, 13, 5, 17, 9, 21, 2, 14, 6, 18, 10, 22, 3, 15, 7, 19, 11, 23})
	got := make([]byte, 24)
	testkit.OK(t, Transpose(got, []int{2, 3, 4}, 1, func(b []byte) error {
		_, err := io.ReadFull(file, b)
		return err
	}))
	for i, v := range got {
		if int(v) != i {
			t.Fatal(got)
		}
	}
}

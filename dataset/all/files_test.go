package all_test

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"math"
	"testing"

	"github.com/pinion-gpu/pinion/dataset/internal/datatest"
)

// volume is a NIfTI-1 file of u8 voxels.
func volume(voxels []byte, dim ...int16) []byte {
	b := make([]byte, 352, 352+len(voxels))
	le := binary.LittleEndian
	le.PutUint32(b, 348)
	le.PutUint16(b[40:], uint16(len(dim)))
	for i, d := range dim {
		le.PutUint16(b[42+2*i:], uint16(d))
	}
	le.PutUint16(b[70:], 2)
	le.PutUint16(b[72:], 8)
	le.PutUint32(b[108:], math.Float32bits(352))
	copy(b[344:], "n+1\x00")
	return append(b, voxels...)
}

// zipped is data as gzip.
func zipped(t testing.TB, data []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	w.Write(data)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// npz is an archive of one array x.
func npz(t testing.TB, array []byte, method uint16) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	m, err := w.CreateHeader(&zip.FileHeader{Name: "x.npy", Method: method})
	if err == nil {
		_, err = m.Write(array)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// tensors is a .safetensors file of x, {2, 2} of u8.
func tensors() []byte {
	header := `{"x":{"dtype":"U8","shape":[2,2],"data_offsets":[0,4]}}`
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return fmt.Append(b, header, "abcd")
}

// array is a .npy file of 4 bytes.
func array() []byte { return datatest.NPY(1, datatest.NPYHeader("|u1", 4), []byte("abcd")) }

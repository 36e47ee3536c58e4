package parquet

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"os"
	"path/filepath"
	"testing"

	pq "github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/metadata"
	"github.com/apache/arrow-go/v18/parquet/schema"

	"github.com/pinion-gpu/pinion/dataset"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/float16"
	"github.com/pinion-gpu/pinion/internal/testkit"
)

// values is what a column chunk has: a slice of the physical type, and levels.
type values struct {
	of         any
	defs, reps []int16
}

// write writes a file of row groups, of columns.
func write(t testing.TB, path string, fields schema.FieldList, groups [][]values, props ...pq.WriterProperty) string {
	t.Helper()
	return writeMeta(t, path, fields, groups, nil, props...)
}

func writeMeta(t testing.TB, path string, fields schema.FieldList, groups [][]values, meta map[string]string, props ...pq.WriterProperty) string {
	t.Helper()
	kv := metadata.NewKeyValueMetadata()
	for k, v := range meta {
		testkit.OK(t, kv.Append(k, v))
	}
	testkit.OK(t, os.MkdirAll(filepath.Dir(path), 0o755))
	f, err := os.Create(path)
	testkit.OK(t, err)
	w := file.NewParquetWriter(f, node("schema", pq.Repetitions.Required, nil, fields...),
		file.WithWriterProps(pq.NewWriterProperties(props...)), file.WithWriteMetadata(kv))
	for _, g := range groups {
		rg, err := w.AppendRowGroupChecked()
		testkit.OK(t, err)
		for _, v := range g {
			c, err := rg.NextColumn()
			testkit.OK(t, err)
			testkit.OK(t, writeValues(c, v))
			testkit.OK(t, c.Close())
		}
		testkit.OK(t, rg.Close())
	}
	testkit.OK(t, w.Close())
	return path
}

func writeValues(c file.ColumnChunkWriter, v values) (err error) {
	switch c := c.(type) {
	case *file.BooleanColumnChunkWriter:
		_, err = c.WriteBatch(v.of.([]bool), v.defs, v.reps)
	case *file.Int32ColumnChunkWriter:
		_, err = c.WriteBatch(v.of.([]int32), v.defs, v.reps)
	case *file.Int64ColumnChunkWriter:
		_, err = c.WriteBatch(v.of.([]int64), v.defs, v.reps)
	case *file.Float32ColumnChunkWriter:
		_, err = c.WriteBatch(v.of.([]float32), v.defs, v.reps)
	case *file.Float64ColumnChunkWriter:
		_, err = c.WriteBatch(v.of.([]float64), v.defs, v.reps)
	case *file.FixedLenByteArrayColumnChunkWriter:
		_, err = c.WriteBatch(v.of.([]pq.FixedLenByteArray), v.defs, v.reps)
	case *file.ByteArrayColumnChunkWriter:
		_, err = c.WriteBatch(v.of.([]pq.ByteArray), v.defs, v.reps)
	default:
		err = errors.New("no such column in tests")
	}
	return err
}

func node(name string, r pq.Repetition, logical schema.LogicalType, fields ...schema.Node) *schema.GroupNode {
	return schema.MustGroup(schema.NewGroupNodeLogical(name, r, fields, logical, -1))
}

func leaf(name string, r pq.Repetition, logical schema.LogicalType, physical pq.Type, length int) schema.Node {
	return schema.MustPrimitive(schema.NewPrimitiveNodeLogical(name, r, logical, physical, length, -1))
}

// required is a column of a physical type that is never null.
func required(name string, physical pq.Type) schema.Node {
	return leaf(name, pq.Repetitions.Required, nil, physical, -1)
}

func optional(name string, physical pq.Type) schema.Node {
	return leaf(name, pq.Repetitions.Optional, nil, physical, -1)
}

// listOf is a list as everybody writes it now: levels 0 null, 1 empty, 2 with
// a null, 3 with a value.
func listOf(name string, physical pq.Type) schema.Node {
	return node(name, pq.Repetitions.Optional, schema.NewListLogicalType(),
		node("list", pq.Repetitions.Repeated, nil, optional("element", physical)))
}

// lists makes the values of lists; nil is a null.
func lists[T any](rows ...[]T) values {
	v := values{}
	all := []T{}
	for _, row := range rows {
		switch {
		case row == nil:
			v.defs, v.reps = append(v.defs, 0), append(v.reps, 0)
		case len(row) == 0:
			v.defs, v.reps = append(v.defs, 1), append(v.reps, 0)
		}
		for i := range row {
			v.defs, v.reps = append(v.defs, 3), append(v.reps, int16(min(i, 1)))
		}
		all = append(all, row...)
	}
	v.of = all
	return v
}

func f16s(list ...float32) (out []pq.FixedLenByteArray) {
	for _, f := range list {
		out = append(out, binary.LittleEndian.AppendUint16(nil, float16.ToF16(f)))
	}
	return out
}

// readRows reads all samples as numbers, and labels.
func readRows(t testing.TB, d *Dataset) (rows [][]float64, labels []int32) {
	t.Helper()
	r, err := d.NewReader()
	testkit.OK(t, err)
	defer r.Close()
	for i := range d.Len() {
		sample := make([]byte, dataset.SampleBytes(d, i))
		if err := r.Read(context.Background(), dataset.Visit{Index: i}, sample); err != nil {
			t.Fatal(err)
		}
		rows, labels = append(rows, numbers(sample, d.Spec().DType)), append(labels, d.Label(i))
	}
	return rows, labels
}

func numbers(b []byte, d dtype.DType) (list []float64) {
	for ; len(b) > 0; b = b[d.Size():] {
		var v float64
		switch d {
		case dtype.U8:
			v = float64(b[0])
		case dtype.I8:
			v = float64(int8(b[0]))
		case dtype.U16:
			v = float64(binary.LittleEndian.Uint16(b))
		case dtype.I16:
			v = float64(int16(binary.LittleEndian.Uint16(b)))
		case dtype.I32:
			v = float64(int32(binary.LittleEndian.Uint32(b)))
		case dtype.I64:
			v = float64(int64(binary.LittleEndian.Uint64(b)))
		case dtype.F16:
			v = float64(float16.FromF16(binary.LittleEndian.Uint16(b)))
		case dtype.BF16:
			v = float64(float16.FromBF16(binary.LittleEndian.Uint16(b)))
		case dtype.F32:
			v = float64(math.Float32frombits(binary.LittleEndian.Uint32(b)))
		case dtype.F64:
			v = math.Float64frombits(binary.LittleEndian.Uint64(b))
		}
		list = append(list, v)
	}
	return list
}

func temp(t testing.TB, name string) string { return filepath.Join(t.TempDir(), name) }

package kernels

import (
	"math"
	"sync"

	"github.com/pinion-gpu/pinion/device"
	"github.com/pinion-gpu/pinion/dtype"
	"github.com/pinion-gpu/pinion/internal/float16"
)

// A reader widens the elements from index at on; a writer narrows to them.
type (
	reader func(values []float64, at int)
	writer func(at int, values []float64)
)

func (j *castJob) call(c device.Caller, s device.Stream) error {
	src, err := c.Bytes(j.src, j.n*int64(j.from.Size()))
	if err != nil {
		return err
	}
	dst, err := c.Bytes(j.dst, j.n*int64(j.to.Size()))
	if err != nil {
		return err
	}
	if table := tableOf(j.from, j.to); table != nil {
		return j.look(c, s, dst, src, table)
	}
	read, err := newReader(j.from, src)
	if err != nil {
		return err
	}
	write, err := newWriter(j.to, dst)
	if err != nil {
		return err
	}
	return c.Call(s, func() error {
		var chunk [512]float64
		n := int(j.n)
		for at := 0; at < n; at += len(chunk) {
			values := chunk[:min(len(chunk), n-at)]
			read(values, at)
			write(at, values)
		}
		return nil
	})
}

// Between the formats of 16 bits, a cast is looked up: there are 65,536 values.
var (
	tableF16ToBF16 = sync.OnceValue(func() *[1 << 16]uint16 { return newTable(float16.FromF16, float16.ToBF16) })
	tableBF16ToF16 = sync.OnceValue(func() *[1 << 16]uint16 { return newTable(float16.FromBF16, float16.ToF16) })
)

// newTable lists the values of one format in another. A float32 holds them all,
// so each is rounded once.
func newTable(widen func(uint16) float32, narrow func(float32) uint16) *[1 << 16]uint16 {
	table := new([1 << 16]uint16)
	for h := range table {
		table[h] = narrow(widen(uint16(h)))
	}
	return table
}

// tableOf is the table of a cast, or nil.
func tableOf(from, to dtype.DType) func() *[1 << 16]uint16 {
	switch {
	case from == dtype.F16 && to == dtype.BF16:
		return tableF16ToBF16
	case from == dtype.BF16 && to == dtype.F16:
		return tableBF16ToF16
	}
	return nil
}

// look casts by a table.
func (j *castJob) look(c device.Caller, s device.Stream, dst, src []byte, table func() *[1 << 16]uint16) error {
	from, err := view[uint16](src)
	if err != nil {
		return err
	}
	to, err := view[uint16](dst)
	if err != nil {
		return err
	}
	return c.Call(s, func() error {
		table, to := table(), to[:len(from)]
		for i, h := range from {
			to[i] = table[h]
		}
		return nil
	})
}

func newReader(t dtype.DType, src []byte) (reader, error) {
	switch t {
	case dtype.U8:
		return readNumbers[uint8](src)
	case dtype.I8:
		return readNumbers[int8](src)
	case dtype.U16:
		return readNumbers[uint16](src)
	case dtype.I16:
		return readNumbers[int16](src)
	case dtype.I32:
		return readNumbers[int32](src)
	case dtype.F16:
		return readFloat16(src, float16.FromF16)
	case dtype.BF16:
		return readFloat16(src, float16.FromBF16)
	case dtype.F32:
		return readNumbers[float32](src)
	}
	return readNumbers[float64](src)
}

func readNumbers[T uint8 | int8 | uint16 | int16 | int32 | float32 | float64](src []byte) (reader, error) {
	from, err := view[T](src)
	return func(values []float64, at int) {
		for i, x := range from[at:][:len(values)] {
			values[i] = float64(x)
		}
	}, err
}

func readFloat16(src []byte, widen func(uint16) float32) (reader, error) {
	from, err := view[uint16](src)
	return func(values []float64, at int) {
		for i, x := range from[at:][:len(values)] {
			values[i] = float64(widen(x))
		}
	}, err
}

func newWriter(t dtype.DType, dst []byte) (writer, error) {
	switch t {
	case dtype.U8:
		return writeIntegers[uint8](dst, 0, math.MaxUint8)
	case dtype.I8:
		return writeIntegers[int8](dst, math.MinInt8, math.MaxInt8)
	case dtype.U16:
		return writeIntegers[uint16](dst, 0, math.MaxUint16)
	case dtype.I16:
		return writeIntegers[int16](dst, math.MinInt16, math.MaxInt16)
	case dtype.I32:
		return writeIntegers[int32](dst, math.MinInt32, math.MaxInt32)
	case dtype.F16:
		return writeFloat16(dst, float16.ToF16)
	case dtype.BF16:
		return writeFloat16(dst, float16.ToBF16)
	case dtype.F32:
		return writeFloats(dst, math.Float32frombits(float16.NaN32))
	}
	return writeFloats(dst, math.Float64frombits(0x7ff8000000000000))
}

func writeIntegers[T uint8 | int8 | uint16 | int16 | int32](dst []byte, low, high float64) (writer, error) {
	to, err := view[T](dst)
	return func(at int, values []float64) {
		to := to[at:][:len(values)]
		for i, x := range values {
			if x != x {
				x = 0
			}
			to[i] = T(int32(min(max(math.RoundToEven(x), low), high)))
		}
	}, err
}

func writeFloat16(dst []byte, narrow func(float32) uint16) (writer, error) {
	to, err := view[uint16](dst)
	return func(at int, values []float64) {
		to := to[at:][:len(values)]
		for i, x := range values {
			to[i] = narrow(float16.RoundToOdd(x))
		}
	}, err
}

func writeFloats[T float32 | float64](dst []byte, nan T) (writer, error) {
	to, err := view[T](dst)
	return func(at int, values []float64) {
		to := to[at:][:len(values)]
		for i, x := range values {
			if x != x {
				to[i] = nan
			} else {
				to[i] = T(x)
			}
		}
	}, err
}

package dtype_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/pinion-gpu/pinion/dtype"
)

func ExampleParse() {
	d, err := dtype.Parse("bf16")
	fmt.Println(d, d.Size(), err)
	// Output: bf16 2 <nil>
}

func TestTypes(t *testing.T) {
	sizes := map[dtype.DType]int{
		dtype.U8: 1, dtype.I8: 1, dtype.U16: 2, dtype.I16: 2, dtype.I32: 4, dtype.I64: 8,
		dtype.F16: 2, dtype.BF16: 2, dtype.F32: 4, dtype.F64: 8,
		dtype.U32: 4, dtype.U64: 8, dtype.Bool: 1,
	}
	names := map[string]bool{}
	for d, size := range sizes {
		if d.Size() != size {
			t.Errorf("%v: size %d, want %d", d, d.Size(), size)
		}
		if back, err := dtype.Parse(d.String()); err != nil || back != d {
			t.Errorf("Parse(%q) = %v, %v", d, back, err)
		}
		names[d.String()] = true
	}
	if len(names) != len(sizes) {
		t.Errorf("names are not distinct: %v", names)
	}
}

func TestInvalid(t *testing.T) {
	for _, d := range []dtype.DType{0, dtype.Bool + 1, 255} {
		if d.Valid() || d.Size() != 0 {
			t.Errorf("%v: valid %t, size %d", d, d.Valid(), d.Size())
		}
	}
	for _, name := range []string{"", "float32", "F32", "u128"} {
		if _, err := dtype.Parse(name); !errors.Is(err, dtype.ErrUnknown) {
			t.Errorf("Parse(%q): %v", name, err)
		}
	}
}

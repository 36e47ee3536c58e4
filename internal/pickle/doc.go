// Package pickle reads and writes Python pickles of plain data: None, bool,
// int, float, str, bytes, list, tuple and dict.
//
// [Decode] reads protocols 2 to 5. Opcodes that import or call something
// (GLOBAL, REDUCE, BUILD, …) are refused, so that a foreign file can only
// describe data. [Encode] writes protocol 4.
//
// Values have these Go types:
//
//	None               nil
//	bool               bool
//	int                int64; uint64 or *big.Int where that is too small
//	float              float64
//	str                string
//	bytes, bytearray   []byte
//	list               *List
//	tuple              *Tuple
//	dict               *Dict
//
// Containers are pointers because pickles share them: one list of stack frames
// may stand in a million entries. Whoever walks a decoded value meets no
// cycles and at most [MaxDepth] levels, but may meet a container many times.
//
// The format is described by the comments of CPython's pickletools module.
package pickle

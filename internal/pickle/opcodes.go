package pickle

import "fmt"

// Opcodes of plain data, by their names in pickletools.
const (
	opMark            = '('
	opStop            = '.'
	opPop             = '0'
	opPopMark         = '1'
	opDup             = '2'
	opBinBytes        = 'B'
	opShortBinBytes   = 'C'
	opBinFloat        = 'G'
	opBinInt          = 'J'
	opBinInt1         = 'K'
	opBinInt2         = 'M'
	opNone            = 'N'
	opBinString       = 'T'
	opShortBinString  = 'U'
	opBinUnicode      = 'X'
	opEmptyList       = ']'
	opAppend          = 'a'
	opDict            = 'd'
	opAppends         = 'e'
	opBinGet          = 'h'
	opLongBinGet      = 'j'
	opList            = 'l'
	opBinPut          = 'q'
	opLongBinPut      = 'r'
	opSetItem         = 's'
	opTuple           = 't'
	opSetItems        = 'u'
	opEmptyDict       = '}'
	opEmptyTuple      = ')'
	opProto           = 0x80
	opTuple1          = 0x85
	opTuple2          = 0x86
	opTuple3          = 0x87
	opNewTrue         = 0x88
	opNewFalse        = 0x89
	opLong1           = 0x8a
	opLong4           = 0x8b
	opShortBinUnicode = 0x8c
	opBinUnicode8     = 0x8d
	opBinBytes8       = 0x8e
	opMemoize         = 0x94
	opFrame           = 0x95
	opByteArray8      = 0x96
)

// refused names the opcodes that are known and not plain data. The text
// opcodes of protocols 0 and 1 are among them.
var refused = map[byte]string{
	'F': "FLOAT", 'I': "INT", 'L': "LONG", 'P': "PERSID", 'Q': "BINPERSID",
	'R': "REDUCE", 'S': "STRING", 'V': "UNICODE", 'b': "BUILD", 'c': "GLOBAL",
	'g': "GET", 'i': "INST", 'o': "OBJ", 'p': "PUT",
	0x81: "NEWOBJ", 0x82: "EXT1", 0x83: "EXT2", 0x84: "EXT4",
	0x8f: "EMPTY_SET", 0x90: "ADDITEMS", 0x91: "FROZENSET", 0x92: "NEWOBJ_EX",
	0x93: "STACK_GLOBAL", 0x97: "NEXT_BUFFER", 0x98: "READONLY_BUFFER",
}

func unknownOpcode(op byte) error {
	if name, ok := refused[op]; ok {
		return fmt.Errorf("%w: opcode %s", ErrNotPlain, name)
	}
	return fmt.Errorf("%w: no opcode 0x%02x", ErrMalformed, op)
}

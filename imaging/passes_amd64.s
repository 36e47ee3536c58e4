//go:build !noasm

#include "textflag.h"

// Weighted sums are 32-bit integers, one per lane: a byte is widened and
// multiplied by a weight of 22 fraction bits. The sum begins at one half, is
// shifted right and packed with saturation, which is clip of passes.go.

DATA rounding<>+0(SB)/4, $0x200000
GLOBL rounding<>(SB), RODATA|NOPTR, $4

// Byte shuffles that widen the channels of one of four RGB samples to lanes.
DATA sample0<>+0(SB)/8, $0x8080800180808000
DATA sample0<>+8(SB)/8, $0x8080808080808002
GLOBL sample0<>(SB), RODATA|NOPTR, $16
DATA sample1<>+0(SB)/8, $0x8080800480808003
DATA sample1<>+8(SB)/8, $0x8080808080808005
GLOBL sample1<>(SB), RODATA|NOPTR, $16
DATA sample2<>+0(SB)/8, $0x8080800780808006
DATA sample2<>+8(SB)/8, $0x8080808080808008
GLOBL sample2<>(SB), RODATA|NOPTR, $16
DATA sample3<>+0(SB)/8, $0x8080800a80808009
DATA sample3<>+8(SB)/8, $0x808080808080800b
GLOBL sample3<>(SB), RODATA|NOPTR, $16

// Joins RGB- RGB- to RGBRGB: in the low half at byte 0, in the high at 6.
DATA joined<>+0(SB)/8, $0x8080060504020100
DATA joined<>+8(SB)/8, $0x8080808080808080
DATA joined<>+16(SB)/8, $0x0100808080808080
DATA joined<>+24(SB)/8, $0x8080808006050402
GLOBL joined<>(SB), RODATA|NOPTR, $32

// The order of double words that undoes the packing within halves.
DATA unpacked<>+0(SB)/8, $0x0000000400000000
DATA unpacked<>+8(SB)/8, $0x0000000500000001
DATA unpacked<>+16(SB)/8, $0x0000000600000002
DATA unpacked<>+24(SB)/8, $0x0000000700000003
GLOBL unpacked<>(SB), RODATA|NOPTR, $32

// TAP adds tap number t, as a shuffle of samples and one of weights, to the
// sums Y0 of outputs 0 and 2 and Y1 of outputs 1 and 3, a half each.
#define TAP(samples, weights) \
	VPSHUFB samples, Y2, Y6  \
	VPSHUFD weights, Y4, Y7  \
	VPSHUFB samples, Y3, Y8  \
	VPSHUFD weights, Y5, Y9  \
	VPMULLD Y7, Y6, Y6       \
	VPMULLD Y9, Y8, Y8       \
	VPADDD  Y6, Y0, Y0       \
	VPADDD  Y8, Y1, Y1

// func horizontalRGBAVX2(dst, src *byte, start *int32, weight *uint32, lo, taps, n int)
TEXT ·horizontalRGBAVX2(SB), NOSPLIT, $0-56
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ start+16(FP), R8
	MOVQ weight+24(FP), R9
	MOVQ lo+32(FP), R14
	MOVQ taps+40(FP), R10
	MOVQ n+48(FP), R11
	LEAQ (R14)(R14*2), R14
	SUBQ R14, SI            // sample number 0
	SHLQ $2, R10            // bytes of the weights of one output
	LEAQ (R10)(R10*2), R12  // and of three

	VBROADCASTI128 sample0<>(SB), Y10
	VBROADCASTI128 sample1<>(SB), Y11
	VBROADCASTI128 sample2<>(SB), Y12
	VBROADCASTI128 sample3<>(SB), Y13
	VPBROADCASTD   rounding<>(SB), Y14
	VMOVDQU        joined<>(SB), Y15

four:
	// The samples of four outputs begin at AX, BX, CX, DX.
	MOVLQSX 0(R8), AX
	MOVLQSX 4(R8), BX
	MOVLQSX 8(R8), CX
	MOVLQSX 12(R8), DX
	LEAQ    (AX)(AX*2), AX
	LEAQ    (BX)(BX*2), BX
	LEAQ    (CX)(CX*2), CX
	LEAQ    (DX)(DX*2), DX
	ADDQ    SI, AX
	ADDQ    SI, BX
	ADDQ    SI, CX
	ADDQ    SI, DX
	VMOVDQA Y14, Y0
	VMOVDQA Y14, Y1
	MOVQ    R10, R13

taps:
	// Four samples are 12 of the 16 bytes that are loaded.
	VMOVDQU     (AX), X2
	VINSERTI128 $1, (CX), Y2, Y2
	VMOVDQU     (BX), X3
	VINSERTI128 $1, (DX), Y3, Y3
	VMOVDQU     (R9), X4
	VINSERTI128 $1, (R9)(R10*2), Y4, Y4
	VMOVDQU     (R9)(R10*1), X5
	VINSERTI128 $1, (R9)(R12*1), Y5, Y5
	TAP(Y10, $0x00)
	TAP(Y11, $0x55)
	TAP(Y12, $0xaa)
	TAP(Y13, $0xff)
	ADDQ        $12, AX
	ADDQ        $12, BX
	ADDQ        $12, CX
	ADDQ        $12, DX
	ADDQ        $16, R9
	SUBQ        $16, R13
	JNZ         taps

	ADDQ         R12, R9 // the weights of the other three outputs
	VPSRLD       $22, Y0, Y0
	VPSRLD       $22, Y1, Y1
	VPACKUSDW    Y1, Y0, Y0
	VPACKUSWB    Y0, Y0, Y0
	VPSHUFB      Y15, Y0, Y0
	VEXTRACTI128 $1, Y0, X1
	VPOR         X1, X0, X0
	VMOVQ        X0, (DI)
	VPEXTRD      $2, X0, 8(DI)
	ADDQ         $12, DI
	ADDQ         $16, R8
	SUBQ         $4, R11
	JNZ          four

	VZEROUPPER
	RET

// func horizontalPlaneAVX2(dst, src *byte, start *int32, weight *uint32, lo, taps, n int)
TEXT ·horizontalPlaneAVX2(SB), NOSPLIT, $0-56
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ start+16(FP), R8
	MOVQ weight+24(FP), R9
	MOVQ lo+32(FP), R14
	MOVQ taps+40(FP), R10
	MOVQ n+48(FP), R11
	SUBQ R14, SI            // sample number 0
	SHLQ $2, R10            // bytes of the weights of one output
	LEAQ (R10)(R10*2), R12  // and of three

	VPBROADCASTD rounding<>(SB), X14

four:
	// The samples of four outputs begin at AX, BX, CX, DX.
	MOVLQSX 0(R8), AX
	MOVLQSX 4(R8), BX
	MOVLQSX 8(R8), CX
	MOVLQSX 12(R8), DX
	ADDQ    SI, AX
	ADDQ    SI, BX
	ADDQ    SI, CX
	ADDQ    SI, DX
	VPXOR   Y0, Y0, Y0
	VPXOR   Y1, Y1, Y1
	MOVQ    R10, R13

taps:
	// A lane is a tap: Y0 holds those of outputs 0 and 1, Y1 of 2 and 3.
	VMOVD       (AX), X2
	VPINSRD     $1, (BX), X2, X2
	VMOVD       (CX), X3
	VPINSRD     $1, (DX), X3, X3
	VPMOVZXBD   X2, Y2
	VPMOVZXBD   X3, Y3
	VMOVDQU     (R9), X4
	VINSERTI128 $1, (R9)(R10*1), Y4, Y4
	VMOVDQU     (R9)(R10*2), X5
	VINSERTI128 $1, (R9)(R12*1), Y5, Y5
	VPMULLD     Y4, Y2, Y2
	VPMULLD     Y5, Y3, Y3
	VPADDD      Y2, Y0, Y0
	VPADDD      Y3, Y1, Y1
	ADDQ        $4, AX
	ADDQ        $4, BX
	ADDQ        $4, CX
	ADDQ        $4, DX
	ADDQ        $16, R9
	SUBQ        $16, R13
	JNZ         taps

	ADDQ         R12, R9 // the weights of the other three outputs
	VPHADDD      Y1, Y0, Y0 // halves: 0 0 2 2 | 1 1 3 3
	VPHADDD      Y0, Y0, Y0 // 0 2 0 2 | 1 3 1 3
	VEXTRACTI128 $1, Y0, X1
	VPUNPCKLDQ   X1, X0, X0 // 0 1 2 3
	VPADDD       X14, X0, X0
	VPSRLD       $22, X0, X0
	VPACKUSDW    X0, X0, X0
	VPACKUSWB    X0, X0, X0
	VMOVD        X0, (DI)
	ADDQ         $4, DI
	ADDQ         $16, R8
	SUBQ         $4, R11
	JNZ          four

	VZEROUPPER
	RET

// func verticalAVX2(dst *byte, lines *[]byte, weight *uint32, taps, n int)
TEXT ·verticalAVX2(SB), NOSPLIT, $0-40
	MOVQ dst+0(FP), DI
	MOVQ lines+8(FP), SI
	MOVQ weight+16(FP), R9
	MOVQ taps+24(FP), R10
	MOVQ n+32(FP), R11
	SUBQ $32, R11 // where the last 32 bytes begin
	XORQ CX, CX

	VPBROADCASTD rounding<>(SB), Y14
	VMOVDQU      unpacked<>(SB), Y15

block:
	VMOVDQA Y14, Y0
	VMOVDQA Y14, Y1
	VMOVDQA Y14, Y2
	VMOVDQA Y14, Y3
	MOVQ    SI, R8
	XORQ    DX, DX

line:
	MOVQ         (R8), AX
	VPBROADCASTD (R9)(DX*4), Y4
	VPMOVZXBD    0(AX)(CX*1), Y5
	VPMOVZXBD    8(AX)(CX*1), Y6
	VPMOVZXBD    16(AX)(CX*1), Y7
	VPMOVZXBD    24(AX)(CX*1), Y8
	VPMULLD      Y4, Y5, Y5
	VPMULLD      Y4, Y6, Y6
	VPMULLD      Y4, Y7, Y7
	VPMULLD      Y4, Y8, Y8
	VPADDD       Y5, Y0, Y0
	VPADDD       Y6, Y1, Y1
	VPADDD       Y7, Y2, Y2
	VPADDD       Y8, Y3, Y3
	ADDQ         $24, R8 // the next slice
	INCQ         DX
	CMPQ         DX, R10
	JNE          line

	VPSRLD    $22, Y0, Y0
	VPSRLD    $22, Y1, Y1
	VPSRLD    $22, Y2, Y2
	VPSRLD    $22, Y3, Y3
	VPACKUSDW Y1, Y0, Y0
	VPACKUSDW Y3, Y2, Y2
	VPACKUSWB Y2, Y0, Y0
	VPERMD    Y0, Y15, Y0
	VMOVDQU   Y0, (DI)(CX*1)

	// The last block overlaps the one before rather than leave a rest.
	CMPQ    CX, R11
	JEQ     done
	ADDQ    $32, CX
	CMPQ    CX, R11
	CMOVQGT R11, CX
	JMP     block

done:
	VZEROUPPER
	RET

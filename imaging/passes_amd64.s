//go:build !noasm

#include "textflag.h"

// Weighted sums are 32-bit integers, one per lane: a byte is widened and
// multiplied by a weight of 22 fraction bits. The sum begins at one half, is
// shifted right with its sign and packed with saturation, which is clip of
// passes.go.

DATA ·rounding+0(SB)/4, $0x200000
GLOBL ·rounding(SB), RODATA|NOPTR, $4

// Byte shuffles that widen two of four RGB samples to words and put those of a
// channel side by side.
DATA ·samples01+0(SB)/8, $0x8004800180038000
DATA ·samples01+8(SB)/8, $0x8080808080058002
GLOBL ·samples01(SB), RODATA|NOPTR, $16
DATA ·samples23+0(SB)/8, $0x800a800780098006
DATA ·samples23+8(SB)/8, $0x80808080800b8008
GLOBL ·samples23(SB), RODATA|NOPTR, $16

// The order of double words that undoes the packing within halves.
DATA unpacked<>+0(SB)/8, $0x0000000400000000
DATA unpacked<>+8(SB)/8, $0x0000000500000001
DATA unpacked<>+16(SB)/8, $0x0000000600000002
DATA unpacked<>+24(SB)/8, $0x0000000700000003
GLOBL unpacked<>(SB), RODATA|NOPTR, $32

// SUM sets the sums of four rows to what two taps add: upper halves of rows 0
// and 1 and of rows 2 and 3, lower halves of those, each lane a channel.
#define SUM(samples, upper, lower, upper01, upper23, lower01, lower23) \
	VPBROADCASTD upper, Y8          \
	VPBROADCASTD lower, Y9          \
	VPSHUFB      samples, Y4, Y6    \
	VPSHUFB      samples, Y5, Y7    \
	VPMADDWD     Y8, Y6, upper01    \
	VPMADDWD     Y8, Y7, upper23    \
	VPMADDWD     Y9, Y6, lower01    \
	VPMADDWD     Y9, Y7, lower23

// ADD adds two taps to the sums Y0 to Y3.
#define ADD(samples, upper, lower) \
	SUM(samples, upper, lower, Y12, Y13, Y6, Y7) \
	VPADDD Y12, Y0, Y0              \
	VPADDD Y13, Y1, Y1              \
	VPADDD Y6, Y2, Y2               \
	VPADDD Y7, Y3, Y3

// LOAD loads four samples of four rows, 12 of the 16 bytes each.
#define LOAD \
	VMOVDQU     (SI)(AX*1), X4         \
	VINSERTI128 $1, (BX)(AX*1), Y4, Y4 \
	VMOVDQU     (CX)(AX*1), X5         \
	VINSERTI128 $1, (DX)(AX*1), Y5, Y5

// func horizontalRGBAVX2(dst, src *[rowsAtOnce]*byte, start *int32, halves *int16, lo, taps, n int)
TEXT ·horizontalRGBAVX2(SB), NOSPLIT, $0-56
	MOVQ dst+0(FP), AX
	MOVQ 0(AX), DI
	MOVQ 8(AX), R10
	MOVQ 16(AX), R11
	MOVQ 24(AX), R12
	MOVQ lo+32(FP), R14
	LEAQ (R14)(R14*2), R14
	MOVQ src+8(FP), AX
	MOVQ 0(AX), SI
	MOVQ 8(AX), BX
	MOVQ 16(AX), CX
	MOVQ 24(AX), DX
	SUBQ R14, SI            // sample number 0
	SUBQ R14, BX
	SUBQ R14, CX
	SUBQ R14, DX
	MOVQ start+16(FP), R8
	MOVQ halves+24(FP), R9
	MOVQ taps+40(FP), R14
	SHRQ $2, R14
	MOVQ n+48(FP), R13

	VBROADCASTI128 ·samples01(SB), Y10
	VBROADCASTI128 ·samples23(SB), Y11
	VPBROADCASTD   ·rounding(SB), Y14

output:
	MOVLQSX (R8), AX
	LEAQ    (AX)(AX*2), AX
	LOAD
	SUM(Y10, 0(R9), 8(R9), Y0, Y1, Y2, Y3)
	ADD(Y11, 4(R9), 12(R9))
	ADDQ    $16, R9
	MOVQ    R14, R15
	DECQ    R15
	JZ      sums

four:
	ADDQ $12, AX
	LOAD
	ADD(Y10, 0(R9), 8(R9))
	ADD(Y11, 4(R9), 12(R9))
	ADDQ $16, R9
	DECQ R15
	JNZ  four

sums:
	VPSLLD       $11, Y0, Y0
	VPSLLD       $11, Y1, Y1
	VPADDD       Y14, Y2, Y2
	VPADDD       Y14, Y3, Y3
	VPADDD       Y2, Y0, Y0
	VPADDD       Y3, Y1, Y1
	VPSRAD       $22, Y0, Y0
	VPSRAD       $22, Y1, Y1
	VPACKUSDW    Y1, Y0, Y0
	VPACKUSWB    Y0, Y0, Y0
	VEXTRACTI128 $1, Y0, X1
	VMOVD        X0, (DI)
	VMOVD        X1, (R10)
	VPEXTRD      $1, X0, (R11)
	VPEXTRD      $1, X1, (R12)
	ADDQ         $3, DI
	ADDQ         $3, R10
	ADDQ         $3, R11
	ADDQ         $3, R12
	ADDQ         $4, R8
	DECQ         R13
	JNZ          output

	VZEROUPPER
	RET

// func horizontalPlaneAVX2(dst, src *byte, start *int32, weight *int32, lo, taps, n int)
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

	VPBROADCASTD ·rounding(SB), X14

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
	VPSRAD       $22, X0, X0
	VPACKUSDW    X0, X0, X0
	VPACKUSWB    X0, X0, X0
	VMOVD        X0, (DI)
	ADDQ         $4, DI
	ADDQ         $16, R8
	SUBQ         $4, R11
	JNZ          four

	VZEROUPPER
	RET

// func verticalAVX2(dst *byte, lines *[]byte, weight *int32, taps, n int)
TEXT ·verticalAVX2(SB), NOSPLIT, $0-40
	MOVQ dst+0(FP), DI
	MOVQ lines+8(FP), SI
	MOVQ weight+16(FP), R9
	MOVQ taps+24(FP), R10
	MOVQ n+32(FP), R11
	SUBQ $32, R11 // where the last 32 bytes begin
	XORQ CX, CX

	VPBROADCASTD ·rounding(SB), Y14
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

	VPSRAD    $22, Y0, Y0
	VPSRAD    $22, Y1, Y1
	VPSRAD    $22, Y2, Y2
	VPSRAD    $22, Y3, Y3
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

//go:build !noasm

#include "textflag.h"

// As in passes_amd64.s, but a register is four rows of one output, or 64
// bytes of a row, and VPDPWSSD adds what it multiplies.

// func horizontalRGBAVX512(dst, src *[rowsAtOnce]*byte, start *int32, halves *int16, lo, taps, n int)
TEXT ·horizontalRGBAVX512(SB), NOSPLIT, $0-56
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

	VBROADCASTI32X4 ·samples01(SB), Z10
	VBROADCASTI32X4 ·samples23(SB), Z11
	VPBROADCASTD    ·rounding(SB), Z14
	VPXORD          Z15, Z15, Z15

output:
	// Z0 are the sums of the upper halves, Z2 of the lower ones.
	MOVLQSX   (R8), AX
	LEAQ      (AX)(AX*2), AX
	MOVQ      R14, R15
	VMOVDQA32 Z15, Z0
	VMOVDQA32 Z14, Z2

four:
	// Four samples are 12 of the 16 bytes that are loaded.
	VMOVDQU       (SI)(AX*1), X4
	VINSERTI128   $1, (BX)(AX*1), Y4, Y4
	VMOVDQU       (CX)(AX*1), X5
	VINSERTI128   $1, (DX)(AX*1), Y5, Y5
	VINSERTI64X4  $1, Y5, Z4, Z4
	VPSHUFB       Z10, Z4, Z6
	VPSHUFB       Z11, Z4, Z7
	VPDPWSSD.BCST 0(R9), Z6, Z0
	VPDPWSSD.BCST 8(R9), Z6, Z2
	VPDPWSSD.BCST 4(R9), Z7, Z0
	VPDPWSSD.BCST 12(R9), Z7, Z2
	ADDQ          $12, AX
	ADDQ          $16, R9
	DECQ          R15
	JNZ           four

	VPSLLD    $11, Z0, Z0
	VPADDD    Z2, Z0, Z0
	VPSRAD    $22, Z0, Z0
	VPMAXSD   Z15, Z0, Z0
	VPMOVUSDB Z0, X0
	VMOVD     X0, (DI)
	VPEXTRD   $1, X0, (R10)
	VPEXTRD   $2, X0, (R11)
	VPEXTRD   $3, X0, (R12)
	ADDQ      $3, DI
	ADDQ      $3, R10
	ADDQ      $3, R11
	ADDQ      $3, R12
	ADDQ      $4, R8
	DECQ      R13
	JNZ       output

	VZEROUPPER
	RET

// QUARTER adds two lines to the sums of a quarter of 64 bytes.
#define QUARTER(unpack, bytes, upper, lower) \
	unpack   Z15, bytes, Z12    \
	VPDPWSSD Z13, Z12, upper    \
	VPDPWSSD Z14, Z12, lower

// func verticalAVX512(dst *byte, lines *[]byte, halves *int16, taps, n int)
TEXT ·verticalAVX512(SB), NOSPLIT, $0-40
	MOVQ dst+0(FP), DI
	MOVQ lines+8(FP), SI
	MOVQ halves+16(FP), R9
	MOVQ taps+24(FP), R10
	MOVQ n+32(FP), R11
	SUBQ $64, R11 // where the last 64 bytes begin
	XORQ CX, CX

	VPBROADCASTD ·rounding(SB), Z16
	VPXORD       Z15, Z15, Z15

block:
	VMOVDQA32 Z15, Z0
	VMOVDQA32 Z15, Z1
	VMOVDQA32 Z15, Z2
	VMOVDQA32 Z15, Z3
	VMOVDQA32 Z16, Z4
	VMOVDQA32 Z16, Z5
	VMOVDQA32 Z16, Z6
	VMOVDQA32 Z16, Z7
	MOVQ      SI, R8
	MOVQ      R9, R12
	MOVQ      R10, DX

four:
	// Bytes of two lines side by side are pairs of words for one product.
	MOVQ         0(R8), AX
	MOVQ         24(R8), BX
	VPBROADCASTD 0(R12), Z13
	VPBROADCASTD 8(R12), Z14
	VMOVDQU64    (AX)(CX*1), Z8
	VMOVDQU64    (BX)(CX*1), Z9
	VPUNPCKLBW   Z9, Z8, Z10
	VPUNPCKHBW   Z9, Z8, Z11
	QUARTER(VPUNPCKLBW, Z10, Z0, Z4)
	QUARTER(VPUNPCKHBW, Z10, Z1, Z5)
	QUARTER(VPUNPCKLBW, Z11, Z2, Z6)
	QUARTER(VPUNPCKHBW, Z11, Z3, Z7)
	SUBQ         $2, DX
	JLE          sums
	MOVQ         48(R8), AX
	MOVQ         72(R8), BX
	VPBROADCASTD 4(R12), Z13
	VPBROADCASTD 12(R12), Z14
	VMOVDQU64    (AX)(CX*1), Z8
	VMOVDQU64    (BX)(CX*1), Z9
	VPUNPCKLBW   Z9, Z8, Z10
	VPUNPCKHBW   Z9, Z8, Z11
	QUARTER(VPUNPCKLBW, Z10, Z0, Z4)
	QUARTER(VPUNPCKHBW, Z10, Z1, Z5)
	QUARTER(VPUNPCKLBW, Z11, Z2, Z6)
	QUARTER(VPUNPCKHBW, Z11, Z3, Z7)
	ADDQ         $96, R8  // four slices
	ADDQ         $16, R12
	SUBQ         $2, DX
	JG           four

sums:
	VPSLLD    $11, Z0, Z0
	VPSLLD    $11, Z1, Z1
	VPSLLD    $11, Z2, Z2
	VPSLLD    $11, Z3, Z3
	VPADDD    Z4, Z0, Z0
	VPADDD    Z5, Z1, Z1
	VPADDD    Z6, Z2, Z2
	VPADDD    Z7, Z3, Z3
	VPSRAD    $22, Z0, Z0
	VPSRAD    $22, Z1, Z1
	VPSRAD    $22, Z2, Z2
	VPSRAD    $22, Z3, Z3
	VPACKUSDW Z1, Z0, Z0
	VPACKUSDW Z3, Z2, Z2
	VPACKUSWB Z2, Z0, Z0
	VMOVDQU64 Z0, (DI)(CX*1)

	// The last block overlaps the one before rather than leave a rest.
	CMPQ    CX, R11
	JEQ     done
	ADDQ    $64, CX
	CMPQ    CX, R11
	CMOVQGT R11, CX
	JMP     block

done:
	VZEROUPPER
	RET

//go:build !noasm

#include "textflag.h"

// Each function does what the Go function of its name in colour_go.go does, 8
// pixels at a time, operation by operation: nothing is fused.

DATA one<>+0(SB)/4, $0x3f800000
GLOBL one<>(SB), RODATA|NOPTR, $4
DATA two<>+0(SB)/4, $0x40000000
GLOBL two<>(SB), RODATA|NOPTR, $4
DATA four<>+0(SB)/4, $0x40800000
GLOBL four<>(SB), RODATA|NOPTR, $4
DATA six<>+0(SB)/4, $0x40c00000
GLOBL six<>(SB), RODATA|NOPTR, $4
DATA redShare<>+0(SB)/4, $0x3e99096c
GLOBL redShare<>(SB), RODATA|NOPTR, $4
DATA greenShare<>+0(SB)/4, $0x3f1645a2
GLOBL greenShare<>(SB), RODATA|NOPTR, $4
DATA blueShare<>+0(SB)/4, $0x3de978d5
GLOBL blueShare<>(SB), RODATA|NOPTR, $4

// For each sixth of the circle, from the highest bits on, two bits each for
// red, green and blue: 0 is high, 1 up, 2 least, 3 down.
DATA sixths<>+0(SB)/8, $0xc800000018000000
DATA sixths<>+8(SB)/8, $0xb000000084000000
DATA sixths<>+16(SB)/8, $0x2c00000060000000
DATA sixths<>+24(SB)/8, $0x1800000018000000
GLOBL sixths<>(SB), RODATA|NOPTR, $32

// CLAMP keeps x within 0 (Y14) and 1 (Y15); no number becomes 0.
#define CLAMP(x) \
	VMAXPS Y14, x, x \
	VMINPS Y15, x, x

// func blendAVX2(plane *float32, n int, ratio, add float32)
TEXT ·blendAVX2(SB), NOSPLIT, $0-24
	MOVQ         plane+0(FP), DI
	MOVQ         n+8(FP), CX
	VBROADCASTSS ratio+16(FP), Y12
	VBROADCASTSS add+20(FP), Y13
	VXORPS       Y14, Y14, Y14
	VBROADCASTSS one<>(SB), Y15

blend:
	VMULPS  (DI), Y12, Y0
	VADDPS  Y13, Y0, Y0
	CLAMP(Y0)
	VMOVUPS Y0, (DI)
	ADDQ    $32, DI
	SUBQ    $8, CX
	JNZ     blend
	VZEROUPPER
	RET

// func saturateAVX2(red, green, blue *float32, n int, ratio, rest float32)
TEXT ·saturateAVX2(SB), NOSPLIT, $0-40
	MOVQ         red+0(FP), DI
	MOVQ         green+8(FP), SI
	MOVQ         blue+16(FP), DX
	MOVQ         n+24(FP), CX
	VBROADCASTSS ratio+32(FP), Y12
	VBROADCASTSS rest+36(FP), Y13
	VXORPS       Y14, Y14, Y14
	VBROADCASTSS one<>(SB), Y15
	VBROADCASTSS redShare<>(SB), Y9
	VBROADCASTSS greenShare<>(SB), Y10
	VBROADCASTSS blueShare<>(SB), Y11

saturate:
	VMOVUPS (DI), Y0
	VMOVUPS (SI), Y1
	VMOVUPS (DX), Y2
	VMULPS  Y9, Y0, Y3
	VMULPS  Y10, Y1, Y4
	VADDPS  Y4, Y3, Y3
	VMULPS  Y11, Y2, Y4
	VADDPS  Y4, Y3, Y3      // grey
	VMULPS  Y13, Y3, Y3
	VMULPS  Y12, Y0, Y0
	VMULPS  Y12, Y1, Y1
	VMULPS  Y12, Y2, Y2
	VADDPS  Y3, Y0, Y0
	VADDPS  Y3, Y1, Y1
	VADDPS  Y3, Y2, Y2
	CLAMP(Y0)
	CLAMP(Y1)
	CLAMP(Y2)
	VMOVUPS Y0, (DI)
	VMOVUPS Y1, (SI)
	VMOVUPS Y2, (DX)
	ADDQ    $32, DI
	ADDQ    $32, SI
	ADDQ    $32, DX
	SUBQ    $8, CX
	JNZ     saturate
	VZEROUPPER
	RET

// CHOOSE sets to to high (Y3), up (Y8), least (Y9) or down (Y7), as the two
// highest bits of each lane of Y10 say, or to old where the pixel is grey (Y11).
#define CHOOSE(old, to) \
	VPSLLD    $1, Y10, Y4     \
	VBLENDVPS Y4, Y8, Y3, Y5  \
	VBLENDVPS Y4, Y7, Y9, Y6  \
	VBLENDVPS Y10, Y6, Y5, Y5 \
	VBLENDVPS Y11, old, Y5, to

// func turnAVX2(red, green, blue *float32, n int, by float32)
TEXT ·turnAVX2(SB), NOSPLIT, $0-36
	MOVQ         red+0(FP), DI
	MOVQ         green+8(FP), SI
	MOVQ         blue+16(FP), DX
	MOVQ         n+24(FP), CX
	VBROADCASTSS by+32(FP), Y12
	VBROADCASTSS six<>(SB), Y13
	VMOVDQU      sixths<>(SB), Y14
	VBROADCASTSS one<>(SB), Y15

turn:
	VMOVUPS (DI), Y0
	VMOVUPS (SI), Y1
	VMOVUPS (DX), Y2
	VMAXPS  Y1, Y0, Y3
	VMAXPS  Y2, Y3, Y3           // high
	VMINPS  Y1, Y0, Y4
	VMINPS  Y2, Y4, Y4
	VSUBPS  Y4, Y3, Y4           // span
	VXORPS  Y5, Y5, Y5
	VCMPPS  $0, Y5, Y4, Y11      // grey: what follows divides by zero, and is not chosen

	// Distances to the highest channel of the one after it and of the one
	// before, and its place.
	VCMPPS       $0, Y0, Y3, Y5  // red is the highest
	VCMPPS       $0, Y1, Y3, Y6  // or else green
	VBLENDVPS    Y6, Y0, Y1, Y7
	VBLENDVPS    Y5, Y2, Y7, Y7  // after
	VBLENDVPS    Y6, Y2, Y0, Y8
	VBLENDVPS    Y5, Y1, Y8, Y8  // before
	VBROADCASTSS two<>(SB), Y9
	VBROADCASTSS four<>(SB), Y10
	VBLENDVPS    Y6, Y9, Y10, Y9
	VANDNPS      Y9, Y5, Y9
	VSUBPS       Y7, Y3, Y7
	VSUBPS       Y8, Y3, Y8
	VDIVPS       Y4, Y7, Y7
	VDIVPS       Y4, Y8, Y8
	VDIVPS       Y3, Y4, Y4      // s
	VADDPS       Y7, Y9, Y7
	VSUBPS       Y8, Y7, Y7
	VDIVPS       Y13, Y7, Y7
	VADDPS       Y15, Y7, Y7
	VCMPPS       $13, Y15, Y7, Y8 // from 1 on
	VANDPS       Y15, Y8, Y8
	VSUBPS       Y8, Y7, Y7      // h

	VADDPS    Y12, Y7, Y7
	VROUNDPS  $9, Y7, Y8
	VSUBPS    Y8, Y7, Y7
	VMULPS    Y13, Y7, Y7
	VROUNDPS  $9, Y7, Y8         // sector
	VSUBPS    Y8, Y7, Y7         // f
	VCVTTPS2DQ Y8, Y10
	VPERMD    Y14, Y10, Y10
	VSUBPS    Y7, Y15, Y8
	VMULPS    Y4, Y7, Y7
	VMULPS    Y4, Y8, Y8
	VSUBPS    Y7, Y15, Y7
	VSUBPS    Y8, Y15, Y8
	VSUBPS    Y4, Y15, Y9
	VMULPS    Y3, Y7, Y7         // down
	VMULPS    Y3, Y8, Y8         // up
	VMULPS    Y3, Y9, Y9         // least

	CHOOSE(Y0, Y0)
	VPSLLD  $2, Y10, Y10
	CHOOSE(Y1, Y1)
	VPSLLD  $2, Y10, Y10
	CHOOSE(Y2, Y2)
	VMOVUPS Y0, (DI)
	VMOVUPS Y1, (SI)
	VMOVUPS Y2, (DX)
	ADDQ    $32, DI
	ADDQ    $32, SI
	ADDQ    $32, DX
	SUBQ    $8, CX
	JNZ     turn
	VZEROUPPER
	RET

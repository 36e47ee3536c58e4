//go:build amd64 && !noasm

#include "textflag.h"

// func copyGroups(dst, src *byte, n uintptr)
//
// A line of each of four pages in turn: the hardware prefetcher follows each
// page, so four reads of memory are under way at once.
TEXT ·copyGroups(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ n+16(FP), CX

group:
	MOVQ $64, DX

line:
	VMOVDQU  (SI), Y0
	VMOVDQU  32(SI), Y1
	VMOVDQU  4096(SI), Y2
	VMOVDQU  4128(SI), Y3
	VMOVDQU  8192(SI), Y4
	VMOVDQU  8224(SI), Y5
	VMOVDQU  12288(SI), Y6
	VMOVDQU  12320(SI), Y7
	VMOVNTDQ Y0, (DI)
	VMOVNTDQ Y1, 32(DI)
	VMOVNTDQ Y2, 4096(DI)
	VMOVNTDQ Y3, 4128(DI)
	VMOVNTDQ Y4, 8192(DI)
	VMOVNTDQ Y5, 8224(DI)
	VMOVNTDQ Y6, 12288(DI)
	VMOVNTDQ Y7, 12320(DI)
	ADDQ     $64, SI
	ADDQ     $64, DI
	DECQ     DX
	JNZ      line
	ADDQ     $12288, SI
	ADDQ     $12288, DI
	SUBQ     $16384, CX
	JNZ      group

	// Others see ordinary stores that come after this one behind these.
	SFENCE
	VZEROUPPER
	RET

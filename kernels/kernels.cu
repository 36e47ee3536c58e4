// The device functions of package kernels. Each has a Go twin that gives the
// same bits; the Go files beside this one state the contracts. Compiled to
// kernels.ptx by ptx.sh.
//
// Sums and products that must round apart use the _rn intrinsics, which the
// compiler never fuses. Only operations that compute capability 7.5 and PTX
// ISA 7.0 have are used. Grids may be smaller than the work: every loop
// strides by the whole grid. Counts and indexes of elements are 64 bits wide.

#include <cuda_fp16.h>

typedef unsigned char u8;
typedef signed char i8;
typedef unsigned short u16;
typedef short i16;
typedef unsigned int u32;
typedef int i32;
typedef unsigned long long u64;
typedef long long i64;

static __device__ __forceinline__ i64 first() { return (i64)blockIdx.x * blockDim.x + threadIdx.x; }
static __device__ __forceinline__ i64 stride() { return (i64)gridDim.x * blockDim.x; }

// ---- Rounding of numbers that are not NaN ----

static __device__ __forceinline__ u16 f16_bits(float x) {
    return __half_as_ushort(__float2half_rn(x));
}

static __device__ __forceinline__ u16 bf16_bits(float x) {
    u32 b = __float_as_uint(x);
    return (u16)((b + 0x7fffu + ((b >> 16) & 1u)) >> 16);
}

// An inexact x goes to the neighbouring float whose last bit is 1, so that
// rounding that to 16 bits gives what rounding x itself would.
static __device__ __forceinline__ float round_to_odd(double x) {
    float toward_zero = __double2float_rz(x);
    if ((double)toward_zero != x) {
        return __uint_as_float(__float_as_uint(toward_zero) | 1u);
    }
    return toward_zero;
}

// ---- Normalize: uint8 or uint16 NHWC to NCHW ----

// An output type: bytes of an element, its bits for a number, and those for
// sample x of a channel.
struct to_f32 {
    enum { size = 4 };
    typedef u32 word;
    static __device__ __forceinline__ u32 rounded(float x) { return __float_as_uint(x); }
    static __device__ __forceinline__ u32 bits(u32 x, float scale, float bias) {
        return rounded(__fadd_rn(__fmul_rn(__uint2float_rn(x), scale), bias));
    }
};

struct to_f16 {
    enum { size = 2 };
    typedef u16 word;
    static __device__ __forceinline__ u32 rounded(float x) { return f16_bits(x); }
    static __device__ __forceinline__ u32 bits(u32 x, float scale, float bias) {
        return rounded(__fadd_rn(__fmul_rn(__uint2float_rn(x), scale), bias));
    }
};

struct to_bf16 {
    enum { size = 2 };
    typedef u16 word;
    static __device__ __forceinline__ u32 rounded(float x) { return bf16_bits(x); }
    static __device__ __forceinline__ u32 bits(u32 x, float scale, float bias) {
        return rounded(__fadd_rn(__fmul_rn(__uint2float_rn(x), scale), bias));
    }
};

struct to_u8 {
    enum { size = 1 };
    typedef u8 word;
    static __device__ __forceinline__ u32 rounded(float x) { return x > 0 ? x < 255 ? __float2uint_rn(x) : 255 : 0; }
    static __device__ __forceinline__ u32 bits(u32 x, float, float) { return x; }
};

// For samples of 16 bits.
struct to_u16 {
    enum { size = 2 };
    typedef u16 word;
    static __device__ __forceinline__ u32 rounded(float x) { return x > 0 ? x < 65535 ? __float2uint_rn(x) : 65535 : 0; }
    static __device__ __forceinline__ u32 bits(u32 x, float, float) { return x; }
};

// Any number of channels up to 4, any alignment: a thread has one pixel.
template <class To, class From>
static __device__ __forceinline__ void normalize(void *dst, const From *src, i64 images, i64 pixels, i32 channels,
                                                 float s0, float s1, float s2, float s3,
                                                 float b0, float b1, float b2, float b3) {
    typedef typename To::word word;
    const float scale[4] = {s0, s1, s2, s3};
    const float bias[4] = {b0, b1, b2, b3};
    for (i64 n = blockIdx.y; n < images; n += gridDim.y) {
        for (i64 p = first(); p < pixels; p += stride()) {
            const From *in = src + (n * pixels + p) * channels;
            word *out = (word *)dst + n * channels * pixels + p;
#pragma unroll
            for (int c = 0; c < 4; c++) {
                if (c < channels) {
                    out[c * pixels] = (word)To::bits(in[c], scale[c], bias[c]);
                }
            }
        }
    }
}

// Loads the 3*P bytes of P pixels, aligned to P bytes.
template <int P>
static __device__ __forceinline__ void load_pixels(u32 (&in)[3 * P / 4], const u8 *src) {
    if constexpr (P == 4) {
        const u32 *v = (const u32 *)src;
#pragma unroll
        for (int i = 0; i < 3; i++) {
            in[i] = v[i];
        }
    } else if constexpr (P == 8) {
        const uint2 *v = (const uint2 *)src;
#pragma unroll
        for (int i = 0; i < 3; i++) {
            uint2 w = v[i];
            in[2 * i] = w.x;
            in[2 * i + 1] = w.y;
        }
    } else {
        const uint4 *v = (const uint4 *)src;
#pragma unroll
        for (int i = 0; i < 3; i++) {
            uint4 w = v[i];
            in[4 * i] = w.x;
            in[4 * i + 1] = w.y;
            in[4 * i + 2] = w.z;
            in[4 * i + 3] = w.w;
        }
    }
}

// 3 channels of bytes, P pixels a thread so that each channel is one store of
// 16 bytes. The host has checked that pixels is a multiple of P, dst aligned to
// 16 bytes and src to P.
template <class To>
static __device__ __forceinline__ void normalize3(void *dst, const u8 *src, i64 images, i64 pixels,
                                                  float s0, float s1, float s2, float b0, float b1, float b2) {
    const int P = 16 / To::size;
    const float scale[3] = {s0, s1, s2};
    const float bias[3] = {b0, b1, b2};
    const i64 groups = pixels / P;
    for (i64 n = blockIdx.y; n < images; n += gridDim.y) {
        for (i64 g = first(); g < groups; g += stride()) {
            u32 in[3 * P / 4];
            load_pixels<P>(in, src + (n * groups + g) * (3 * P));
#pragma unroll
            for (int c = 0; c < 3; c++) {
                u32 out[4] = {0, 0, 0, 0};
#pragma unroll
                for (int p = 0; p < P; p++) {
                    const int at = 3 * p + c; // byte of the input
                    const int to = p * To::size; // byte of the output
                    u32 x = (in[at / 4] >> (8 * (at % 4))) & 0xffu;
                    out[to / 4] |= To::bits(x, scale[c], bias[c]) << (8 * (to % 4));
                }
                ((uint4 *)dst)[(n * 3 + c) * groups + g] = make_uint4(out[0], out[1], out[2], out[3]);
            }
        }
    }
}

#define NORMALIZE(name, To, From)                                                                        \
    extern "C" __global__ void name(void *dst, const From *src, i64 images, i64 pixels, i32 channels,    \
                                    float s0, float s1, float s2, float s3,                              \
                                    float b0, float b1, float b2, float b3) {                            \
        normalize<To>(dst, src, images, pixels, channels, s0, s1, s2, s3, b0, b1, b2, b3);               \
    }

#define NORMALIZE3(name, To)                                                                             \
    extern "C" __global__ void name(void *dst, const u8 *src, i64 images, i64 pixels,                    \
                                    float s0, float s1, float s2, float b0, float b1, float b2) {        \
        normalize3<To>(dst, src, images, pixels, s0, s1, s2, b0, b1, b2);                                \
    }

NORMALIZE(normalize_u8, to_u8, u8)
NORMALIZE(normalize_f16, to_f16, u8)
NORMALIZE(normalize_bf16, to_bf16, u8)
NORMALIZE(normalize_f32, to_f32, u8)
NORMALIZE(normalize_u16_from_u16, to_u16, u16)
NORMALIZE(normalize_f16_from_u16, to_f16, u16)
NORMALIZE(normalize_bf16_from_u16, to_bf16, u16)
NORMALIZE(normalize_f32_from_u16, to_f32, u16)
NORMALIZE3(normalize3_u8, to_u8)
NORMALIZE3(normalize3_f16, to_f16)
NORMALIZE3(normalize3_bf16, to_bf16)
NORMALIZE3(normalize3_f32, to_f32)

// ---- Cast: every source type is exact as a double ----

// The numbers of the types, as cast.go gives them.
enum { FROM_U8, FROM_I8, FROM_U16, FROM_I16, FROM_I32, FROM_F16, FROM_BF16, FROM_F32, FROM_F64 };

static __device__ __forceinline__ double load_exact(const void *src, i32 type, i64 i) {
    switch (type) {
    case FROM_U8:
        return ((const u8 *)src)[i];
    case FROM_I8:
        return ((const i8 *)src)[i];
    case FROM_U16:
        return ((const u16 *)src)[i];
    case FROM_I16:
        return ((const i16 *)src)[i];
    case FROM_I32:
        return ((const i32 *)src)[i];
    case FROM_F16:
        return __half2float(__ushort_as_half(((const u16 *)src)[i]));
    case FROM_BF16:
        return __uint_as_float((u32)((const u16 *)src)[i] << 16);
    case FROM_F32:
        return ((const float *)src)[i];
    default: // FROM_F64
        return ((const double *)src)[i];
    }
}

// To nearest, ties to even, within [low, high].
static __device__ __forceinline__ i32 saturate(double x, i32 low, i32 high) {
    double r = rint(x);
    return r <= low ? low : r >= high ? high : (i32)r;
}

#define CAST(name, type, nan, value)                                                         \
    extern "C" __global__ void name(type *dst, const void *src, i64 n, i32 from) {           \
        for (i64 i = first(); i < n; i += stride()) {                                        \
            double x = load_exact(src, from, i);                                             \
            dst[i] = x != x ? (type)nan : (type)(value);                                     \
        }                                                                                    \
    }

CAST(cast_u8, u8, 0, saturate(x, 0, 255))
CAST(cast_i8, i8, 0, saturate(x, -128, 127))
CAST(cast_u16, u16, 0, saturate(x, 0, 65535))
CAST(cast_i16, i16, 0, saturate(x, -32768, 32767))
CAST(cast_i32, i32, 0, saturate(x, -2147483647 - 1, 2147483647))
CAST(cast_f16, u16, 0x7e00, f16_bits(round_to_odd(x)))
CAST(cast_bf16, u16, 0x7fc0, bf16_bits(round_to_odd(x)))
CAST(cast_f32, u32, 0x7fc00000, __float_as_uint(__double2float_rn(x)))
CAST(cast_f64, u64, 0x7ff8000000000000, __double_as_longlong(x))

// ---- Fill: a pattern of 8 bytes, in phase with addresses ----

static __device__ __forceinline__ u8 pattern_byte(u64 pattern, u64 address) {
    return (u8)(pattern >> (8 * (address % 8)));
}

// Every address that is a multiple of 8 gets the pattern's first byte. The
// first threads write what lies outside the 16-byte words; a block has 16 at
// least.
extern "C" __global__ void fill(u8 *dst, i64 bytes, u64 pattern) {
    i64 head = (i64)((16 - (u64)dst % 16) % 16);
    if (head > bytes) {
        head = bytes;
    }
    const i64 words = (bytes - head) / 16;
    const i64 tail = head + words * 16;
    const u32 low = (u32)pattern, high = (u32)(pattern >> 32);
    uint4 *body = (uint4 *)(dst + head);
    for (i64 i = first(); i < words; i += stride()) {
        body[i] = make_uint4(low, high, low, high);
    }
    const i64 i = first();
    if (i < head) {
        dst[i] = pattern_byte(pattern, (u64)dst + i);
    }
    if (i < bytes - tail) {
        dst[tail + i] = pattern_byte(pattern, (u64)dst + tail + i);
    }
}

// ---- Gather and Scatter: blocks by index ----

static __device__ __forceinline__ void assign(u8 &to, const u8 &from) { to = from; }
static __device__ __forceinline__ void assign(u32 &to, const u32 &from) { to = from; }

// Member by member: a copy of the whole structure may go through local memory.
static __device__ __forceinline__ void assign(uint4 &to, const uint4 &from) {
    to.x = from.x;
    to.y = from.y;
    to.z = from.z;
    to.w = from.w;
}

// A thread moves 4 units, a thread block apart. Its loads are all issued
// before its first store waits for one: over PCIe, bytes in flight are speed.
// So they are unconditional too, from the first unit of src where there is
// nothing to move; the host has checked that n and blocks are not 0.
template <class T, bool scatter>
static __device__ __forceinline__ void move_blocks(T *dst, const T *src, const i64 *index, i64 n, i64 blocks, i64 units) {
    const int K = 4;
    const i64 total = n * units; // units is of one block
    const i64 tile = (i64)blockDim.x * K;
    for (i64 start = blockIdx.x * tile; start < total; start += gridDim.x * tile) {
        i64 packed[K], row[K], chosen[K];
        bool ok[K];
        T v[K];
#pragma unroll
        for (int k = 0; k < K; k++) {
            packed[k] = start + (i64)k * blockDim.x + threadIdx.x;
            ok[k] = packed[k] < total;
            packed[k] = ok[k] ? packed[k] : 0;
            row[k] = packed[k] / units;
            chosen[k] = index[row[k]];
        }
#pragma unroll
        for (int k = 0; k < K; k++) {
            ok[k] = ok[k] && (u64)chosen[k] < (u64)blocks;
            chosen[k] = ok[k] ? (chosen[k] - row[k]) * units + packed[k] : 0;
            assign(v[k], src[scatter ? packed[k] : chosen[k]]);
        }
#pragma unroll
        for (int k = 0; k < K; k++) {
            if (ok[k]) {
                assign(dst[scatter ? chosen[k] : packed[k]], v[k]);
            }
        }
    }
}

#define MOVE(name, T, scatter)                                                                           \
    extern "C" __global__ void name(T *dst, const T *src, const i64 *index, i64 n, i64 blocks, i64 units) { \
        move_blocks<T, scatter>(dst, src, index, n, blocks, units);                                      \
    }

MOVE(gather_16, uint4, false)
MOVE(gather_4, u32, false)
MOVE(gather_1, u8, false)
MOVE(scatter_16, uint4, true)
MOVE(scatter_4, u32, true)
MOVE(scatter_1, u8, true)

#include "spans.cuh"
#include "pairs.cuh"
#include "arithmetic.cuh"
#include "augment.cuh"
#include "resample.cuh"

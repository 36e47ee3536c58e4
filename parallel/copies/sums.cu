// The sum of what ranks have sent, with what this one has: sums.go says when. Compiled to
// sums.ptx by kernels/ptx.sh, for compute capability 7.5.

typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

struct f64 {
    typedef double word;
    typedef double wide;
    static __device__ __forceinline__ double load(double v) { return v; }
    static __device__ __forceinline__ double store(double v) { return v; }
};

struct f32 {
    typedef float word;
    typedef float wide;
    static __device__ __forceinline__ float load(float v) { return v; }
    static __device__ __forceinline__ float store(float v) { return v; }
};

struct f16 {
    typedef u16 word;
    typedef float wide;
    static __device__ __forceinline__ float load(u16 v) {
        float f;
        asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(v));
        return f;
    }
    static __device__ __forceinline__ u16 store(float v) {
        u16 h;
        asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(v));
        return h;
    }
};

struct bf16 {
    typedef u16 word;
    typedef float wide;
    static __device__ __forceinline__ float load(u16 v) { return __uint_as_float((u32)v << 16); }
    static __device__ __forceinline__ u16 store(float v) {
        const u32 bits = __float_as_uint(v);
        return v != v ? 0x7fc0 : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
    }
};

// sum adds up the words of all ranks in their order, so that it makes no difference which rank
// does it. Those of this rank are at own, those of others in the slots of their numbers. The
// result is written to out, and to copy, where there is one. A pack is 16 bytes, or a word where
// memory is not aligned to more.
template <typename T, typename Pack>
static __device__ __forceinline__ void sum(void *out, void *copy, const void *own, const char *slots, i64 slot_bytes, i64 words, int ranks,
                                           int rank, typename T::wide scale) {
    typedef typename T::word word;
    typedef typename T::wide wide;
    const int EACH = sizeof(Pack) / sizeof(word);
    const i64 packs = words / EACH, first = (i64)blockIdx.x * blockDim.x + threadIdx.x, stride = (i64)gridDim.x * blockDim.x;
    for (i64 i = first; i < packs; i += stride) {
        wide total[EACH];
#pragma unroll
        for (int j = 0; j < EACH; j++) total[j] = 0;
        for (int r = 0; r < ranks; r++) {
            union {
                Pack pack;
                word w[EACH];
            } in;
            in.pack = ((const Pack *)(r == rank ? (const char *)own : slots + r * slot_bytes))[i];
#pragma unroll
            for (int j = 0; j < EACH; j++) total[j] = r == 0 ? T::load(in.w[j]) : total[j] + T::load(in.w[j]);
        }
        union {
            Pack pack;
            word w[EACH];
        } result;
#pragma unroll
        for (int j = 0; j < EACH; j++) result.w[j] = T::store(total[j] * scale);
        ((Pack *)out)[i] = result.pack;
        if (copy) ((Pack *)copy)[i] = result.pack;
    }
    if (EACH > 1) { // the words behind the last pack
        const i64 at = packs * EACH * sizeof(word);
        sum<T, word>((char *)out + at, copy ? (char *)copy + at : nullptr, (const char *)own + at, slots + at, slot_bytes, words - packs * EACH, ranks,
                     rank, scale);
    }
}

template <typename T>
static __device__ __forceinline__ void sum_any(void *out, void *copy, const void *own, const char *slots, i64 slot_bytes, i64 words, int ranks,
                                               int rank, double scale) {
    if (((u64)out | (u64)copy | (u64)own | (u64)slots | (u64)slot_bytes) % 16)
        sum<T, typename T::word>(out, copy, own, slots, slot_bytes, words, ranks, rank, (typename T::wide)scale);
    else
        sum<T, uint4>(out, copy, own, slots, slot_bytes, words, ranks, rank, (typename T::wide)scale);
}

#define SUM(T)                                                                                                                       \
    extern "C" __global__ void sum_##T(void *out, void *copy, const void *own, const char *slots, i64 slot_bytes, i64 words, int ranks, int rank, \
                                       double scale) {                                                                               \
        sum_any<T>(out, copy, own, slots, slot_bytes, words, ranks, rank, scale);                                                    \
    }

SUM(f16)
SUM(bf16)
SUM(f32)
SUM(f64)

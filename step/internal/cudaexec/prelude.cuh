// What generated kernels are written with. It includes nothing: NVRTC has no headers
// where a program runs.
//
// Elements of 16-bit floating-point types are computed in f32 and rounded after every
// operation, and every NaN that is stored in them is the same one, as package float16
// has it.

typedef unsigned char u8;
typedef signed char i8;
typedef unsigned short u16;
typedef short i16;
typedef unsigned int u32;
typedef int i32;
typedef unsigned long long u64;
typedef long long i64;
typedef float f32;
typedef double f64;

struct f16 { u16 bits; };
struct bf16 { u16 bits; };
struct b8 { u8 bits; };

template <int N> struct pointers { void *p[N]; };
template <class T, int N> struct alignas(sizeof(T) * N) vec { T a[N]; };

#define FN static __device__ __forceinline__

// ---- 16-bit floating-point numbers ----

FN f32 f32_of(bf16 x) { return __uint_as_float((u32)x.bits << 16); }

FN bf16 bf16_of(f32 x) {
    u32 b = __float_as_uint(x);
    bf16 r;
    r.bits = x != x ? (u16)0x7fc0 : (u16)((b + 0x7fffu + ((b >> 16) & 1u)) >> 16);
    return r;
}

#ifdef __CUDACC__
FN f32 f32_of(f16 x) {
    f32 r;
    asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"(x.bits));
    return r;
}

FN f16 f16_of(f32 x) {
    f16 r;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r.bits) : "f"(x));
    if (x != x) r.bits = 0x7e00;
    return r;
}
#endif

// An inexact x goes to the neighbour whose last bit is 1, so that rounding that to 16
// bits gives what rounding x itself would.
FN f32 round_to_odd(f64 x) {
    f32 r = __double2float_rz(x);
    return (f64)r != x && x == x ? __uint_as_float(__float_as_uint(r) | 1u) : r;
}

FN f32 round_bf16(f32 x) { return f32_of(bf16_of(x)); }
FN f32 round_f16(f32 x) { return f32_of(f16_of(x)); }

// ---- Loads and stores: an element in memory, and the value that is computed with ----

FN f32 ld(f32 x) { return x; }
FN f64 ld(f64 x) { return x; }
FN f32 ld(f16 x) { return f32_of(x); }
FN f32 ld(bf16 x) { return f32_of(x); }
FN bool ld(b8 x) { return x.bits != 0; }
FN u8 ld(u8 x) { return x; }
FN i8 ld(i8 x) { return x; }
FN u16 ld(u16 x) { return x; }
FN i16 ld(i16 x) { return x; }
FN u32 ld(u32 x) { return x; }
FN i32 ld(i32 x) { return x; }
FN u64 ld(u64 x) { return x; }
FN i64 ld(i64 x) { return x; }

template <class T> FN void st(T &to, T x) { to = x; }
FN void st(f16 &to, f32 x) { to = f16_of(x); }
FN void st(bf16 &to, f32 x) { to = bf16_of(x); }
FN void st(b8 &to, bool x) { to.bits = x; }

// ---- Conversions: cut off towards zero, the nearest in range, 0 for NaN ----

template <class T> FN T least() { return (T)-1 < (T)0 ? (T)((u64)1 << (8 * sizeof(T) - 1)) : (T)0; }
template <class T> FN T most() { return (T)~least<T>(); }

template <class T, class F> FN T int_of(F x) {
    // 2^n and -2^(n-1) are numbers of every floating-point type.
    F below = (F)least<T>(), above = (F)((u64)1 << (8 * sizeof(T) - 2)) * ((T)-1 < (T)0 ? 2 : 4);
    return x != x ? (T)0 : x < below ? least<T>() : x >= above ? most<T>() : (T)x;
}

// ---- Integers: they wrap around ----

template <class T> FN T int_div(T x, T y) {
    if (y == 0) return (T)-1;
    if ((T)-1 < (T)0 && y == (T)-1) return (T)(0 - (u64)x);
    return (T)(x / y);
}

template <class T> FN T int_rem(T x, T y) {
    if (y == 0) return x;
    if ((T)-1 < (T)0 && y == (T)-1) return 0;
    return (T)(x % y);
}

template <class T> FN T int_pow(T x, T y) {
    if (y < 0) return x == 1 ? (T)1 : x == (T)-1 ? ((y & 1) ? (T)-1 : (T)1) : x == 0 ? (T)-1 : (T)0;
    u64 r = 1, b = (u64)x;
    for (u64 n = (u64)y; n; n >>= 1) {
        if (n & 1) r *= b;
        b *= b;
    }
    return (T)r;
}

template <class T> FN T int_sign(T x) { return (T)((x > 0) - (x < 0)); }
template <class T> FN T int_abs(T x) { return x < 0 ? (T)(0 - (u64)x) : x; }
template <class T> FN u64 unsigned_bits(T x) { return (u64)x & (~(u64)0 >> (64 - 8 * sizeof(T))); }
template <class T> FN i64 signed_bits(T x) { return (i64)((u64)x << (64 - 8 * sizeof(T))) >> (64 - 8 * sizeof(T)); }
template <class T> FN T shift_left(T x, T y) { return unsigned_bits(y) >= 8 * sizeof(T) ? (T)0 : (T)((u64)x << unsigned_bits(y)); }
template <class T> FN T shift_logical(T x, T y) { return unsigned_bits(y) >= 8 * sizeof(T) ? (T)0 : (T)(unsigned_bits(x) >> unsigned_bits(y)); }
template <class T> FN T shift_arithmetic(T x, T y) {
    u64 n = unsigned_bits(y);
    return (T)(signed_bits(x) >> (n >= 8 * sizeof(T) ? 8 * sizeof(T) - 1 : n));
}
template <class T> FN T bit_count(T x) { return (T)__popcll(unsigned_bits(x)); }
template <class T> FN T leading_zeros(T x) { return (T)(__clzll((i64)unsigned_bits(x)) - (int)(64 - 8 * sizeof(T))); }

// ---- Floating-point numbers ----

template <class F> FN F float_sign(F x) { return x != x || x == 0 ? x : x > 0 ? (F)1 : (F)-1; }

FN u32 bits_of(f32 x) { return __float_as_uint(x); }
FN u64 bits_of(f64 x) { return (u64)__double_as_longlong(x); }
FN f32 of_bits(u32 x) { return __uint_as_float(x); }
FN f64 of_bits(u64 x) { return __longlong_as_double((i64)x); }

template <class T> FN T larger(T x, T y) { return x > y ? x : y; }
template <class T> FN T smaller(T x, T y) { return x < y ? x : y; }
template <class F> FN F float_larger(F x, F y) {
    if (x != x || y != y) return x + y;
    return x == y ? of_bits(bits_of(x) & bits_of(y)) : x > y ? x : y;
}
template <class F> FN F float_smaller(F x, F y) {
    if (x != x || y != y) return x + y;
    return x == y ? of_bits(bits_of(x) | bits_of(y)) : x < y ? x : y;
}
FN f32 larger(f32 x, f32 y) { return float_larger(x, y); }
FN f64 larger(f64 x, f64 y) { return float_larger(x, y); }
FN f32 smaller(f32 x, f32 y) { return float_smaller(x, y); }
FN f64 smaller(f64 x, f64 y) { return float_smaller(x, y); }

// Integers in the total order of what they are made of.
template <class T> FN T order(T x) { return x; }
FN i32 order(f32 x) {
    i32 b = (i32)bits_of(x);
    return b ^ ((b >> 31) & 0x7fffffff);
}
FN i64 order(f64 x) {
    i64 b = (i64)bits_of(x);
    return b ^ (i64)((u64)(b >> 63) >> 1);
}

// ---- Philox4x32-10 ----

struct block { u32 w[4]; };

FN block philox(u64 key, u64 low, u64 high) {
    u32 k0 = (u32)key, k1 = (u32)(key >> 32);
    block c;
    c.w[0] = (u32)low, c.w[1] = (u32)(low >> 32), c.w[2] = (u32)high, c.w[3] = (u32)(high >> 32);
    for (int i = 0; i < 10; i++) {
        u64 a = (u64)0xD2511F53u * c.w[0], b = (u64)0xCD9E8D57u * c.w[2];
        block d;
        d.w[0] = (u32)(b >> 32) ^ c.w[1] ^ k0;
        d.w[1] = (u32)b;
        d.w[2] = (u32)(a >> 32) ^ c.w[3] ^ k1;
        d.w[3] = (u32)a;
        c = d;
        k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
    }
    return c;
}

// Element i, of so many bytes, behind a counter.
FN u64 random_bits(u64 key, u64 low, u64 high, u64 i, int size) {
    u64 at = i * size, first = low + at / 16;
    block b = philox(key, first, high + (first < low));
    int byte = (int)(at % 16);
    u64 w = b.w[byte / 4];
    if (size == 8) return w | (u64)b.w[byte / 4 + 1] << 32;
    w >>= 8 * (byte % 4);
    return size == 4 ? w : w & (((u64)1 << 8 * size) - 1);
}

// ---- Reductions ----

struct sum {
    template <class T> static __device__ __forceinline__ T of(T x, T y) { return (T)(x + y); }
};
struct product {
    template <class T> static __device__ __forceinline__ T of(T x, T y) { return (T)(x * y); }
};
struct maximum {
    template <class T> static __device__ __forceinline__ T of(T x, T y) { return larger(x, y); }
};
struct minimum {
    template <class T> static __device__ __forceinline__ T of(T x, T y) { return smaller(x, y); }
};
struct conjunction {
    template <class T> static __device__ __forceinline__ T of(T x, T y) { return (T)(x & y); }
};
struct disjunction {
    template <class T> static __device__ __forceinline__ T of(T x, T y) { return (T)(x | y); }
};
struct exclusion {
    template <class T> static __device__ __forceinline__ T of(T x, T y) { return (T)(x ^ y); }
};

// A candidate, and where it is: -1 where there is none.
template <class T> struct found {
    T x;
    i64 at;
};
struct first_largest {
    template <class T> static __device__ __forceinline__ found<T> of(found<T> a, found<T> b) {
        if (a.at < 0 || b.at < 0) return a.at < 0 ? b : a;
        bool an = a.x != a.x, bn = b.x != b.x;
        if (an != bn) return an ? a : b;
        if (!an && a.x != b.x) return a.x > b.x ? a : b;
        return a.at < b.at ? a : b;
    }
};
struct first_smallest {
    template <class T> static __device__ __forceinline__ found<T> of(found<T> a, found<T> b) {
        if (a.at < 0 || b.at < 0) return a.at < 0 ? b : a;
        bool an = a.x != a.x, bn = b.x != b.x;
        if (an != bn) return an ? a : b;
        if (!an && a.x != b.x) return a.x < b.x ? a : b;
        return a.at < b.at ? a : b;
    }
};

template <class T> FN T swapped(T x, int lanes) { return (T)__shfl_xor_sync(0xffffffffu, x, lanes); }

// One value of all threads of a row: of one thread, a warp, or a block of 256. The order
// does not depend on anything else.
template <class O, int LANES, class T> FN T over_row(T x) {
    if (LANES == 1) return x;
    for (int m = 16; m > 0; m /= 2) x = O::of(x, swapped(x, m));
    if (LANES == 32) return x;
    __shared__ T each[8];
    if (threadIdx.x % 32 == 0) each[threadIdx.x / 32] = x;
    __syncthreads();
    x = each[0];
    for (int i = 1; i < 8; i++) x = O::of(x, each[i]);
    __syncthreads();
    return x;
}

// One value of the threads of a block of 256 that have the same threadIdx.x % COLUMNS, in
// the first COLUMNS of them.
template <class O, int COLUMNS, class T> FN T over_block(T x) {
    __shared__ T each[256];
    each[threadIdx.x] = x;
    __syncthreads();
    for (int n = 128; n >= COLUMNS; n /= 2) {
        if ((int)threadIdx.x < n) each[threadIdx.x] = O::of(each[threadIdx.x], each[threadIdx.x + n]);
        __syncthreads();
    }
    x = each[threadIdx.x];
    __syncthreads();
    return x;
}

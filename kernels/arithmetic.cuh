// Combine and Reduce: arithmetic on arrays of floats. combine.go and reduce.go
// say what each operation is.

// How elements lie in memory; a NaN that is stored is the documented one.
struct plain_f32 {
    typedef float word;
    static __device__ __forceinline__ float load(const word *p) { return *p; }
    static __device__ __forceinline__ void store(word *p, float v) { *p = v == v ? v : __uint_as_float(0x7fc00000u); }
};

struct plain_bf16 {
    typedef u16 word;
    static __device__ __forceinline__ float load(const word *p) { return __uint_as_float((u32)*p << 16); }
    static __device__ __forceinline__ void store(word *p, float v) { *p = v == v ? bf16_bits(v) : 0x7fc0; }
};

// The numbers of the operations are those of CombineOp and ReduceOp.
template <class Type>
static __device__ __forceinline__ void combine(void *dst, const void *xs, const void *ys, i64 n, i32 op, float a, float b) {
    typedef typename Type::word word;
    for (i64 i = first(); i < n; i += stride()) {
        float x = Type::load((const word *)xs + i);
        float y = ys ? Type::load((const word *)ys + i) : 0.0f;
        float v;
        switch (op) {
        case 1: v = __fadd_rn(__fmul_rn(a, x), ys ? __fmul_rn(b, y) : b); break;
        case 2: v = __fmul_rn(a, __fmul_rn(x, y)); break;
        case 3: v = __fmul_rn(a, __fdiv_rn(x, y)); break;
        case 4: v = x != x || y != y ? __uint_as_float(0x7fc00000u) : y < x ? y : x; break;
        case 5: v = x != x || y != y ? __uint_as_float(0x7fc00000u) : y > x ? y : x; break;
        case 6: v = fabsf(x); break;
        default: v = __fsqrt_rn(x); break;
        }
        Type::store((word *)dst + i, v);
    }
}

template <class Type>
static __device__ __forceinline__ void reduce(double *lanes, i64 count, const void *xs, const void *ys, i64 n, i32 op) {
    typedef typename Type::word word;
    const word *x = (const word *)xs, *y = (const word *)ys;
    for (i64 lane = first(); lane < count; lane += stride()) {
        double sum = lanes[lane];
        for (i64 i = lane; i < n; i += count) {
            double v = Type::load(x + i);
            switch (op) {
            case 1: sum = __dadd_rn(sum, v); break;
            case 2: sum = __dadd_rn(sum, __dmul_rn(v, v)); break;
            case 3: sum = __dadd_rn(sum, __dmul_rn(v, (double)Type::load(y + i))); break;
            case 4: sum = sum != sum || v != v ? __longlong_as_double(0x7ff8000000000000) : v < sum ? v : sum; break;
            default: sum = sum != sum || v != v ? __longlong_as_double(0x7ff8000000000000) : v > sum ? v : sum; break;
            }
        }
        lanes[lane] = sum == sum ? sum : __longlong_as_double(0x7ff8000000000000);
    }
}

extern "C" __global__ void combine_f32(void *dst, const void *x, const void *y, i64 n, i32 op, float a, float b) {
    combine<plain_f32>(dst, x, y, n, op, a, b);
}
extern "C" __global__ void combine_bf16(void *dst, const void *x, const void *y, i64 n, i32 op, float a, float b) {
    combine<plain_bf16>(dst, x, y, n, op, a, b);
}
extern "C" __global__ void reduce_f32(double *lanes, i64 count, const void *x, const void *y, i64 n, i32 op) {
    reduce<plain_f32>(lanes, count, x, y, n, op);
}
extern "C" __global__ void reduce_bf16(double *lanes, i64 count, const void *x, const void *y, i64 n, i32 op) {
    reduce<plain_bf16>(lanes, count, x, y, n, op);
}

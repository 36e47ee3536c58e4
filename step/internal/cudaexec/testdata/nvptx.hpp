// What device code needs of CUDA, for Clang without CUDA's headers: enough to see that a
// text compiles.
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
#define __shared__ __attribute__((shared))
#define __forceinline__ __inline__ __attribute__((always_inline))
#define __launch_bounds__(n) __attribute__((launch_bounds(n)))

#define REGISTER(name, part) \
    struct name##_ { \
        __device__ __forceinline__ operator unsigned() const { return __nvvm_read_ptx_sreg_##name(); } \
    } part
struct thread_ { REGISTER(tid_x, x); };
struct block_ { REGISTER(ctaid_x, x); REGISTER(ctaid_y, y); };
struct grid_ { REGISTER(nctaid_x, x); REGISTER(nctaid_y, y); };
extern __device__ const thread_ threadIdx;
extern __device__ const block_ blockIdx;
extern __device__ const grid_ gridDim;

#define FUNCTION static __device__ __forceinline__
FUNCTION int __syncthreads_or(int x) { return __nvvm_bar0_or(x); }
FUNCTION unsigned __float_as_uint(float x) { return __builtin_bit_cast(unsigned, x); }
FUNCTION float __uint_as_float(unsigned x) { return __builtin_bit_cast(float, x); }
FUNCTION long long __double_as_longlong(double x) { return __builtin_bit_cast(long long, x); }
FUNCTION double __longlong_as_double(long long x) { return __builtin_bit_cast(double, x); }
FUNCTION float __double2float_rz(double x) { return __nvvm_d2f_rz(x); }
FUNCTION int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
FUNCTION int __clzll(long long x) { return __builtin_clzll(x); }
FUNCTION float __shfl_xor_sync(unsigned m, float x, int l) { return __nvvm_shfl_sync_bfly_f32(m, x, l, 31); }
FUNCTION double __shfl_xor_sync(unsigned m, double x, int l) {
    return __longlong_as_double((unsigned)__nvvm_shfl_sync_bfly_i32(m, (int)__double_as_longlong(x), l, 31) |
                                (long long)__nvvm_shfl_sync_bfly_i32(m, (int)(__double_as_longlong(x) >> 32), l, 31) << 32);
}
extern "C" {
__device__ float expf(float);
__device__ float logf(float);
__device__ double exp(double);
__device__ double log(double);
}
FUNCTION float fmaf(float x, float y, float z) { return __nvvm_fma_rn_f(x, y, z); }
FUNCTION float fmaxf(float x, float y) { return __nvvm_fmax_f(x, y); }

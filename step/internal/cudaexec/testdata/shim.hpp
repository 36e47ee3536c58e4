// What device code needs of CUDA, on the host: kernels run one block after the other, and
// the threads of a block as coroutines that take turns at barriers.
#include <math.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#define __global__
#define __device__
#define __forceinline__ inline
#define __shared__ static
#define __launch_bounds__(n)

struct uint3 { unsigned x, y, z; };
static uint3 threadIdx, blockIdx, blockDim, gridDim;

// ---- Threads ----

enum { most_threads = 256, stack_bytes = 64 << 10 };
static ucontext_t context;
static jmp_buf scheduler, threads[most_threads];
static char *stacks;
static bool started[most_threads], done[most_threads];
static unsigned current;
static long long slots[most_threads];
static void (*body)(const void *);
static const void *arguments;

static void yield_() {
    if (!_setjmp(threads[current])) _longjmp(scheduler, 1);
}

static void run_() {
    body(arguments);
    done[current] = true;
    _longjmp(scheduler, 1);
}

// A thread runs until its next barrier.
static void turn_(unsigned i) {
    current = i;
    threadIdx.x = i;
    if (_setjmp(scheduler)) return;
    if (started[i]) _longjmp(threads[i], 1);
    started[i] = true;
    getcontext(&context);
    context.uc_stack.ss_sp = stacks + (size_t)i * stack_bytes;
    context.uc_stack.ss_size = stack_bytes;
    context.uc_link = 0;
    makecontext(&context, run_, 0);
    setcontext(&context);
}

// Every thread of a block comes to each barrier, so a turn of all is one.
static inline void __syncthreads() { yield_(); }

static inline int __syncthreads_or(int x) {
    slots[current] = x;
    yield_();
    int any = 0;
    for (unsigned i = 0; i < blockDim.x; i++) any |= slots[i] != 0;
    yield_();
    return any;
}

template <class T> static inline T __shfl_xor_sync(unsigned, T x, int lanes) {
    memcpy(&slots[current], &x, sizeof x);
    yield_();
    T r;
    memcpy(&r, &slots[current ^ lanes], sizeof r);
    yield_();
    return r;
}

static void launch_(void (*f)(const void *), bool barriers, const void *p, unsigned x, unsigned y, unsigned z, unsigned n) {
    if (!stacks) stacks = (char *)malloc((size_t)most_threads * stack_bytes);
    body = f;
    arguments = p;
    gridDim = {x, y, z};
    blockDim = {n, 1, 1};
    for (blockIdx.z = 0; blockIdx.z < z; blockIdx.z++)
        for (blockIdx.y = 0; blockIdx.y < y; blockIdx.y++)
            for (blockIdx.x = 0; blockIdx.x < x; blockIdx.x++) {
                if (!barriers) {
                    for (threadIdx.x = 0; threadIdx.x < n; threadIdx.x++) f(p);
                    continue;
                }
                memset(started, 0, sizeof started);
                memset(done, 0, sizeof done);
                for (bool any = true; any;) {
                    any = false;
                    for (unsigned i = 0; i < n; i++) {
                        if (!done[i]) turn_(i);
                        any = any || !done[i];
                    }
                }
            }
}

#define LAUNCHER(name, type, barriers) \
    static void name##_body(const void *p) { name(*(const type *)p); } \
    extern "C" void name##_launch(const void *p, unsigned x, unsigned y, unsigned z, unsigned n) { launch_(name##_body, barriers, p, x, y, z, n); }

// ---- Functions ----

template <class To, class From> static inline To same_bits(From x) {
    To r;
    memcpy(&r, &x, sizeof r);
    return r;
}
static inline unsigned __float_as_uint(float x) { return same_bits<unsigned>(x); }
static inline float __uint_as_float(unsigned x) { return same_bits<float>(x); }
static inline long long __double_as_longlong(double x) { return same_bits<long long>(x); }
static inline double __longlong_as_double(long long x) { return same_bits<double>(x); }
static inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
static inline int __clzll(long long x) { return x == 0 ? 64 : __builtin_clzll(x); }

static inline float __double2float_rz(double x) {
    float r = (float)x;
    if (fabs((double)r) > fabs(x)) r = nextafterf(r, 0.0f);
    return r;
}

struct f16;
static float f32_of(f16 x);
static f16 f16_of(float x);

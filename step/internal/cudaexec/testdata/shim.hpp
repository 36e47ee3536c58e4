// What device code needs of CUDA, on the host: kernels run one block after the other, and
// the threads of a block as coroutines that take turns at barriers.
#include <math.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>
#include <vector>

#define __global__
#define __device__
#define __forceinline__ inline
#define __shared__ static
#define __launch_bounds__(n)

struct uint3 { unsigned x, y, z; };
static uint3 threadIdx, blockIdx, blockDim, gridDim;

// ---- Threads ----

enum { most_threads = 1024, stack_bytes = 64 << 10 };
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

// Every thread of a block comes to each barrier.
static unsigned arrived, turns;
static inline void __syncthreads() {
    unsigned mine = turns;
    if (++arrived == blockDim.x) {
        arrived = 0;
        turns++;
        return;
    }
    while (turns == mine) yield_();
}

static inline int __syncthreads_or(int x) {
    slots[current] = x;
    __syncthreads();
    int any = 0;
    for (unsigned i = 0; i < blockDim.x; i++) any |= slots[i] != 0;
    __syncthreads();
    return any;
}

// ---- Warps ----

// What a lane brings to an instruction of its warp, and what it gets.
static struct lane_ {
    unsigned a[4], b[2], r[4];
    float c[4];
    long long given, got;
} lanes_[most_threads];
static struct { unsigned arrived, turns; } warps_[most_threads / 32];

// The last lane of a warp that comes to an instruction does it for all.
static void together_(void (*all)(lane_ *)) {
    auto &w = warps_[current / 32];
    unsigned mine = w.turns;
    if (++w.arrived == 32) {
        w.arrived = 0;
        all(lanes_ + current / 32 * 32);
        w.turns++;
        return;
    }
    while (w.turns == mine) yield_();
}

static void give_(lane_ *all) {
    for (int i = 0; i < 32; i++) all[i].got = all[i].given;
}

template <class T> static inline T __shfl_xor_sync(unsigned, T x, int lanes) {
    memcpy(&lanes_[current].given, &x, sizeof x);
    together_(give_);
    T r;
    memcpy(&r, &lanes_[current ^ lanes].got, sizeof r);
    return r;
}

// ---- Shared memory of a size that the launch says ----

enum { shared_start = 1024 }; // as instructions name it
alignas(128) static unsigned char shared_memory_[227 << 10];
static unsigned shared_size_;

static inline unsigned char *shared_bytes() { return shared_memory_; }
static inline unsigned shared_begin() { return shared_start; }

static unsigned char *shared_at_(unsigned at, unsigned bytes) {
    if (at < shared_start || at - shared_start + bytes > shared_size_ || at % bytes != 0) {
        fprintf(stderr, "%u bytes at %u of %u bytes of shared memory\n", bytes, at - shared_start, shared_size_);
        abort();
    }
    return shared_memory_ + (at - shared_start);
}

// Copies arrive as late as they can; until then, there is NaN.
struct copy_ { unsigned char *to; const void *from; int bytes; bool there; };
static std::vector<copy_> copies_[most_threads];

template <int BYTES> static inline void copy_async(unsigned to, const void *from, bool there) {
    unsigned char *at = shared_at_(to, BYTES);
    if ((size_t)from % BYTES != 0) fprintf(stderr, "a copy of %d bytes from %p\n", BYTES, from), abort();
    memset(at, 0xff, BYTES);
    copies_[current].push_back({at, from, BYTES, there});
}
static inline void copies_end() {
    for (auto &c : copies_[current]) {
        if (c.there) memcpy(c.to, c.from, c.bytes);
        else memset(c.to, 0, c.bytes);
    }
    copies_[current].clear();
}

// ---- Matrices: fragments as the PTX ISA has them ----

static void matrices_(lane_ *all, bool transposed) {
    for (int l = 0; l < 32; l++)
        for (int m = 0; m < 4; m++) {
            all[l].r[m] = 0;
            for (int half = 0; half < 2; half++) {
                int row = transposed ? l % 4 * 2 + half : l / 4, column = transposed ? l / 4 : l % 4 * 2 + half;
                unsigned short x;
                memcpy(&x, shared_at_(all[m * 8 + row].a[0], 16) + 2 * column, 2);
                all[l].r[m] |= (unsigned)x << 16 * half;
            }
        }
}

template <bool TRANSPOSED> static inline void load_matrices_(unsigned (&r)[4], unsigned at) {
    lanes_[current].a[0] = at;
    together_([](lane_ *all) { matrices_(all, TRANSPOSED); });
    memcpy(r, lanes_[current].r, sizeof r);
}
static inline void load_matrices(unsigned (&r)[4], unsigned at) { load_matrices_<false>(r, at); }
static inline void load_transposed(unsigned (&r)[4], unsigned at) { load_matrices_<true>(r, at); }

static float number_bf16_(unsigned bits) {
    bits <<= 16;
    float r;
    memcpy(&r, &bits, sizeof r);
    return r;
}
static float number_f16_(unsigned bits);

template <float (*NUMBER)(unsigned)> static void mma_(lane_ *all) {
    float a[16][16], b[16][8], c[16][8];
    for (int l = 0; l < 32; l++) {
        int group = l / 4, in_group = l % 4;
        for (int i = 0; i < 8; i++) a[group + (i / 2 % 2) * 8][in_group * 2 + i % 2 + i / 4 * 8] = NUMBER(all[l].a[i / 2] >> 16 * (i % 2) & 0xffff);
        for (int i = 0; i < 4; i++) b[in_group * 2 + i % 2 + i / 2 * 8][group] = NUMBER(all[l].b[i / 2] >> 16 * (i % 2) & 0xffff);
        for (int i = 0; i < 4; i++) c[group + i / 2 * 8][in_group * 2 + i % 2] = all[l].c[i];
    }
    for (int i = 0; i < 16; i++)
        for (int j = 0; j < 8; j++) {
            double sum = c[i][j];
            for (int k = 0; k < 16; k++) sum += (double)a[i][k] * b[k][j];
            c[i][j] = (float)sum;
        }
    for (int l = 0; l < 32; l++)
        for (int i = 0; i < 4; i++) all[l].c[i] = c[l / 4 + i / 2 * 8][l % 4 * 2 + i % 2];
}

template <float (*NUMBER)(unsigned)> static inline void product_(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
    lane_ &l = lanes_[current];
    memcpy(l.a, a, sizeof a);
    memcpy(l.c, c, sizeof c);
    l.b[0] = b0, l.b[1] = b1;
    together_(mma_<NUMBER>);
    memcpy(c, l.c, sizeof c);
}
static inline void mma_bf16(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) { product_<number_bf16_>(c, a, b0, b1); }
static inline void mma_f16(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) { product_<number_f16_>(c, a, b0, b1); }
static unsigned pack_bf16(float low, float high);
static unsigned pack_f16(float low, float high);
static inline float exp2_near(float x) { return exp2f(x); }
static inline unsigned opaque(unsigned x) { return x; }

static void launch_(void (*f)(const void *), bool barriers, const void *p, unsigned x, unsigned y, unsigned z, unsigned n, unsigned shared) {
    if (!stacks) stacks = (char *)malloc((size_t)most_threads * stack_bytes);
    body = f;
    arguments = p;
    gridDim = {x, y, z};
    blockDim = {n, 1, 1};
    shared_size_ = shared;
    for (blockIdx.z = 0; blockIdx.z < z; blockIdx.z++)
        for (blockIdx.y = 0; blockIdx.y < y; blockIdx.y++)
            for (blockIdx.x = 0; blockIdx.x < x; blockIdx.x++) {
                if (!barriers) {
                    for (threadIdx.x = 0; threadIdx.x < n; threadIdx.x++) f(p);
                    continue;
                }
                memset(started, 0, sizeof started);
                memset(done, 0, sizeof done);
                memset(shared_memory_, 0xff, shared);
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
    extern "C" void name##_launch(const void *p, unsigned x, unsigned y, unsigned z, unsigned n, unsigned shared) { launch_(name##_body, barriers, p, x, y, z, n, shared); }

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

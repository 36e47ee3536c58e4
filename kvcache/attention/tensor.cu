// Attention of several query heads that share keys, by tensor cores. Compiled to tensor.ptx by
// kernels/ptx.sh, for compute capability 8.0 and PTX ISA 7.0.

#include "pages.cuh"

// d += a b, with a of 16 rows and 16 columns, b of 16 rows and 8 columns, as mma.m16n8k16 has them
// in the registers of a warp (PTX ISA, Matrix Fragments for mma.m16n8k16).
#define MMA(type)                                                                                                          \
    static __device__ __forceinline__ void mma(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {                        \
        asm("mma.sync.aligned.m16n8k16.row.col.f32." type "." type ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};" \
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                                                               \
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));                                               \
    }

// split is two numbers as pairs of 16 bits that add up to them, nearly.
struct TensorF16 : F16 {
    MMA("f16")
    static __device__ __forceinline__ void split(float x, float y, u32 &high, u32 &low) {
        const __half2 h = __floats2half2_rn(x, y);
        high = *(const u32 *)&h;
        const float2 have = widen(high);
        const __half2 l = __floats2half2_rn(x - have.x, y - have.y);
        low = *(const u32 *)&l;
    }
};

struct TensorBF16 : BF16 {
    MMA("bf16")
    static __device__ __forceinline__ u32 upper(float x, float y) { return __byte_perm(__float_as_uint(x), __float_as_uint(y), 0x7632); }
    static __device__ __forceinline__ void split(float x, float y, u32 &high, u32 &low) {
        high = upper(x, y);
        const float2 have = widen(high);
        low = upper(x - have.x, y - have.y);
    }
};

static __device__ __forceinline__ float power(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// Copies into shared memory that go on meanwhile, in groups.
static __device__ __forceinline__ void copy(uint4 *to, const void *from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"((u32)__cvta_generic_to_shared(to)), "l"(from) : "memory");
}
static __device__ __forceinline__ void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int LATER> // groups that need not be there yet
static __device__ __forceinline__ void arrive() { asm volatile("cp.async.wait_group %0;" ::"n"(LATER) : "memory"); }

static const int STAGES = 3; // tiles that a warp has on their way or at hand, as set.go has it

// attend is as that of kernels.cu, for 8 or 16 query heads.
//
// A warp takes 16 tokens at a time. It copies their keys and values to shared memory by whole lines,
// two tiles ahead: reading 64 bytes of a line at a time took 1.4 times as long on an H200. From
// there they go into the registers where the tensor cores want them. Lane (g, c) = (lane / 4,
// lane % 4) has, of the scores, query heads g and g + 8, and tokens 2c, 2c + 1, 2c + 8 and 2c + 9.
// Products of queries and keys may add their elements in any order, so a lane reads 16 bytes of each
// at a time. Of values it reads its own tokens, and has the elements that follow from that: in each
// 64, those from 8g on. Weights are two numbers of 16 bits each, so that they are as good as those
// of kernels.cu.
template <typename T, int WIDTH, int GROUP>
static __device__ __forceinline__ void attend(u16 *out, const u16 *query, const Pages &p, float *scratch, i32 heads, i32 group,
                                              i32 subgroups, i32 window, i32 sinks, float scale) {
    const int TILE = 16, PIECES = WIDTH / 32, HALVES = WIDTH / 64, UPPER = GROUP / 8; // rows g, and g + 8
    const int ROW = WIDTH / EACH, UNITS = 2 * TILE * ROW / WARP; // pieces of 16 bytes of a token's keys, and a lane's of a tile
    const int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, g = lane / 4, c = lane % 4;
    extern __shared__ uint4 shared[]; // [WARPS][STAGES][UNITS][WARP]
    uint4 *mine = shared + warp * STAGES * UNITS * WARP;
    // Where a piece of 16 bytes is: such that lanes that read together find them in different banks.
    auto keys_at = [](auto *tile, int token, int piece) { return tile + token * ROW + (piece ^ (token & 1) << 2); };
    auto values_at = [](auto *tile, int token, int piece) { return tile + (TILE + token) * ROW + (piece ^ (token & 6)); };
    const Share s(heads, group, subgroups, GROUP);
    const Tiles<TILE> tiles(p, s, window, sinks);

    const i32 per_block = p.block_tokens / TILE;
    const i64 stride = (i64)heads * WIDTH * 2; // from a token to the next
    const i64 head = (i64)s.head * WIDTH * 2;
    auto block_of = [&](i32 t) { return t < tiles.end ? tiles.line[tiles.tile(t) / per_block] : -1; };
    u32 there = 0; // which stages have a tile, as bits
    auto fetch = [&](i32 t, i32 block, int stage) {
        const bool is = (u32)block < (u32)p.blocks;
        there = there & ~(1u << stage) | (u32)is << stage;
        if (is) {
            const char *at = p.pages + block * p.block_bytes + (i64)(tiles.tile(t) % per_block) * TILE * stride + head;
            uint4 *to = mine + stage * UNITS * WARP;
#pragma unroll
            for (int i = 0; i < UNITS / 2; i++) { // whole lines of memory at a time
                const int token = (i * WARP + lane) / ROW, piece = lane % ROW;
                copy(keys_at(to, token, piece), at + p.keys + token * stride + piece * EACH * 2);
                copy(values_at(to, token, piece), at + p.values + token * stride + piece * EACH * 2);
            }
        }
        commit();
    };
    const i32 first = tiles.begin + warp;
#pragma unroll
    for (int i = 0; i < STAGES - 1; i++) fetch(first + i * WARPS, block_of(first + i * WARPS), i);
    i32 block = block_of(first + (STAGES - 1) * WARPS); // of the next fetch

    uint4 q[UPPER][PIECES];
    float sum[HALVES * EACH][4], most[UPPER], total[UPPER];
#pragma unroll
    for (int u = 0; u < UPPER; u++) {
        most[u] = NONE;
        total[u] = 0;
#pragma unroll
        for (int i = 0; i < PIECES; i++)
            q[u][i] = g + 8 * u < s.count ? load(query + (s.query + g + 8 * u) * WIDTH + (4 * i + c) * EACH) : nothing();
    }
#pragma unroll
    for (int j = 0; j < HALVES * EACH; j++)
#pragma unroll
        for (int i = 0; i < 4; i++) sum[j][i] = 0;
    scale *= LOG2E;

    for (i32 t = first, stage = 0; t < tiles.end; t += WARPS, stage = stage + 1 == STAGES ? 0 : stage + 1) {
        const i32 ahead = t + (STAGES - 1) * WARPS;
        __syncwarp(); // all are done with the stage that is filled next
        fetch(ahead, block, stage == 0 ? STAGES - 1 : stage - 1);
        block = block_of(ahead + WARPS);
        arrive<STAGES - 1>();
        __syncwarp();
        if (!(there >> stage & 1)) continue;
        const uint4 *from = mine + stage * UNITS * WARP;

        float score[2][4] = {}, rest[2][4] = {}; // of tokens 2c, 2c + 1 and those 8 further on; of heads g, g, g + 8, g + 8
#pragma unroll
        for (int b = 0; b < 2; b++)
#pragma unroll
            for (int i = 0; i < PIECES; i++) {
                const uint4 k = *keys_at(from, 8 * b + g, 4 * i + c), low = q[0][i], high = UPPER > 1 ? q[UPPER - 1][i] : nothing();
                const u32 a[4] = {low.x, high.x, low.y, high.y}, more[4] = {low.z, high.z, low.w, high.w};
                T::mma(score[b], a, k.x, k.y);
                T::mma(rest[b], more, k.z, k.w);
            }

        bool seen[4];
        float shrink[UPPER];
        u32 high[4] = {}, low[4] = {}; // weights, as rows of a
#pragma unroll
        for (int b = 0; b < 4; b++) seen[b] = tiles.seen(tiles.tile(t) * TILE + 2 * c + b % 2 + b / 2 * 8);
#pragma unroll
        for (int u = 0; u < UPPER; u++) {
            float peak = most[u];
#pragma unroll
            for (int b = 0; b < 4; b++) {
                float &x = score[b / 2][2 * u + b % 2];
                x = seen[b] ? (x + rest[b / 2][2 * u + b % 2]) * scale : NONE;
                peak = fmaxf(peak, x);
            }
            peak = fmaxf(peak, __shfl_xor_sync(0xffffffffu, peak, 1));
            peak = fmaxf(peak, __shfl_xor_sync(0xffffffffu, peak, 2));
            shrink[u] = power(most[u] - peak);
            most[u] = peak;
            total[u] *= shrink[u];
#pragma unroll
            for (int b = 0; b < 4; b++) {
                float &x = score[b / 2][2 * u + b % 2];
                x = seen[b] ? power(x - peak) : 0.0f;
                total[u] += x;
            }
#pragma unroll
            for (int b = 0; b < 2; b++) T::split(score[b][2 * u], score[b][2 * u + 1], high[2 * b + u], low[2 * b + u]);
        }
        if (__any_sync(0xffffffffu, shrink[0] != 1 || shrink[UPPER - 1] != 1)) // which is seldom
#pragma unroll
            for (int j = 0; j < HALVES * EACH; j++)
#pragma unroll
                for (int i = 0; i < 2 * UPPER; i++) sum[j][i] *= shrink[i / 2];
#pragma unroll
        for (int h = 0; h < HALVES; h++) {
            u32 word[4][4];
#pragma unroll
            for (int b = 0; b < 4; b++) {
                // What is not seen may be anything, and 0 times that no number.
                const uint4 v = seen[b] ? *values_at(from, 2 * c + b % 2 + b / 2 * 8, 8 * h + g) : nothing();
                word[b][0] = v.x;
                word[b][1] = v.y;
                word[b][2] = v.z;
                word[b][3] = v.w;
            }
#pragma unroll
            for (int e = 0; e < EACH; e++) {
                const u32 which = e % 2 ? 0x7632 : 0x5410; // of the halves of two words
                const u32 b0 = __byte_perm(word[0][e / 2], word[1][e / 2], which), b1 = __byte_perm(word[2][e / 2], word[3][e / 2], which);
                T::mma(sum[h * EACH + e], high, b0, b1);
                T::mma(sum[h * EACH + e], low, b0, b1);
            }
        }
    }

    arrive<0>();
    __syncthreads(); // what was room for tiles is one for sums
    auto &sums = *(float(*)[WARPS][GROUP][WIDTH])shared;
    __shared__ float mosts[WARPS][GROUP], totals[WARPS][GROUP];
#pragma unroll
    for (int u = 0; u < UPPER; u++) {
        total[u] += __shfl_xor_sync(0xffffffffu, total[u], 1);
        total[u] += __shfl_xor_sync(0xffffffffu, total[u], 2);
        if (c == 0) {
            mosts[warp][g + 8 * u] = most[u];
            totals[warp][g + 8 * u] = total[u];
        }
#pragma unroll
        for (int h = 0; h < HALVES; h++)
#pragma unroll
            for (int e = 0; e < EACH; e++)
#pragma unroll
                for (int i = 0; i < 2; i++) sums[warp][g + 8 * u][64 * h + (2 * c + i) * EACH + e] = sum[h * EACH + e][2 * u + i];
    }
    finish<T, WIDTH, GROUP>(s, sums, mosts, totals, out, scratch);
}

ATTEND(tensor_f16, TensorF16, 64, 8, attend)
ATTEND(tensor_f16, TensorF16, 64, 16, attend)
ATTEND(tensor_f16, TensorF16, 128, 8, attend)
ATTEND(tensor_f16, TensorF16, 128, 16, attend)
ATTEND(tensor_bf16, TensorBF16, 64, 8, attend)
ATTEND(tensor_bf16, TensorBF16, 64, 16, attend)
ATTEND(tensor_bf16, TensorBF16, 128, 8, attend)
ATTEND(tensor_bf16, TensorBF16, 128, 16, attend)

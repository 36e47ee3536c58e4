// The device functions of package attention; its Go files state the contracts. Compiled to
// kernels.ptx by kernels/ptx.sh. Only operations that compute capability 7.5 and PTX ISA 7.0
// have are used; tensor.cu has those that need more.

#include "pages.cuh"

template <typename T>
static __device__ __forceinline__ void widen(uint4 u, float (&x)[EACH]) {
    const u32 words[] = {u.x, u.y, u.z, u.w};
#pragma unroll
    for (int i = 0; i < 4; i++) {
        const float2 pair = T::widen(words[i]);
        x[2 * i] = pair.x;
        x[2 * i + 1] = pair.y;
    }
}

// attend is a head of a row, or a part of its tokens: GROUP query heads that share the head of keys.
//
// A warp takes a tile of tokens at a time. The keys of a token are in WIDTH / 8 lanes, so that it
// has some of them at once, each with a softmax of its own; they are put together in the end.
template <typename T, int WIDTH, int GROUP>
static __device__ __forceinline__ void attend(u16 *out, const u16 *query, const Pages &p, float *scratch, i32 heads, i32 group,
                                              i32 subgroups, i32 window, i32 sinks, float scale) {
    const int LANES = WIDTH / EACH, ROWS = WARP / LANES, DEPTH = 4, TILE = ROWS * DEPTH;
    const int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, column = lane % LANES, fellow = lane / LANES;
    const Share s(heads, group, subgroups, GROUP);
    const Tiles<TILE> tiles(p, s, window, sinks);

    float q[GROUP][EACH], sum[GROUP][EACH], most[GROUP], total[GROUP];
#pragma unroll
    for (int g = 0; g < GROUP; g++) {
        widen<T>(g < s.count ? load(query + (s.query + g) * WIDTH + column * EACH) : nothing(), q[g]);
        most[g] = NONE;
        total[g] = 0;
#pragma unroll
        for (int i = 0; i < EACH; i++) {
            q[g][i] *= scale * LOG2E;
            sum[g][i] = 0;
        }
    }

    const i32 per_block = p.block_tokens / TILE;
    const i64 stride = (i64)heads * WIDTH * 2; // from a token to the next
    const i64 within = s.head * WIDTH * 2 + column * EACH * 2 + fellow * stride;
    for (i32 t = tiles.begin + warp; t < tiles.end; t += WARPS) {
        const i32 tile = tiles.tile(t), block = tiles.line[tile / per_block];
        if ((u32)block >= (u32)p.blocks) continue;
        const char *at = p.pages + block * p.block_bytes + (i64)(tile % per_block) * TILE * stride + within;
        uint4 k[DEPTH], v[DEPTH];
#pragma unroll
        for (int d = 0; d < DEPTH; d++) k[d] = load(at + p.keys + d * ROWS * stride);
#pragma unroll
        for (int d = 0; d < DEPTH; d++) v[d] = load(at + p.values + d * ROWS * stride);

        float score[DEPTH][GROUP];
        bool seen[DEPTH];
#pragma unroll
        for (int d = 0; d < DEPTH; d++) {
            seen[d] = tiles.seen(tile * TILE + d * ROWS + fellow);
            float x[EACH];
            widen<T>(k[d], x);
#pragma unroll
            for (int g = 0; g < GROUP; g++) {
                score[d][g] = 0;
#pragma unroll
                for (int i = 0; i < EACH; i++) score[d][g] += q[g][i] * x[i];
            }
        }
#pragma unroll
        for (int step = LANES / 2; step > 0; step /= 2)
#pragma unroll
            for (int d = 0; d < DEPTH; d++)
#pragma unroll
                for (int g = 0; g < GROUP; g++) score[d][g] += __shfl_xor_sync(0xffffffffu, score[d][g], step);
#pragma unroll
        for (int g = 0; g < GROUP; g++) {
            float peak = most[g];
#pragma unroll
            for (int d = 0; d < DEPTH; d++)
                if (seen[d]) peak = fmaxf(peak, score[d][g]);
            const float shrink = exp2f(most[g] - peak);
            most[g] = peak;
            total[g] *= shrink;
#pragma unroll
            for (int i = 0; i < EACH; i++) sum[g][i] *= shrink;
#pragma unroll
            for (int d = 0; d < DEPTH; d++) {
                score[d][g] = seen[d] ? exp2f(score[d][g] - peak) : 0.0f;
                total[g] += score[d][g];
            }
        }
#pragma unroll
        for (int d = 0; d < DEPTH; d++) {
            // What is not seen may be anything, and 0 times that no number.
            float x[EACH];
            widen<T>(seen[d] ? v[d] : nothing(), x);
#pragma unroll
            for (int g = 0; g < GROUP; g++)
#pragma unroll
                for (int i = 0; i < EACH; i++) sum[g][i] += score[d][g] * x[i];
        }
    }

    // The tokens that a warp had at once.
#pragma unroll
    for (int g = 0; g < GROUP; g++) {
#pragma unroll
        for (int step = LANES; step < WARP; step *= 2) {
            const float other = __shfl_xor_sync(0xffffffffu, most[g], step), peak = fmaxf(most[g], other);
            const float mine = exp2f(most[g] - peak), theirs = exp2f(other - peak);
            most[g] = peak;
            total[g] = total[g] * mine + __shfl_xor_sync(0xffffffffu, total[g], step) * theirs;
#pragma unroll
            for (int i = 0; i < EACH; i++) sum[g][i] = sum[g][i] * mine + __shfl_xor_sync(0xffffffffu, sum[g][i], step) * theirs;
        }
    }
    __shared__ float sums[WARPS][GROUP][WIDTH], mosts[WARPS][GROUP], totals[WARPS][GROUP];
#pragma unroll
    for (int g = 0; g < GROUP; g++) {
        if (fellow == 0)
#pragma unroll
            for (int i = 0; i < EACH; i++) sums[warp][g][column * EACH + i] = sum[g][i];
        if (lane == 0) {
            mosts[warp][g] = most[g];
            totals[warp][g] = total[g];
        }
    }
    finish<T, WIDTH, GROUP>(s, sums, mosts, totals, out, scratch);
}

// combine puts the parts of a query head together.
template <typename T, int WIDTH>
static __device__ __forceinline__ void combine(u16 *out, const float *scratch, i32 parts) {
    const float *mine = scratch + (i64)blockIdx.x * parts * (WIDTH + 2);
    float peak = NONE, x = 0, all = 0;
    for (i32 i = 0; i < parts; i++) peak = fmaxf(peak, mine[i * (WIDTH + 2) + WIDTH]);
    for (i32 i = 0; i < parts; i++) {
        const float weight = exp2f(mine[i * (WIDTH + 2) + WIDTH] - peak);
        x += mine[i * (WIDTH + 2) + threadIdx.x] * weight;
        all += mine[i * (WIDTH + 2) + WIDTH + 1] * weight;
    }
    out[(i64)blockIdx.x * WIDTH + threadIdx.x] = T::narrow(all == 0 ? 0.0f : x / all);
}

#define WIDE(name, T, WIDTH)                                                                         \
    ATTEND(attend_##name, T, WIDTH, 1, attend)                                                       \
    ATTEND(attend_##name, T, WIDTH, 4, attend)                                                       \
    ATTEND(attend_##name, T, WIDTH, 8, attend)                                                       \
    extern "C" __global__ void combine_##name##_##WIDTH(u16 *out, const float *scratch, i32 parts) { \
        combine<T, WIDTH>(out, scratch, parts);                                                      \
    }
WIDE(f16, F16, 64)
WIDE(f16, F16, 128)
WIDE(bf16, BF16, 64)
WIDE(bf16, BF16, 128)

// store puts the keys and values of a row, of so many units of 16 bytes, where its last token is.
extern "C" __global__ void store(const uint4 *new_keys, const uint4 *new_values, char *pages, const i32 *tables, const i32 *sequence,
                                 const i32 *length, i64 block_bytes, i64 keys, i64 values, i32 sequences, i32 table_width, i32 blocks,
                                 i32 block_tokens, i32 units) {
    const Pages p = {pages, tables, sequence, length, block_bytes, keys, values, sequences, table_width, blocks, block_tokens};
    const i32 row = blockIdx.x, *line = 0, n = p.row_length(row, line);
    if (n == 0 || n < length[row]) return;
    const i32 block = line[(n - 1) / block_tokens];
    if ((u32)block >= (u32)blocks) return;
    char *at = pages + block * block_bytes;
    const i64 slot = (i64)((n - 1) % block_tokens) * units;
    for (i32 i = threadIdx.x; i < units; i += blockDim.x) {
        ((uint4 *)(at + keys))[slot + i] = new_keys[(i64)row * units + i];
        ((uint4 *)(at + values))[slot + i] = new_values[(i64)row * units + i];
    }
}

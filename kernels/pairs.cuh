// ---- CopyPairs: blocks of one size ----
//
// Warps take runs of units that lie in one block, so nothing is searched. The
// list may be host memory: a warp asks for its next entry before it copies.

// K is the units that a lane moves at a time, and a run has TILES times 32*K
// units at most: fewer where there are more warps than such runs.
template <int K, int TILES>
static __device__ __forceinline__ void copy_runs(uint4 *dst, const uint4 *src, const uint2 *list, i64 n, i64 units) {
    const i64 tile = 32 * K, warps = stride() / 32;
    i64 run = n * units / (warps * tile);
    run = tile * (run < 1 ? 1 : run < TILES ? run : TILES);
    const i64 each = (units + run - 1) / run, total = n * each; // runs of a block, and of all
    i64 i = first() / 32;
    if (i >= total) {
        return;
    }
    for (uint2 at = list[i / each], next = at; i < total; i += warps, at = next) {
        if (i + warps < total) {
            next = list[(i + warps) / each];
        }
        const i64 begin = i % each * run, end = begin + run < units ? begin + run : units;
        uint4 *to = dst + at.x;
        const uint4 *from = src + at.y;
        i64 unit = begin + threadIdx.x % 32;
        for (; unit + 32 * (K - 1) < end; unit += tile) {
            uint4 v[K];
#pragma unroll
            for (int k = 0; k < K; k++) {
                assign(v[k], from[unit + 32 * k]);
            }
#pragma unroll
            for (int k = 0; k < K; k++) {
                assign(to[unit + 32 * k], v[k]);
            }
        }
        for (; unit < end; unit += 32) {
            assign(to[unit], from[unit]);
        }
    }
}

extern "C" __global__ void copy_pairs(uint4 *dst, const uint4 *src, const uint2 *list, i64 n, i64 units) {
    copy_runs<8, 4>(dst, src, list, n, units);
}

// ---- CopySpans: copies of any length ----
//
// The spans laid end to end are one row of units. Warps take runs of it. Inside
// a span a warp moves whole tiles, with no search and all loads of a tile in
// flight before its first store. Where spans are shorter than a tile, each lane
// finds the span of its own units.

struct span {
    u64 dst, src;
    i64 end; // units of all spans up to and including this one
};

// Returns the first of the n spans from at on that ends behind unit, or the
// last of them. The lanes of a warp search together: each round is one read of
// memory and leaves one part in 32.
static __device__ __forceinline__ i64 find_span(const span *list, i64 at, i64 n, i64 unit) {
    const i64 lane = threadIdx.x % 32;
    while (n > 1) {
        const i64 part = (n + 31) / 32;
        const i64 last = (lane + 1) * part - 1; // of the lane's part
        const bool before = last < n - 1 && list[at + last].end <= unit;
        const i64 skip = __popc(__ballot_sync(0xffffffffu, before)) * part;
        at += skip;
        n = part < n - skip ? part : n - skip;
    }
    return at;
}

// As find_span, in one round where the span is among the first 32.
static __device__ __forceinline__ i64 find_near(const span *list, i64 at, i64 n, i64 unit) {
    const i64 lane = threadIdx.x % 32;
    const bool before = lane < n - 1 && list[at + lane].end <= unit;
    const i64 skip = __popc(__ballot_sync(0xffffffffu, before));
    return skip < 32 ? at + skip : find_span(list, at + skip, n - skip, unit);
}

// Moves 32*K units at most, from unit on and below stop, that lie in the spans
// from low to high.
template <class T, int K>
static __device__ __forceinline__ void copy_short(const span *list, i64 low, i64 high, i64 unit, i64 stop) {
    i64 mine[K], at[K];
    bool ok[K];
#pragma unroll
    for (int k = 0; k < K; k++) {
        mine[k] = unit + 32 * k + threadIdx.x % 32;
        ok[k] = mine[k] < stop;
        mine[k] = ok[k] ? mine[k] : stop - 1;
        at[k] = low;
    }
    // Halves of what is left, the same for all, so that the reads of a step
    // go out together.
    for (i64 left = high - low + 1; left > 1;) {
        const i64 half = left / 2;
#pragma unroll
        for (int k = 0; k < K; k++) {
            at[k] += list[at[k] + half - 1].end <= mine[k] ? half : 0;
        }
        left -= half;
    }
    T v[K], *to[K];
#pragma unroll
    for (int k = 0; k < K; k++) {
        const span *s = list + at[k];
        mine[k] -= at[k] > 0 ? s[-1].end : 0;
        to[k] = (T *)s->dst + mine[k];
        assign(v[k], ((const T *)s->src)[mine[k]]);
    }
#pragma unroll
    for (int k = 0; k < K; k++) {
        if (ok[k]) {
            assign(*to[k], v[k]);
        }
    }
}

// K is the units that a lane moves at a time inside a span, and a run has TILES
// times 32*K units at most: fewer where there are more warps than such runs.
template <class T, int K, int TILES>
static __device__ __forceinline__ void copy_spans(const span *list, i64 n, i64 total) {
    const int SHORT = 4;
    const i64 tile = 32 * K, warps = stride() / 32;
    i64 run = total / (warps * tile);
    run = tile * (run < 1 ? 1 : run < TILES ? run : TILES);
    i64 at = 0;
    for (i64 start = first() / 32 * run; start < total; start += warps * run) {
        const i64 stop = start + run < total ? start + run : total;
        at = find_span(list, at, n - at, start);
        for (i64 unit = start; unit < stop; at = find_near(list, at, n - at, unit)) {
            const i64 begin = at > 0 ? list[at - 1].end : 0, end = list[at].end;
            if (end <= unit) {
                return; // the list ends before total
            }
            const i64 last = end < stop ? end : stop; // of what the span has for this run
            const T *from = (const T *)list[at].src + (unit - begin) + threadIdx.x % 32;
            T *to = (T *)list[at].dst + (unit - begin) + threadIdx.x % 32;
            for (; last - unit >= tile; unit += tile, from += tile, to += tile) {
                T v[K];
#pragma unroll
                for (int k = 0; k < K; k++) {
                    assign(v[k], from[32 * k]);
                }
#pragma unroll
                for (int k = 0; k < K; k++) {
                    assign(to[32 * k], v[k]);
                }
            }
            if (unit < last) {
                const i64 part = stop - unit < 32 * SHORT ? stop : unit + 32 * SHORT;
                const i64 high = find_near(list, at, n - at, part - 1);
                copy_short<T, SHORT>(list, at, high, unit, part);
                at = high;
                unit = part;
            }
        }
    }
}

#define SPANS(name, T)                                                          \
    extern "C" __global__ void name(const span *list, i64 n, i64 total) {       \
        copy_spans<T, 8, 4>(list, n, total);                                    \
    }

SPANS(copy_spans_16, uint4)
SPANS(copy_spans_4, u32)
SPANS(copy_spans_1, u8)

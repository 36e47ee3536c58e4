// What the device functions of package attention share.

#include <cuda_fp16.h>

typedef unsigned short u16;
typedef unsigned int u32;
typedef int i32;
typedef long long i64;

static const int WARPS = 4, WARP = 32, EACH = 8; // elements of 16 bytes
static const float NONE = -1e30f;                // below every score; its differences are numbers
static const float LOG2E = 1.44269504f;          // powers of 2 are fast

// ---- Elements of 16 bits, two in a word ----

struct F16 {
    static __device__ __forceinline__ float2 widen(u32 w) { return __half22float2(*(const __half2 *)&w); }
    static __device__ __forceinline__ u16 narrow(float x) { return __half_as_ushort(__float2half_rn(x)); }
};

struct BF16 {
    static __device__ __forceinline__ float2 widen(u32 w) {
        return make_float2(__uint_as_float(w << 16), __uint_as_float(w & 0xffff0000u));
    }
    static __device__ __forceinline__ u16 narrow(float x) {
        const u32 bits = __float_as_uint(x);
        if (x != x) return 0x7fc0;
        return (u16)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
    }
};

static __device__ __forceinline__ uint4 nothing() { return make_uint4(0, 0, 0, 0); }
static __device__ __forceinline__ uint4 load(const void *p) { return __ldg((const uint4 *)p); }

// ---- Pages ----

struct Pages {
    const char *pages;
    const i32 *tables, *sequence, *length;
    i64 block_bytes, keys, values;
    i32 sequences, table_width, blocks, block_tokens;

    // row_length is how many tokens a row can attend to; line becomes that of the tables.
    __device__ __forceinline__ i32 row_length(i32 row, const i32 *&line) const {
        const i32 s = sequence[row];
        if ((u32)s >= (u32)sequences) return 0;
        line = tables + (i64)s * table_width;
        return max(0, min(length[row], table_width * block_tokens));
    }
};

// What a thread block attends for: count query heads of a row that share a head of keys, and a
// part of the row's tokens.
struct Share {
    i32 row, head, count;
    i64 query; // the first query head, of all rows'
    i32 part, parts;

    __device__ __forceinline__ Share(i32 heads, i32 group, i32 subgroups, i32 most) {
        const i32 first = blockIdx.x % subgroups * most;
        head = blockIdx.x / subgroups % heads;
        row = blockIdx.x / subgroups / heads;
        count = min(most, group - first);
        query = ((i64)row * heads + head) * group + first;
        part = blockIdx.y;
        parts = gridDim.y;
    }
};

// The tiles of TILE tokens that a part of a row has: of those with something to attend to, which
// are the sinks' and those from the window on. Warps take them in turn.
template <int TILE>
struct Tiles {
    i32 length, start, sinks, near, skipped, begin, end;
    const i32 *line;

    __device__ __forceinline__ Tiles(const Pages &p, const Share &s, i32 window, i32 sinks) : sinks(sinks), line(0) {
        length = p.row_length(s.row, line);
        start = window > 0 ? max(0, length - window) : 0;
        near = start > 0 ? (min(sinks, start) + TILE - 1) / TILE : 0;
        skipped = max(0, start / TILE - near);
        const i32 tiles = (length + TILE - 1) / TILE - skipped, share = (tiles + s.parts - 1) / s.parts;
        begin = s.part * share;
        end = min(tiles, begin + share);
    }

    __device__ __forceinline__ i32 tile(i32 i) const { return i < near ? i : i + skipped; }
    __device__ __forceinline__ bool seen(i32 token) const { return token < length && (token >= start || token < sinks); }
};

// ---- Results ----

// finish puts together what the warps of a thread block came to, for count query heads: their sums
// in any order of elements, the most of their scores, and their weights' total. Parts go to scratch.
template <typename T, int WIDTH, int GROUP>
static __device__ __forceinline__ void finish(const Share &s, const float (&sums)[WARPS][GROUP][WIDTH], const float (&mosts)[WARPS][GROUP],
                                              const float (&totals)[WARPS][GROUP], u16 *out, float *scratch) {
    __syncthreads();
    for (int i = threadIdx.x; i < s.count * WIDTH; i += WARPS * WARP) {
        const int g = i / WIDTH, e = i % WIDTH;
        float peak = NONE, x = 0, all = 0;
#pragma unroll
        for (int w = 0; w < WARPS; w++) peak = fmaxf(peak, mosts[w][g]);
#pragma unroll
        for (int w = 0; w < WARPS; w++) {
            const float weight = exp2f(mosts[w][g] - peak);
            x += sums[w][g][e] * weight;
            all += totals[w][g] * weight;
        }
        if (s.parts == 1) {
            out[(s.query + g) * WIDTH + e] = T::narrow(all == 0 ? 0.0f : x / all);
            continue;
        }
        float *mine = scratch + ((s.query + g) * s.parts + s.part) * (WIDTH + 2);
        mine[e] = x;
        if (e == 0) {
            mine[WIDTH] = peak;
            mine[WIDTH + 1] = all;
        }
    }
}

#define ATTEND(name, T, WIDTH, GROUP, function)                                                                                    \
    extern "C" __global__ void __launch_bounds__(WARPS *WARP)                                                                      \
        name##_##WIDTH##_##GROUP(u16 *out, const u16 *query, const char *pages, const i32 *tables, const i32 *sequence,            \
                                 const i32 *length, float *scratch, i64 block_bytes, i64 keys, i64 values, i32 sequences,          \
                                 i32 table_width, i32 blocks, i32 block_tokens, i32 heads, i32 group, i32 subgroups, i32 window,   \
                                 i32 sinks, float scale) {                                                                         \
        const Pages p = {pages, tables, sequence, length, block_bytes, keys, values, sequences, table_width, blocks, block_tokens};\
        function<T, WIDTH, GROUP>(out, query, p, scratch, heads, group, subgroups, window, sinks, scale);                          \
    }

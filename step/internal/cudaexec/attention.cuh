// Attention, after Dao, "FlashAttention-2" (2023): scores are computed tile by tile and
// never stored. Nothing is added up by atomics, so that results repeat.

// ---- Instructions of one warp (compute capability 8.0) ----

#ifdef __CUDACC__
struct alignas(1024) kilobyte { u8 bytes[1024]; };
extern __shared__ kilobyte shared_memory[];

FN u8 *shared_bytes() { return shared_memory->bytes; }

// Where the block's shared memory begins, as instructions name it.
FN u32 shared_begin() {
    u32 r;
    asm("{ .reg .u64 a; cvta.to.shared.u64 a, %1; cvt.u32.u64 %0, a; }" : "=r"(r) : "l"(shared_memory));
    return r;
}

// Copies BYTES, 4 or 16, to shared memory while the thread goes on; zeros if nothing is
// there.
template <int BYTES> FN void copy_async(u32 to, const void *from, bool there) {
    if (BYTES == 16) asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(there ? 16 : 0) : "memory");
    else asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(to), "l"(from), "r"(there ? 4 : 0) : "memory");
}
FN void copies_end() {
    asm volatile("cp.async.commit_group;" ::: "memory");
    asm volatile("cp.async.wait_group 0;" ::: "memory");
}

// Four matrices of 8x8 elements of 16 bits; each lane names a row: lanes 0 to 7 those of
// the first. Lane l gets elements 2(l%4) and 2(l%4)+1 of row l/4, or of column l/4.
FN void load_matrices(u32 (&r)[4], u32 at) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at) : "memory");
}
FN void load_transposed(u32 (&r)[4], u32 at) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at) : "memory");
}

// c += a b, of 16x16 and 16x8 elements.
FN void mma_bf16(f32 (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
FN void mma_f16(f32 (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3]) : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Two numbers, rounded; the first is in the low half.
FN u32 pack_bf16(f32 low, f32 high) {
    u32 r;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
    return r;
}
FN u32 pack_f16(f32 low, f32 high) {
    u32 r;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low));
    return r;
}

FN f32 exp2_near(f32 x) {
    f32 r;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x));
    return r;
}

// Something that the compiler does not know: what is made of it is not worth registers
// from one turn of a loop to the next.
FN u32 opaque(u32 x) {
    asm volatile("" : "+r"(x));
    return x;
}
#endif

FN void mma(bf16, f32 (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) { mma_bf16(c, a, b0, b1); }
FN void mma(f16, f32 (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) { mma_f16(c, a, b0, b1); }
FN u32 pack(bf16, f32 low, f32 high) { return pack_bf16(low, high); }
FN u32 pack(f16, f32 low, f32 high) { return pack_f16(low, high); }

// ---- Where things are ----

// How far apart elements of an array are.
struct strides {
    i64 batch, head, row;
    __device__ __forceinline__ i64 at(int b, int h) const { return b * batch + h * head; }
};

struct attention {
    int heads, shared; // heads that share one of the keys
    int queries, keys;
    f32 scale;
    strides q, k, v, out, dout, dq, dk, dv;
};

FN f32 log2_e() { return 1.4426950408889634f; }
FN f32 minus_infinity() { return __uint_as_float(0xff800000u); }

// A tile of rows in shared memory has its 16-byte chunks in an order in which eight rows'
// chunks of the same number lie in different banks: chunk c of a row is at c ^ row % 8.
template <int D> FN u32 chunk(int row, int c) { return (u32)(row * D * 2 + ((c ^ (row & 7)) << 4)); }

// Copies ROWS rows from first on, of EACH elements, and zeros to their right and below.
template <class T, int D, int EACH, int ROWS, int WARPS> FN void copy_tile(u32 to, const T *from, i64 stride, int first, int rows) {
    constexpr int chunks = D / 8, at_once = WARPS * 32 / chunks;
    static_assert(at_once % 8 == 0, "the order of chunks repeats after eight rows");
    const int row = threadIdx.x / chunks, c = threadIdx.x % chunks;
    to += chunk<D>(row, c);
    from += (first + row) * stride + c * 8;
#pragma unroll
    for (int i = 0; i < ROWS; i += at_once)
        if (i + at_once <= ROWS || row < ROWS - i) copy_async<16>(to + i * D * 2, from + i * stride, first + i + row < rows && c * 8 < EACH);
}

// Where a lane reads from 16 rows in shared memory: their chunks 2 k and 2 k + 1 are at
// this, with exclusive or, 32 k. Rows begin at multiples of 256 bytes, or of 128.
template <int D> FN u32 lane_of(u32 rows) {
    const int lane = threadIdx.x % 32;
    return rows + chunk<D>(lane % 16, lane / 16);
}

// What a warp's lane has of 16 rows, from first on, as the left operand of products.
template <class T, int D, int EACH> FN void load_rows(u32 (&a)[D / 16][4], const T *from, i64 stride, int first, int rows) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int k = 0; k < D / 16; k++)
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const int row = first + lane / 4 + i % 2 * 8, column = k * 16 + lane % 4 * 2 + i / 2 * 8;
            a[k][i] = row < rows && column < EACH ? *(const u32 *)(from + row * stride + column) : 0;
        }
}

// Writes 16 rows, from first on, that a warp has as the result of products.
template <class T, int D, int EACH> FN void store_rows(T *to, i64 stride, int first, int rows, const f32 (&c)[D / 8][4], const f32 (&by)[2]) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const int row = first + lane / 4 + i * 8;
        if (row >= rows) continue;
#pragma unroll
        for (int n = 0; n < D / 8; n++) {
            const int column = n * 8 + lane % 4 * 2;
            if (column >= EACH) continue;
            vec<T, 2> two;
            st(two.a[0], c[n][2 * i] * by[i]);
            st(two.a[1], c[n][2 * i + 1] * by[i]);
            *(vec<T, 2> *)(to + row * stride + column) = two;
        }
    }
}

// ---- Products of a warp ----

// c += a tile^T: 16 rows, and as many columns as the tile has rows.
template <class T, int D, int N> FN void times_rows(f32 (&c)[N / 8][4], const u32 (&a)[D / 16][4], u32 tile) {
    tile = opaque(lane_of<D>(tile));
#pragma unroll
    for (int k = 0; k < D / 16; k++)
#pragma unroll
        for (int n = 0; n < N / 16; n++) {
            u32 b[4];
            load_matrices(b, (tile ^ k * 32) + n * 16 * D * 2);
            mma(T(), c[2 * n], a[k], b[0], b[2]);
            mma(T(), c[2 * n + 1], a[k], b[1], b[3]);
        }
}

// The same, of R times 16 rows that lie in shared memory, too.
template <class T, int D, int N, int R> FN void times_rows(f32 (&c)[R][N / 8][4], u32 rows, u32 tile) {
    tile = opaque(lane_of<D>(tile));
    rows = opaque(lane_of<D>(rows));
#pragma unroll
    for (int k = 0; k < D / 16; k++) {
        u32 a[R][4];
#pragma unroll
        for (int r = 0; r < R; r++) load_matrices(a[r], (rows ^ k * 32) + r * 16 * D * 2);
#pragma unroll
        for (int n = 0; n < N / 16; n++) {
            u32 b[4];
            load_matrices(b, (tile ^ k * 32) + n * 16 * D * 2);
#pragma unroll
            for (int r = 0; r < R; r++) {
                mma(T(), c[r][2 * n], a[r], b[0], b[2]);
                mma(T(), c[r][2 * n + 1], a[r], b[1], b[3]);
            }
        }
    }
}

// c += a tile: R times 16 rows, and the tile's columns. a was the result of a product.
template <class T, int D, int N, int R> FN void times_columns(f32 (&c)[R][D / 8][4], const f32 (&a)[R][N / 8][4], u32 tile) {
    tile = opaque(lane_of<D>(tile));
#pragma unroll
    for (int k = 0; k < N / 16; k++) {
        u32 left[R][4];
#pragma unroll
        for (int r = 0; r < R; r++)
#pragma unroll
            for (int i = 0; i < 4; i++) left[r][i] = pack(T(), a[r][2 * k + i / 2][i % 2 * 2], a[r][2 * k + i / 2][i % 2 * 2 + 1]);
#pragma unroll
        for (int n = 0; n < D / 16; n++) {
            u32 b[4];
            load_transposed(b, (tile ^ n * 32) + k * 16 * D * 2);
#pragma unroll
            for (int r = 0; r < R; r++) {
                mma(T(), c[r][2 * n], left[r], b[0], b[1]);
                mma(T(), c[r][2 * n + 1], left[r], b[2], b[3]);
            }
        }
    }
}

template <int A, int B, int C> FN void clear(f32 (&c)[A][B][C]) {
#pragma unroll
    for (int i = 0; i < A; i++)
#pragma unroll
        for (int j = 0; j < B; j++)
#pragma unroll
            for (int k = 0; k < C; k++) c[i][j][k] = 0;
}

// One value of the four lanes that have a row.
template <class O, class C> FN C over_quad(C x) {
    x = O::of(x, swapped(x, 1));
    return O::of(x, swapped(x, 2));
}

// ---- Forward: a block has 16 R queries for each warp and goes over tiles of N keys ----

template <class T, int D, int EACH, int WARPS, int R, int N, bool CAUSAL>
FN void attention_forward(const attention s, const T *q, const T *k, const T *v, T *out, f32 *sums) {
    constexpr int M = 16 * R * WARPS;
    constexpr u32 tile_bytes = N * D * 2, own_bytes = R > 1 ? M * D * 2 : 0;
    const int lane = threadIdx.x % 32, tiles = (s.queries + M - 1) / M;
    // Those that see most keys go first.
    const int mine = tiles - 1 - (int)(blockIdx.x % tiles), head = blockIdx.x / tiles % s.heads, batch = blockIdx.x / tiles / s.heads;
    const int first = mine * M + (int)threadIdx.x / 32 * 16 * R;
    q += s.q.at(batch, head);
    k += s.k.at(batch, head / s.shared);
    v += s.v.at(batch, head / s.shared);
    const int seen = CAUSAL && (mine + 1) * M < s.keys ? (mine + 1) * M : s.keys, steps = (seen + N - 1) / N;
    const u32 begin = shared_begin(), stages = begin + own_bytes;
    auto copy = [&](int i) {
        const u32 to = stages + i % 2 * 2 * tile_bytes;
        copy_tile<T, D, EACH, N, WARPS>(to, k, s.k.row, i * N, s.keys);
        copy_tile<T, D, EACH, N, WARPS>(to + tile_bytes, v, s.v.row, i * N, s.keys);
    };
    copy(0);
    u32 a[D / 16][4];
    if (R > 1) copy_tile<T, D, EACH, M, WARPS>(begin, q, s.q.row, mine * M, s.queries);
    else load_rows<T, D, EACH>(a, q, s.q.row, first, s.queries);
    f32 o[R][D / 8][4], largest[R][2], total[R][2];
    clear(o);
#pragma unroll
    for (int r = 0; r < R; r++) largest[r][0] = largest[r][1] = minus_infinity(), total[r][0] = total[r][1] = 0;
    const f32 scale = s.scale * log2_e();
    for (int i = 0; i < steps; i++) {
        copies_end();
        __syncthreads();
        if (i + 1 < steps) copy(i + 1);
        if (CAUSAL && i * N > first + 16 * R - 1) continue;
        const u32 tile = stages + i % 2 * 2 * tile_bytes;
        f32 p[R][N / 8][4];
        clear(p);
        if constexpr (R > 1) times_rows<T, D, N, R>(p, begin + (threadIdx.x / 32 * 16 * R) * D * 2, tile);
        else times_rows<T, D, N>(p[0], a, tile);
        if ((i + 1) * N > s.keys || CAUSAL && (i + 1) * N - 1 > first) {
#pragma unroll
            for (int r = 0; r < R; r++)
#pragma unroll
                for (int n = 0; n < N / 8; n++)
#pragma unroll
                    for (int e = 0; e < 4; e++) {
                        const int key = i * N + n * 8 + lane % 4 * 2 + e % 2;
                        if (key >= s.keys || CAUSAL && key > first + r * 16 + lane / 4 + e / 2 * 8) p[r][n][e] = minus_infinity();
                    }
        }
#pragma unroll
        for (int j = 0; j < 2 * R; j++) {
            const int r = j / 2, h = j % 2;
            f32 most = largest[r][h];
#pragma unroll
            for (int n = 0; n < N / 8; n++) most = fmaxf(most, fmaxf(p[r][n][2 * h], p[r][n][2 * h + 1]));
            most = fmaxf(most, swapped(most, 1));
            most = fmaxf(most, swapped(most, 2));
            // Nothing is subtracted from rows of -inf alone.
            const f32 from = most == minus_infinity() ? 0.0f : most * scale;
            const f32 shrink = exp2_near(fmaf(largest[r][h], scale, -from));
            largest[r][h] = most;
            f32 add = 0;
#pragma unroll
            for (int n = 0; n < N / 8; n++)
#pragma unroll
                for (int e = 2 * h; e < 2 * h + 2; e++) {
                    p[r][n][e] = exp2_near(fmaf(p[r][n][e], scale, -from));
                    add += p[r][n][e];
                }
            total[r][h] = fmaf(total[r][h], shrink, add);
#pragma unroll
            for (int n = 0; n < D / 8; n++) {
                o[r][n][2 * h] *= shrink;
                o[r][n][2 * h + 1] *= shrink;
            }
        }
        times_columns<T, D, N, R>(o, p, tile + tile_bytes);
    }
#pragma unroll
    for (int r = 0; r < R; r++) {
        f32 by[2];
#pragma unroll
        for (int h = 0; h < 2; h++) {
            const f32 all = over_quad<sum>(total[r][h]);
            by[h] = 1.0f / all;
            const int row = first + r * 16 + lane / 4 + h * 8;
            if (sums && lane % 4 == 0 && row < s.queries) sums[(i64)(batch * s.heads + head) * s.queries + row] = fmaf(largest[r][h], s.scale, logf(all));
        }
        if (out) store_rows<T, D, EACH>(out + s.out.at(batch, head), s.out.row, first + r * 16, s.queries, o[r], by);
    }
}

// ---- Backward ----

// Gradients of queries: blocks as in attention_forward. Writes the products of each
// query's result and its gradient, too.
template <class T, int D, int EACH, int WARPS, int N, bool CAUSAL>
FN void attention_queries(const attention s, const T *q, const T *k, const T *v, const T *out, const f32 *sums, const T *dout, T *dq, f32 *delta) {
    constexpr int M = 16 * WARPS;
    constexpr u32 tile_bytes = N * D * 2;
    const int lane = threadIdx.x % 32, tiles = (s.queries + M - 1) / M;
    const int mine = tiles - 1 - (int)(blockIdx.x % tiles), head = blockIdx.x / tiles % s.heads, batch = blockIdx.x / tiles / s.heads;
    const int first = mine * M + (int)threadIdx.x / 32 * 16;
    k += s.k.at(batch, head / s.shared);
    v += s.v.at(batch, head / s.shared);
    const int seen = CAUSAL && (mine + 1) * M < s.keys ? (mine + 1) * M : s.keys, steps = (seen + N - 1) / N;
    const u32 begin = shared_begin();
    auto copy = [&](int i) {
        const u32 to = begin + i % 2 * 2 * tile_bytes;
        copy_tile<T, D, EACH, N, WARPS>(to, k, s.k.row, i * N, s.keys);
        copy_tile<T, D, EACH, N, WARPS>(to + tile_bytes, v, s.v.row, i * N, s.keys);
    };
    if (dq) copy(0);
    u32 a[D / 16][4], b[D / 16][4];
    load_rows<T, D, EACH>(b, dout + s.dout.at(batch, head), s.dout.row, first, s.queries);
    f32 own[2] = {0, 0}, most[2];
    {
        load_rows<T, D, EACH>(a, out + s.out.at(batch, head), s.out.row, first, s.queries);
        T two;
#pragma unroll
        for (int n = 0; n < D / 16; n++)
#pragma unroll
            for (int e = 0; e < 8; e++) {
                two.bits = (u16)(a[n][e / 2] >> e % 2 * 16);
                const f32 x = ld(two);
                two.bits = (u16)(b[n][e / 2] >> e % 2 * 16);
                own[e / 2 % 2] = fmaf(x, ld(two), own[e / 2 % 2]);
            }
    }
#pragma unroll
    for (int r = 0; r < 2; r++) {
        own[r] = over_quad<sum>(own[r]);
        const int row = first + lane / 4 + r * 8;
        const i64 at = (i64)(batch * s.heads + head) * s.queries + row;
        most[r] = row < s.queries ? sums[at] * log2_e() : 0.0f;
        if (lane % 4 == 0 && row < s.queries) delta[at] = own[r];
    }
    if (!dq) return;
    load_rows<T, D, EACH>(a, q + s.q.at(batch, head), s.q.row, first, s.queries);
    f32 c[1][D / 8][4];
    clear(c);
    const f32 scale = s.scale * log2_e();
    for (int i = 0; i < steps; i++) {
        copies_end();
        __syncthreads();
        if (i + 1 < steps) copy(i + 1);
        if (CAUSAL && i * N > first + 15) continue;
        const u32 tile = begin + i % 2 * 2 * tile_bytes;
        f32 p[1][N / 8][4], d[1][N / 8][4];
        clear(p);
        clear(d);
        times_rows<T, D, N>(p[0], a, tile);
        times_rows<T, D, N>(d[0], b, tile + tile_bytes);
        const bool masked = (i + 1) * N > s.keys || CAUSAL && (i + 1) * N - 1 > first;
#pragma unroll
        for (int n = 0; n < N / 8; n++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const f32 x = exp2_near(fmaf(p[0][n][e], scale, -most[e / 2])) * (d[0][n][e] - own[e / 2]);
                const int key = i * N + n * 8 + lane % 4 * 2 + e % 2;
                d[0][n][e] = masked && (key >= s.keys || CAUSAL && key > first + lane / 4 + e / 2 * 8) ? 0.0f : x;
            }
        times_columns<T, D, N, 1>(c, d, tile);
    }
    const f32 by[2] = {s.scale, s.scale};
    store_rows<T, D, EACH>(dq + s.dq.at(batch, head), s.dq.row, first, s.queries, c[0], by);
}

// Gradients of keys and values: a block has 16 keys for each warp, and goes over tiles of
// N queries of all heads that share the keys. With KEEP, gradients of scores are stored,
// too: for each head and key, those of the queries, padded elements apart. Those that are
// zero, for the query does not see the key, may be left out.
template <class T, int D, int EACH, int WARPS, int N, bool KEEP, bool CAUSAL>
FN void attention_keys(const attention s, const T *q, const T *k, const T *v, const f32 *sums, const T *dout, const f32 *delta, T *dk, T *dv, T *ds, int padded) {
    constexpr int M = 16 * WARPS;
    static_assert(2 * N <= 32 * WARPS, "each thread copies one number");
    constexpr u32 own_bytes = M * D * 2, tile_bytes = N * D * 2, stage_bytes = 2 * tile_bytes + (8 * N < 256 ? 256 : 8 * N);
    const int lane = threadIdx.x % 32, tiles = (s.keys + M - 1) / M, groups = s.heads / s.shared;
    const int mine = blockIdx.x % tiles, group = blockIdx.x / tiles % groups, batch = blockIdx.x / tiles / groups;
    const int first = mine * M + (int)threadIdx.x / 32 * 16;
    const u32 begin = shared_begin(), stages = begin + 2 * own_bytes;
    const int from = CAUSAL ? mine * M / N : 0, each = (s.queries + N - 1) / N - from, steps = each > 0 ? each * s.shared : 0;
    auto copy = [&](int i) {
        const u32 to = stages + i % 2 * stage_bytes;
        const int turn = s.shared == 1 ? 0 : i / each, head = group * s.shared + turn, row = (from + i - turn * each) * N;
        copy_tile<T, D, EACH, N, WARPS>(to, q + s.q.at(batch, head), s.q.row, row, s.queries);
        copy_tile<T, D, EACH, N, WARPS>(to + tile_bytes, dout + s.dout.at(batch, head), s.dout.row, row, s.queries);
        const int j = threadIdx.x % N;
        const bool there = row + j < s.queries;
        const i64 at = (i64)(batch * s.heads + head) * s.queries + (there ? row + j : 0);
        if (threadIdx.x < 2 * N) copy_async<4>(to + 2 * tile_bytes + 4 * threadIdx.x, (threadIdx.x < N ? sums : delta) + at, there);
    };
    if (steps) {
        copy(0);
        copy_tile<T, D, EACH, M, WARPS>(begin, k + s.k.at(batch, group), s.k.row, mine * M, s.keys);
        copy_tile<T, D, EACH, M, WARPS>(begin + own_bytes, v + s.v.at(batch, group), s.v.row, mine * M, s.keys);
    }
    const u32 a = begin + threadIdx.x / 32 * 16 * D * 2, b = a + own_bytes;
    f32 ck[1][D / 8][4], cv[1][D / 8][4];
    clear(ck);
    clear(cv);
    const f32 scale = s.scale * log2_e();
    for (int i = 0; i < steps; i++) {
        copies_end();
        __syncthreads();
        if (i + 1 < steps) copy(i + 1);
        const int row = (from + (s.shared == 1 ? i : i % each)) * N;
        if (CAUSAL && row + N - 1 < first) continue;
        const u32 tile = stages + i % 2 * stage_bytes;
        const f32 *numbers = (const f32 *)(shared_bytes() + (tile - begin) + 2 * tile_bytes) + lane % 4 * 2;
        f32 p[1][N / 8][4], d[1][N / 8][4];
        clear(p);
        times_rows<T, D, N, 1>(p, a, tile);
        const bool masked = CAUSAL && row < first + 15;
#pragma unroll
        for (int n = 0; n < N / 8; n++)
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const f32 x = exp2_near(fmaf(p[0][n][e], scale, -numbers[n * 8 + e % 2] * log2_e()));
                p[0][n][e] = masked && row + n * 8 + lane % 4 * 2 + e % 2 < first + lane / 4 + e / 2 * 8 ? 0.0f : x;
            }
        times_columns<T, D, N, 1>(cv, p, tile + tile_bytes);
        clear(d);
        times_rows<T, D, N, 1>(d, b, tile + tile_bytes);
#pragma unroll
        for (int n = 0; n < N / 8; n++)
#pragma unroll
            for (int e = 0; e < 4; e++) d[0][n][e] = p[0][n][e] * (d[0][n][e] - numbers[N + n * 8 + e % 2]);
        if constexpr (KEEP) {
            const int head = group * s.shared + (s.shared == 1 ? 0 : i / each);
            T *to = ds + ((i64)(batch * s.heads + head) * s.keys + first + lane / 4) * padded + row + lane % 4 * 2;
#pragma unroll
            for (int h = 0; h < 2; h++)
                if (first + lane / 4 + h * 8 < s.keys)
#pragma unroll
                    for (int n = 0; n < N / 8; n++) *(u32 *)(to + h * 8 * padded + n * 8) = pack(T(), d[0][n][2 * h], d[0][n][2 * h + 1]);
        }
        times_columns<T, D, N, 1>(ck, d, tile);
    }
    const f32 by[2] = {s.scale, s.scale}, one[2] = {1, 1};
    if (dk) store_rows<T, D, EACH>(dk + s.dk.at(batch, group), s.dk.row, first, s.keys, ck[0], by);
    if (dv) store_rows<T, D, EACH>(dv + s.dv.at(batch, group), s.dv.row, first, s.keys, cv[0], one);
}

// Products of each query's result and its gradient: a warp has a row at a time.
template <class T, int EACH> FN void attention_products(const attention s, i64 rows, const T *out, const T *dout, f32 *delta) {
    const int lane = threadIdx.x % 32;
    for (i64 row = (i64)blockIdx.x * 8 + threadIdx.x / 32; row < rows; row += (i64)gridDim.x * 8) {
        const int i = (int)(row % s.queries), head = (int)(row / s.queries % s.heads), batch = (int)(row / s.queries / s.heads);
        f32 own = 0;
        if (lane * 4 < EACH) {
            const vec<T, 4> x = *(const vec<T, 4> *)(out + s.out.at(batch, head) + i * s.out.row + lane * 4);
            const vec<T, 4> y = *(const vec<T, 4> *)(dout + s.dout.at(batch, head) + i * s.dout.row + lane * 4);
#pragma unroll
            for (int e = 0; e < 4; e++) own = fmaf(ld(x.a[e]), ld(y.a[e]), own);
        }
        own = over_row<sum, 32>(own);
        if (lane == 0) delta[row] = own;
    }
}

// Gradients of queries, of the gradients of scores that attention_keys stored: a block has
// 16 R queries for each warp and goes over tiles of N keys.
template <class T, int D, int EACH, int WARPS, int R, int N, bool CAUSAL>
FN void attention_gather(const attention s, const T *k, const T *ds, int padded, T *dq) {
    constexpr int M = 16 * R * WARPS;
    constexpr u32 score_bytes = N * M * 2, stage_bytes = score_bytes + N * D * 2;
    const int lane = threadIdx.x % 32, tiles = (s.queries + M - 1) / M, column = (int)threadIdx.x / 32 * 16 * R;
    const int mine = tiles - 1 - (int)(blockIdx.x % tiles), head = blockIdx.x / tiles % s.heads, batch = blockIdx.x / tiles / s.heads;
    const int first = mine * M + column;
    k += s.k.at(batch, head / s.shared);
    ds += (i64)(batch * s.heads + head) * s.keys * padded + mine * M;
    const int seen = CAUSAL && (mine + 1) * M < s.keys ? (mine + 1) * M : s.keys, steps = (seen + N - 1) / N;
    const u32 begin = shared_begin();
    auto copy = [&](int i) {
        const u32 to = begin + i % 2 * stage_bytes;
        copy_tile<T, M, M, N, WARPS>(to, ds, padded, i * N, s.keys);
        copy_tile<T, D, EACH, N, WARPS>(to + score_bytes, k, s.k.row, i * N, s.keys);
    };
    copy(0);
    f32 c[R][D / 8][4];
    clear(c);
    for (int i = 0; i < steps; i++) {
        copies_end();
        __syncthreads();
        if (i + 1 < steps) copy(i + 1);
        if (CAUSAL && i * N > first + 16 * R - 1) continue;
        const u32 stage = begin + i % 2 * stage_bytes;
        const u32 scores = opaque(lane_of<M>(stage)), tile = opaque(lane_of<D>(stage + score_bytes));
        const bool masked = CAUSAL && (i + 1) * N - 1 > first;
#pragma unroll
        for (int j = 0; j < N / 16; j++) {
            u32 a[R][4];
#pragma unroll
            for (int r = 0; r < R; r++) {
                u32 x[4]; // of keys 0 to 7 and 8 to 15, for queries 0 to 7, and then 8 to 15
                load_transposed(x, (scores ^ (u32)((column / 16 + r) * 32)) + j * 16 * M * 2);
                a[r][0] = x[0], a[r][1] = x[2], a[r][2] = x[1], a[r][3] = x[3];
                if (masked)
#pragma unroll
                    for (int e = 0; e < 4; e++) {
                        const int key = i * N + j * 16 + e / 2 * 8 + lane % 4 * 2, query = first + r * 16 + e % 2 * 8 + lane / 4;
                        a[r][e] = key > query ? 0 : key + 1 > query ? a[r][e] & 0xffffu : a[r][e];
                    }
            }
#pragma unroll
            for (int n = 0; n < D / 16; n++) {
                u32 b[4];
                load_transposed(b, (tile ^ n * 32) + j * 16 * D * 2);
#pragma unroll
                for (int r = 0; r < R; r++) {
                    mma(T(), c[r][2 * n], a[r], b[0], b[1]);
                    mma(T(), c[r][2 * n + 1], a[r], b[2], b[3]);
                }
            }
        }
    }
    const f32 by[2] = {s.scale, s.scale};
#pragma unroll
    for (int r = 0; r < R; r++) store_rows<T, D, EACH>(dq + s.dq.at(batch, head), s.dq.row, first + r * 16, s.queries, c[r], by);
}

// ---- For all types and sizes: a warp has a row, and each lane some of its elements ----

FN f32 e_to(f32 x) { return expf(x); }
FN f64 e_to(f64 x) { return exp(x); }
FN f32 log_of(f32 x) { return logf(x); }
FN f64 log_of(f64 x) { return log(x); }

// A number as it is between two operations.
FN f32 rounded(f32, f32 x) { return x; }
FN f64 rounded(f64, f64 x) { return x; }
FN f32 rounded(f16, f32 x) { return round_f16(x); }
FN f32 rounded(bf16, f32 x) { return round_bf16(x); }

template <class C, class T, int EACH> FN void load_lane(C (&x)[(EACH + 31) / 32], const T *from) {
    const int lane = threadIdx.x % 32;
    for (int i = 0; i < (EACH + 31) / 32; i++) x[i] = i * 32 + lane < EACH ? (C)ld(from[i * 32 + lane]) : (C)0;
}

template <class C, class T, int EACH> FN void store_lane(T *to, const C (&x)[(EACH + 31) / 32], C by) {
    const int lane = threadIdx.x % 32;
    for (int i = 0; i < (EACH + 31) / 32; i++)
        if (i * 32 + lane < EACH) st(to[i * 32 + lane], (C)(x[i] * by));
}

// Products of two rows, of which each lane has elements, added up.
template <class C, int L> FN C dot_lanes(const C (&x)[L], const C (&y)[L]) {
    C r = 0;
    for (int i = 0; i < L; i++) r += x[i] * y[i];
    return over_row<sum, 32>(r);
}

template <class T, class C, int EACH, bool CAUSAL>
FN void plain_forward(const attention s, C scale, i64 rows, const T *q, const T *k, const T *v, T *out, C *sums) {
    constexpr int L = (EACH + 31) / 32;
    for (i64 row = (i64)blockIdx.x * 8 + threadIdx.x / 32; row < rows; row += (i64)gridDim.x * 8) {
        const int i = (int)(row % s.queries), head = (int)(row / s.queries % s.heads), batch = (int)(row / s.queries / s.heads);
        const int seen = CAUSAL && i + 1 < s.keys ? i + 1 : s.keys;
        C a[L], b[L], o[L], largest = (C)minus_infinity(), total = 0;
        load_lane<C, T, EACH>(a, q + s.q.at(batch, head) + i * s.q.row);
        for (int e = 0; e < L; e++) o[e] = 0;
        for (int j = 0; j < seen; j++) {
            load_lane<C, T, EACH>(b, k + s.k.at(batch, head / s.shared) + j * s.k.row);
            const C score = dot_lanes(a, b) * scale, most = larger(largest, score);
            const C from = most == (C)minus_infinity() ? (C)0 : most, shrink = e_to(largest - from), p = e_to(score - from);
            largest = most;
            total = total * shrink + p;
            load_lane<C, T, EACH>(b, v + s.v.at(batch, head / s.shared) + j * s.v.row);
            for (int e = 0; e < L; e++) o[e] = o[e] * shrink + rounded(T(), p) * b[e];
        }
        if (out) store_lane<C, T, EACH>(out + s.out.at(batch, head) + i * s.out.row, o, (C)1 / total);
        if (sums && threadIdx.x % 32 == 0) sums[row] = largest + log_of(total);
    }
}

template <class T, class C, int EACH, bool CAUSAL>
FN void plain_queries(const attention s, C scale, i64 rows, const T *q, const T *k, const T *v, const T *out, const C *sums, const T *dout, T *dq, C *delta) {
    constexpr int L = (EACH + 31) / 32;
    for (i64 row = (i64)blockIdx.x * 8 + threadIdx.x / 32; row < rows; row += (i64)gridDim.x * 8) {
        const int i = (int)(row % s.queries), head = (int)(row / s.queries % s.heads), batch = (int)(row / s.queries / s.heads);
        const int seen = CAUSAL && i + 1 < s.keys ? i + 1 : s.keys;
        C a[L], b[L], x[L], c[L];
        load_lane<C, T, EACH>(b, dout + s.dout.at(batch, head) + i * s.dout.row);
        load_lane<C, T, EACH>(x, out + s.out.at(batch, head) + i * s.out.row);
        const C own = dot_lanes(b, x);
        if (threadIdx.x % 32 == 0) delta[row] = own;
        if (!dq) continue;
        load_lane<C, T, EACH>(a, q + s.q.at(batch, head) + i * s.q.row);
        for (int e = 0; e < L; e++) c[e] = 0;
        for (int j = 0; j < seen; j++) {
            load_lane<C, T, EACH>(x, v + s.v.at(batch, head / s.shared) + j * s.v.row);
            const C d = dot_lanes(b, x) - own;
            load_lane<C, T, EACH>(x, k + s.k.at(batch, head / s.shared) + j * s.k.row);
            const C ds = rounded(T(), e_to(dot_lanes(a, x) * scale - sums[row]) * d);
            for (int e = 0; e < L; e++) c[e] += ds * x[e];
        }
        store_lane<C, T, EACH>(dq + s.dq.at(batch, head) + i * s.dq.row, c, scale);
    }
}

template <class T, class C, int EACH, bool CAUSAL>
FN void plain_keys(const attention s, C scale, i64 rows, const T *q, const T *k, const T *v, const C *sums, const T *dout, const C *delta, T *dk, T *dv) {
    constexpr int L = (EACH + 31) / 32;
    const int groups = s.heads / s.shared;
    for (i64 row = (i64)blockIdx.x * 8 + threadIdx.x / 32; row < rows; row += (i64)gridDim.x * 8) {
        const int j = (int)(row % s.keys), group = (int)(row / s.keys % groups), batch = (int)(row / s.keys / groups);
        C a[L], b[L], x[L], y[L], ck[L], cv[L];
        load_lane<C, T, EACH>(a, k + s.k.at(batch, group) + j * s.k.row);
        load_lane<C, T, EACH>(b, v + s.v.at(batch, group) + j * s.v.row);
        for (int e = 0; e < L; e++) ck[e] = cv[e] = 0;
        for (int head = group * s.shared; head < (group + 1) * s.shared; head++)
            for (int i = CAUSAL ? j : 0; i < s.queries; i++) {
                const i64 at = (i64)(batch * s.heads + head) * s.queries + i;
                load_lane<C, T, EACH>(x, q + s.q.at(batch, head) + i * s.q.row);
                load_lane<C, T, EACH>(y, dout + s.dout.at(batch, head) + i * s.dout.row);
                const C p = e_to(dot_lanes(a, x) * scale - sums[at]);
                const C ds = rounded(T(), p * (dot_lanes(b, y) - delta[at]));
                for (int e = 0; e < L; e++) {
                    cv[e] += rounded(T(), p) * y[e];
                    ck[e] += ds * x[e];
                }
            }
        if (dk) store_lane<C, T, EACH>(dk + s.dk.at(batch, group) + j * s.dk.row, ck, scale);
        if (dv) store_lane<C, T, EACH>(dv + s.dv.at(batch, group) + j * s.dv.row, cv, (C)1);
    }
}

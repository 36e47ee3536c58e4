// ---- Resample: boxes of pictures to samples of one size ----

// An entry of the table, as resample_table.go writes it.
struct resample_axis {
    i32 in, out, first; // pixels become out, of which those from first on are kept
};

struct resample_entry {
    const u8 *src;      // the box's first pixel in reading order of the upright picture
    i64 step_x, step_y; // bytes from there to the next pixel to the right and below
    i64 at_x, at_y;     // where the weights of the axes begin, as an index of i32
    resample_axis x, y;
    i32 filter, mirror;
};

enum { BILINEAR, BICUBIC };
enum { WEIGHT_BITS = 32 - 8 - 2 }; // fraction bits of a weight

// Every product and sum rounds apart, as on the host.
static __device__ __forceinline__ double filter_value(i32 filter, double x) {
    x = fabs(x);
    if (filter == BILINEAR) {
        return x < 1 ? __dsub_rn(1, x) : 0;
    }
    if (x < 1) {
        const double t = __dsub_rn(__dmul_rn(1.5, x), 2.5);
        return __dadd_rn(__dmul_rn(__dmul_rn(t, x), x), 1);
    }
    if (x < 2) {
        const double t = __dadd_rn(__dmul_rn(__dsub_rn(x, 5), x), 8);
        return __dmul_rn(__dsub_rn(__dmul_rn(t, x), 4), -0.5);
    }
    return 0;
}

// The weights of an axis of n outputs: n first source pixels, n counts, and
// then the weights, weight t of output i at t*n + i. A thread has an output.
extern "C" __global__ void resample_weights(const resample_entry *list, i32 *weights, i64 images, i32 width, i32 height) {
    for (i64 job = blockIdx.y; job < 2 * images; job += gridDim.y) {
        const resample_entry *e = list + job / 2;
        const bool across = job % 2 == 0;
        const i32 in = across ? e->x.in : e->y.in;
        const i32 out = across ? e->x.out : e->y.out;
        const i32 origin = across ? e->x.first : e->y.first;
        const i32 n = across ? width : height;
        const i32 filter = e->filter;
        i32 *lows = weights + (across ? e->at_x : e->at_y), *counts = lows + n, *w = counts + n;

        const double scale = __ddiv_rn(in, out);
        const double stretch = scale < 1 ? 1 : scale; // of the filter
        const double support = filter == BICUBIC ? __dmul_rn(2, stretch) : stretch;
        const double inverse = __ddiv_rn(1, stretch);
        for (i64 i = first(); i < n; i += stride()) {
            const double center = __dmul_rn(__dadd_rn((double)(origin + i), 0.5), scale);
            i32 low = (i32)__dadd_rn(__dsub_rn(center, support), 0.5);
            i32 high = (i32)__dadd_rn(__dadd_rn(center, support), 0.5);
            low = low < 0 ? 0 : low;
            high = high > in ? in : high;
            double sum = 0;
#pragma unroll 1
            for (i32 j = low; j < high; j++) {
                const double x = __dmul_rn(__dadd_rn(__dsub_rn(j, center), 0.5), inverse);
                sum = __dadd_rn(sum, filter_value(filter, x));
            }
            lows[i] = low;
            counts[i] = high - low;
#pragma unroll 1
            for (i32 j = low; j < high; j++) {
                const double x = __dmul_rn(__dadd_rn(__dsub_rn(j, center), 0.5), inverse);
                double v = filter_value(filter, x);
                v = sum != 0 ? __ddiv_rn(v, sum) : v;
                w[(i64)(j - low) * n + i] = (i32)__dadd_rn(__dmul_rn(v, 1 << WEIGHT_BITS), v < 0 ? -0.5 : 0.5);
            }
        }
    }
}

static __device__ __forceinline__ u32 clip(i32 sum) {
    sum >>= WEIGHT_BITS;
    return sum < 0 ? 0 : sum > 255 ? 255 : sum;
}

// A thread block of 8 warps makes a tile of 32 x 32 outputs. It scales the
// source rows under the tile horizontally to bytes in shared memory, ROWS at a
// time, and adds them up vertically: so it holds a tile of any scale.
extern "C" __global__ void __launch_bounds__(256) resample(u8 *dst, const resample_entry *list, const i32 *weights,
                                                           i64 images, i32 width, i32 height) {
    const i32 SIDE = 32, WARPS = 8, ROWS = 64;
    const i32 TOGETHER = 4;        // rows that a thread scales at a time, with one load of each weight
    const i32 EACH = SIDE / WARPS; // outputs of a thread
    const i32 HALF = 1 << (WEIGHT_BITS - 1); // rounds a sum to nearest
    __shared__ u32 lines[ROWS][SIDE];
    const i32 lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const i64 across = (width + SIDE - 1) / SIDE;
    const i64 tiles = across * ((height + SIDE - 1) / SIDE);
    for (i64 image = blockIdx.y; image < images; image += gridDim.y) {
        const resample_entry *e = list + image;
        const i64 step_x = e->step_x, step_y = e->step_y;
        const i32 *low_x = weights + e->at_x, *weight_x = low_x + 2 * width;
        const i32 *low_y = weights + e->at_y, *weight_y = low_y + 2 * height;
        for (i64 tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
            // Threads behind the right edge work on the last column.
            const i32 x = (i32)(tile % across) * SIDE + lane;
            const i32 column = x < width ? x : width - 1;
            const i32 taps = low_x[width + column];
            const u8 *src = e->src + low_x[column] * step_x;

            const i32 y0 = (i32)(tile / across) * SIDE;
            const i32 y_last = y0 + SIDE < height ? y0 + SIDE - 1 : height - 1;
            const i32 row_end = low_y[y_last] + low_y[height + y_last];
            i32 sum[EACH][3];
#pragma unroll
            for (i32 k = 0; k < EACH; k++) {
                sum[k][0] = sum[k][1] = sum[k][2] = HALF;
            }
            for (i32 row0 = low_y[y0]; row0 < row_end; row0 += ROWS) {
                const i32 rows = row_end - row0 < ROWS ? row_end - row0 : ROWS;
                __syncthreads(); // the rows before are used up
                for (i32 r = warp; r < rows; r += WARPS * TOGETHER) {
                    const u8 *p[TOGETHER];
                    i32 v[TOGETHER][3];
#pragma unroll
                    for (i32 k = 0; k < TOGETHER; k++) {
                        const i32 row = r + k * WARPS;
                        p[k] = src + (row0 + (row < rows ? row : r)) * step_y;
                        v[k][0] = v[k][1] = v[k][2] = HALF;
                    }
                    for (i32 t = 0; t < taps; t++) {
                        const i32 w = weight_x[(i64)t * width + column];
#pragma unroll
                        for (i32 k = 0; k < TOGETHER; k++) {
                            v[k][0] += p[k][0] * w;
                            v[k][1] += p[k][1] * w;
                            v[k][2] += p[k][2] * w;
                            p[k] += step_x;
                        }
                    }
#pragma unroll
                    for (i32 k = 0; k < TOGETHER; k++) {
                        const i32 row = r + k * WARPS;
                        if (row < rows) {
                            lines[row][lane] = clip(v[k][0]) | clip(v[k][1]) << 8 | clip(v[k][2]) << 16;
                        }
                    }
                }
                __syncthreads();
#pragma unroll
                for (i32 k = 0; k < EACH; k++) {
                    const i32 y = y0 + warp + k * WARPS;
                    if (y > y_last) {
                        continue;
                    }
                    const i32 low = low_y[y], high = low + low_y[height + y];
                    const i32 end = high < row0 + rows ? high : row0 + rows;
                    for (i32 row = low > row0 ? low : row0; row < end; row++) {
                        const i32 w = weight_y[(i64)(row - low) * height + y];
                        const u32 pixel = lines[row - row0][lane];
                        sum[k][0] += (i32)(pixel & 0xffu) * w;
                        sum[k][1] += (i32)(pixel >> 8 & 0xffu) * w;
                        sum[k][2] += (i32)(pixel >> 16) * w;
                    }
                }
            }
            const i32 to = e->mirror ? width - 1 - x : x;
#pragma unroll
            for (i32 k = 0; k < EACH; k++) {
                const i32 y = y0 + warp + k * WARPS;
                if (x < width && y <= y_last) {
                    u8 *out = dst + ((image * height + y) * width + to) * 3;
                    out[0] = (u8)clip(sum[k][0]);
                    out[1] = (u8)clip(sum[k][1]);
                    out[2] = (u8)clip(sum[k][2]);
                }
            }
        }
    }
}

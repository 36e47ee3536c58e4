// ---- Normalize with colours and mixing ----
//
// Colours are changed on floats in [0,1], as torchvision's ColorJitter does on
// float tensors, operation by operation. Every product and sum rounds apart.

struct rgb {
    float r, g, b;
};

// An entry of the table, as colour.go writes it. Byte k of order is the
// operation that comes as number k.
struct colour {
    float brightness, contrast, saturation, hue;
    u32 order, unused;
};

enum { BRIGHTNESS, CONTRAST, SATURATION, HUE };

static __device__ __forceinline__ float clamp01(float x) { return x > 0 ? x < 1 ? x : 1 : 0; }

static __device__ __forceinline__ float grey(rgb p) {
    return __fadd_rn(__fadd_rn(__fmul_rn(0.2989f, p.r), __fmul_rn(0.587f, p.g)), __fmul_rn(0.114f, p.b));
}

// ratio of p and the rest of the same grey.
static __device__ __forceinline__ rgb blend(rgb p, float ratio, float other) {
    const float rest = __double2float_rn(__dsub_rn(1, ratio));
    const float add = __fmul_rn(rest, other);
    return {clamp01(__fadd_rn(__fmul_rn(ratio, p.r), add)),
            clamp01(__fadd_rn(__fmul_rn(ratio, p.g), add)),
            clamp01(__fadd_rn(__fmul_rn(ratio, p.b), add))};
}

// v * (1 - part), within [0,1].
static __device__ __forceinline__ float less(float v, float part) {
    return clamp01(__fmul_rn(v, __fsub_rn(1, part)));
}

// Turns the hue by a part of the circle, by way of HSV.
static __device__ __forceinline__ rgb turn(rgb p, float by) {
    const float high = fmaxf(fmaxf(p.r, p.g), p.b), low = fminf(fminf(p.r, p.g), p.b);
    const float range = __fsub_rn(high, low);
    float s = 0, h = 0;
    if (range != 0) {
        s = __fdiv_rn(range, high);
        const bool red = p.r == high, green = !red && p.g == high;
        const float sixths = red ? 0 : green ? 2 : 4; // of the circle, to the highest channel
        const float after = red ? p.b : green ? p.r : p.g, before = red ? p.g : green ? p.b : p.r;
        h = __fadd_rn(sixths, __fdiv_rn(__fsub_rn(high, after), range));
        h = __fsub_rn(h, __fdiv_rn(__fsub_rn(high, before), range));
        h = __fadd_rn(__fdiv_rn(h, 6), 1);
        h = h >= 1 ? __fsub_rn(h, 1) : h;
    }
    h = __fadd_rn(h, by);
    h = __fmul_rn(__fsub_rn(h, floorf(h)), 6);
    const float sector = floorf(h), f = __fsub_rn(h, sector);
    const float v = high;
    const float down = less(v, __fmul_rn(s, f)), up = less(v, __fmul_rn(s, __fsub_rn(1, f))), least = less(v, s);
    switch ((i32)sector) {
    case 1:
        return {down, v, least};
    case 2:
        return {least, v, up};
    case 3:
        return {least, down, v};
    case 4:
        return {up, least, v};
    case 5:
        return {v, least, down};
    default: // 0, and 6 where the hue was rounded up to 1
        return {v, up, least};
    }
}

// Operations whose factor changes nothing are left out.
static __device__ __forceinline__ rgb change(rgb p, const colour &c, i32 operation, float mean) {
    if (operation == BRIGHTNESS && c.brightness != 1) {
        p = blend(p, c.brightness, 0);
    } else if (operation == CONTRAST && c.contrast != 1) {
        p = blend(p, c.contrast, mean);
    } else if (operation == SATURATION && c.saturation != 1) {
        p = blend(p, c.saturation, grey(p));
    } else if (operation == HUE && c.hue != 0 && c.hue >= -0.5f && c.hue <= 0.5f) {
        p = turn(p, c.hue);
    }
    return p;
}

// The largest sample of a type, which counts as 1.
template <class From>
static __device__ __forceinline__ float largest() {
    return (From)~0u;
}

template <class From>
static __device__ __forceinline__ rgb load_rgb(const From *src) {
    const float one = largest<From>();
    return {__fdiv_rn(src[0], one), __fdiv_rn(src[1], one), __fdiv_rn(src[2], one)};
}

// The sum of the grey of an image as contrast finds it, with 24 fraction bits:
// integers, so that their order does not matter. sums are zero before.
template <class From>
static __device__ __forceinline__ void sum_colours(u64 *sums, const From *src, const colour *colours,
                                                   i64 images, i64 pixels) {
    for (i64 n = blockIdx.y; n < images; n += gridDim.y) {
        const colour c = colours[n];
        if (c.contrast == 1) {
            continue;
        }
        u64 sum = 0;
        for (i64 i = first(); i < pixels; i += stride()) {
            rgb p = load_rgb(src + (n * pixels + i) * 3);
#pragma unroll 1
            for (u32 order = c.order, k = 0; k < 4 && (order & 0xff) != CONTRAST; k++, order >>= 8) {
                p = change(p, c, order & 0xff, 0);
            }
            sum += __float2uint_rn(__fmul_rn(grey(p), 1 << 24));
        }
        for (i32 half = 16; half > 0; half /= 2) {
            sum += __shfl_down_sync(0xffffffffu, sum, half);
        }
        if (threadIdx.x % 32 == 0) {
            atomicAdd(sums + n, sum);
        }
    }
}

#define SUMS(name, From)                                                                                   \
    extern "C" __global__ void name(u64 *sums, const From *src, const colour *colours,                     \
                                    i64 images, i64 pixels) {                                              \
        sum_colours(sums, src, colours, images, pixels);                                                   \
    }

SUMS(colour_sums, u8)
SUMS(colour_sums_from_u16, u16)

// What happens to the colours of one image.
struct recolour {
    colour c;
    float mean;
};

static __device__ __forceinline__ recolour load_recolour(const colour *colours, const u64 *sums, i64 n, i64 pixels) {
    recolour by = {};
    if (colours != 0) {
        by.c = colours[n];
        by.mean = __double2float_rn(__ddiv_rn((double)sums[n], __dmul_rn((double)pixels, 1 << 24)));
    }
    return by;
}

// Loads the three channels of a pixel, counted from 0 to the largest sample,
// with their colours changed.
template <class From>
static __device__ __forceinline__ void load_recoloured(float (&v)[4], const From *src, const recolour &by) {
    rgb p = load_rgb(src);
#pragma unroll 1
    for (u32 order = by.c.order, k = 0; k < 4; k++, order >>= 8) {
        p = change(p, by.c, order & 0xff, by.mean);
    }
    const float one = largest<From>();
    v[0] = __fmul_rn(p.r, one);
    v[1] = __fmul_rn(p.g, one);
    v[2] = __fmul_rn(p.b, one);
}

// Image n is mixed with the one half a batch on, lambda of it with the rest of
// that. A lambda of 1, or none, is no mixing. A thread has a pixel at a time.
template <class To, class From>
static __device__ __forceinline__ void augment(void *dst, const From *src, const colour *colours, const u64 *sums,
                                               const float *mix, i64 images, i64 pixels, i32 channels,
                                               const float (&scale)[4], const float (&bias)[4]) {
    typedef typename To::word word;
    for (i64 n = blockIdx.y; n < images; n += gridDim.y) {
        const float lambda = mix ? mix[n] : 1;
        const bool mixed = lambda >= 0 && lambda < 1;
        const i64 partner = (n + images / 2) % images;
        const recolour own = load_recolour(colours, sums, n, pixels);
        const recolour other = load_recolour(colours, sums, partner, pixels);
        for (i64 i = first(); i < pixels; i += stride()) {
            float x[4] = {0, 0, 0, 0};
            recolour by = own;
#pragma unroll 1
            for (i32 pass = 0; pass <= mixed; pass++) {
                const From *in = src + ((pass ? partner : n) * pixels + i) * channels;
                float v[4] = {0, 0, 0, 0};
                if (colours != 0) {
                    load_recoloured(v, in, by);
                } else {
#pragma unroll
                    for (i32 c = 0; c < 4; c++) {
                        v[c] = c < channels ? in[c] : 0;
                    }
                }
                const float share = pass ? __fsub_rn(1, lambda) : lambda;
#pragma unroll
                for (i32 c = 0; c < 4; c++) {
                    const float y = __fadd_rn(__fmul_rn(v[c], scale[c]), bias[c]);
                    x[c] = !mixed ? y : pass ? __fadd_rn(x[c], __fmul_rn(share, y)) : __fmul_rn(share, y);
                }
                by = other;
            }
            word *out = (word *)dst + n * channels * pixels + i;
#pragma unroll
            for (i32 c = 0; c < 4; c++) {
                if (c < channels) {
                    out[c * pixels] = (word)To::rounded(x[c]);
                }
            }
        }
    }
}

#define AUGMENT(name, To, From)                                                                            \
    extern "C" __global__ void name(void *dst, const From *src, const colour *colours, const u64 *sums,    \
                                    const float *mix, i64 images, i64 pixels, i32 channels,                \
                                    float s0, float s1, float s2, float s3,                                \
                                    float b0, float b1, float b2, float b3) {                              \
        const float scale[4] = {s0, s1, s2, s3};                                                           \
        const float bias[4] = {b0, b1, b2, b3};                                                            \
        augment<To>(dst, src, colours, sums, mix, images, pixels, channels, scale, bias);                  \
    }

AUGMENT(augment_u8, to_u8, u8)
AUGMENT(augment_f16, to_f16, u8)
AUGMENT(augment_bf16, to_bf16, u8)
AUGMENT(augment_f32, to_f32, u8)
AUGMENT(augment_u16_from_u16, to_u16, u16)
AUGMENT(augment_f16_from_u16, to_f16, u16)
AUGMENT(augment_bf16_from_u16, to_bf16, u16)
AUGMENT(augment_f32_from_u16, to_f32, u16)

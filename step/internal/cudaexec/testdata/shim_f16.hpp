// What the prelude has as instructions of the device.
static float f32_of(f16 x) {
    u32 sign = (u32)(x.bits & 0x8000u) << 16, e = (x.bits >> 10) & 31, m = x.bits & 1023;
    if (e == 31) return __uint_as_float(sign | 0x7f800000u | m << 13);
    float v = e == 0 ? ldexpf((float)m, -24) : ldexpf((float)(m | 1024), (int)e - 25);
    return sign ? -v : v;
}

static f16 f16_of(float x) {
    f16 r;
    u32 b = __float_as_uint(x);
    u16 sign = (u16)(b >> 16 & 0x8000u);
    float a = fabsf(x);
    if (x != x) r.bits = 0x7e00;
    else if (a >= 65520.0f) r.bits = sign | 0x7c00;
    else if (a < 6.103515625e-05f) r.bits = sign | (u16)rintf(ldexpf(a, 24));
    else {
        u32 c = __float_as_uint(a);
        c += 0xfffu + (c >> 13 & 1u);
        r.bits = sign | (u16)((c >> 13) - (112u << 10));
    }
    return r;
}

static float number_f16_(unsigned bits) { return f32_of(f16{(u16)bits}); }
static unsigned pack_bf16(float low, float high) { return bf16_of(low).bits | (u32)bf16_of(high).bits << 16; }
static unsigned pack_f16(float low, float high) { return f16_of(low).bits | (u32)f16_of(high).bits << 16; }

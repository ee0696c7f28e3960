#version 460
// Conversion between any two types: FROM and TO choose, by the place of the code in `CODES` of build.py;
// push.k holds the bytes of an element of TO and FROM.
#include "map.glsl"
layout(constant_id = 1) const uint FROM = 0;
layout(constant_id = 2) const uint TO = 0;

#define FIRST_SIGNED 5
#define FIRST_FLOAT 9
#define DOUBLE 12

uint64_t load_integer(uint64_t p) {
    switch (FROM) {
        case 0: return uint64_t(load_b1(p));
        case 1: return uint64_t(load_u8(p));
        case 2: return uint64_t(load_u16(p));
        case 3: return uint64_t(load_u32(p));
        case 5: return uint64_t(int64_t(load_i8(p)));
        case 6: return uint64_t(int64_t(load_i16(p)));
        case 7: return uint64_t(int64_t(load_i32(p)));
        default: return load_u64(p);
    }
}
float load_float(uint64_t p) { return FROM == 9 ? load_f16(p) : FROM == 10 ? load_bf16(p) : load_f32(p); }

void store_integer(uint64_t p, uint64_t v) {
    switch (TO) {
        case 0: store_b1(p, v != 0UL); break;
        case 1: case 5: store_u8(p, uint(v)); break;
        case 2: case 6: store_u16(p, uint(v)); break;
        case 3: case 7: store_u32(p, uint(v)); break;
        default: store_u64(p, v);
    }
}
void store_float(uint64_t p, float v) {
    if (TO == 9) store_f16(p, v);
    else if (TO == 10) store_bf16(p, v);
    else store_f32(p, v);
}
#ifdef USE_F64
// Rounded to odd: a second rounding to a shorter type is then right.
float narrowed(double v) {
    float f = float(v);
    if (TO == 11 || double(f) == v || is_nan(v) || is_inf(f)) return f;
    uint bits = floatBitsToUint(f);
    if ((bits & 1u) == 1u) return f;
    bool above = abs(double(f)) > abs(v);
    return uintBitsToFloat(above ? bits - 1u : bits + 1u);
}
#endif

void convert(uint64_t to, uint64_t from) {
    if (FROM < FIRST_FLOAT) {
        uint64_t v = load_integer(from);
        if (TO < FIRST_FLOAT) store_integer(to, v);
#ifdef USE_F64
        else if (TO == DOUBLE) store_f64(to, FROM >= FIRST_SIGNED ? double(int64_t(v)) : double(v));
#endif
        else store_float(to, FROM >= FIRST_SIGNED ? float(int64_t(v)) : float(v));
        return;
    }
#ifdef USE_F64
    if (FROM == DOUBLE) {
        double v = load_f64(from);
        if (TO == DOUBLE) store_f64(to, v);
        else if (TO == 0) store_b1(to, v != 0.0lf);
        else if (TO >= FIRST_FLOAT) store_float(to, narrowed(v));
        else store_integer(to, TO < FIRST_SIGNED && v > 0.0lf ? uint64_t(v) : uint64_t(int64_t(v)));
        return;
    }
#endif
    float v = load_float(from);
    if (TO == 0) store_b1(to, v != 0.0);
#ifdef USE_F64
    else if (TO == DOUBLE) store_f64(to, double(v));
#endif
    else if (TO >= FIRST_FLOAT) store_float(to, v);
    else store_integer(to, TO < FIRST_SIGNED && v > 0.0 ? uint64_t(v) : uint64_t(int64_t(v)));
}

// Between float types of up to four bytes.
void convert_four(uint i) {
    uint64_t to = push.p[0] + uint64_t(i) * (4 * push.k.x), from = push.p[1] + uint64_t(i) * (4 * push.k.y);
    if (!WHOLE(i)) {
        for (uint k = 0; 4u * i + k < push.n; ++k) convert(to + k * push.k.x, from + k * push.k.y);
        return;
    }
    uvec4 bits = load_four_bits(from, FROM == 11 ? 4u : 2u);
    [[unroll]] for (uint k = 0; k < 4; ++k) {
        float v = FROM == 9 ? value_f16(bits[k]) : FROM == 10 ? value_bf16(bits[k]) : value_f32(bits[k]);
        bits[k] = TO == 9 ? bits_f16(v) : TO == 10 ? bits_bf16(v) : bits_f32(v);
    }
    store_four_bits(to, TO == 11 ? 4u : 2u, bits);
}

void main() {
    if (RANK == FOURS) {
        EACH_FOUR(i) convert_four(i);
        return;
    }
    EACH(i) {
        ivec4 at = locate(i);
        convert(push.p[0] + int64_t(at.x) * push.k.x, push.p[1] + int64_t(at.y) * push.k.y);
    }
}

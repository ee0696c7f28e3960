// Element types: loads and stores by address. Small and half types are only stored; arithmetic is in 32 bits or more.
#extension GL_EXT_buffer_reference : require
#extension GL_EXT_shader_explicit_arithmetic_types_int64 : require
#extension GL_EXT_shader_8bit_storage : require
#extension GL_EXT_shader_16bit_storage : require
#extension GL_EXT_control_flow_attributes : require

layout(buffer_reference, std430, buffer_reference_align = 1) buffer R_u8 { uint8_t v; };
layout(buffer_reference, std430, buffer_reference_align = 1) buffer R_i8 { int8_t v; };
layout(buffer_reference, std430, buffer_reference_align = 2) buffer R_u16 { uint16_t v; };
layout(buffer_reference, std430, buffer_reference_align = 2) buffer R_i16 { int16_t v; };
layout(buffer_reference, std430, buffer_reference_align = 4) buffer R_u32 { uint v; };
layout(buffer_reference, std430, buffer_reference_align = 4) buffer R_i32 { int v; };
layout(buffer_reference, std430, buffer_reference_align = 4) buffer R_f32 { float v; };
layout(buffer_reference, std430, buffer_reference_align = 8) buffer R_u64 { uint64_t v; };
layout(buffer_reference, std430, buffer_reference_align = 8) buffer R_i64 { int64_t v; };
layout(buffer_reference, std430, buffer_reference_align = 8) buffer R_s8 { uvec2 v; };
layout(buffer_reference, std430, buffer_reference_align = 16) buffer R_s16 { uvec4 v; };

#define INF uintBitsToFloat(0x7f800000u)
#define NAN uintBitsToFloat(0x7fc00000u)

// Tests on bits, which no optimiser may assume away.
bool is_nan(float x) { return (floatBitsToUint(x) & 0x7fffffffu) > 0x7f800000u; }
bool is_inf(float x) { return (floatBitsToUint(x) & 0x7fffffffu) == 0x7f800000u; }
bool is_nan(int x) { return false; }
bool is_nan(uint x) { return false; }
bool is_nan(int64_t x) { return false; }
bool is_nan(uint64_t x) { return false; }

// Half precision in integer arithmetic: the rounding of the hardware's conversion is not specified.
float half_to_float(uint h) {
    uint magnitude = h & 0x7fffu;
    uint sign = (h & 0x8000u) << 16;
    if (magnitude < 0x400u) {
        float tiny = float(magnitude) * 5.9604644775390625e-8;
        return uintBitsToFloat(floatBitsToUint(tiny) | sign);
    }
    uint bits = (magnitude << 13) + (magnitude >= 0x7c00u ? 0x70000000u : 0x38000000u);
    return uintBitsToFloat(bits | sign);
}
uint round_shift(uint x, uint by) {  // to nearest, ties to even
    if (by > 31u) return 0u;
    uint rest = x & ((1u << by) - 1u), tie = 1u << (by - 1u), q = x >> by;
    return q + uint(rest > tie || (rest == tie && (q & 1u) == 1u));
}
uint float_to_half(float x) {
    uint bits = floatBitsToUint(x), sign = (bits >> 16) & 0x8000u;
    bits &= 0x7fffffffu;
    if (bits > 0x7f800000u) return sign | 0x7e00u;
    if (bits >= 0x47800000u) return sign | 0x7c00u;
    if (bits >= 0x38800000u) return sign | round_shift(bits - 0x38000000u, 13u);
    uint exponent = bits >> 23;
    return sign | round_shift((bits & 0x7fffffu) | (exponent == 0u ? 0u : 0x800000u), 126u - max(exponent, 1u));
}
uint float_to_brain(float x) {
    uint bits = floatBitsToUint(x);
    return is_nan(x) ? (bits >> 16) | 0x40u : round_shift(bits, 16u);
}

uint load_b1(uint64_t p) { return uint(R_u8(p).v); }
void store_b1(uint64_t p, uint v) { R_u8(p).v = uint8_t(v != 0u ? 1u : 0u); }
void store_b1(uint64_t p, bool v) { R_u8(p).v = uint8_t(v ? 1u : 0u); }
uint load_u8(uint64_t p) { return uint(R_u8(p).v); }
void store_u8(uint64_t p, uint v) { R_u8(p).v = uint8_t(v); }
int load_i8(uint64_t p) { return int(R_i8(p).v); }
void store_i8(uint64_t p, int v) { R_i8(p).v = int8_t(v); }
uint load_u16(uint64_t p) { return uint(R_u16(p).v); }
void store_u16(uint64_t p, uint v) { R_u16(p).v = uint16_t(v); }
int load_i16(uint64_t p) { return int(R_i16(p).v); }
void store_i16(uint64_t p, int v) { R_i16(p).v = int16_t(v); }
uint load_u32(uint64_t p) { return R_u32(p).v; }
void store_u32(uint64_t p, uint v) { R_u32(p).v = v; }
int load_i32(uint64_t p) { return R_i32(p).v; }
void store_i32(uint64_t p, int v) { R_i32(p).v = v; }
uint64_t load_u64(uint64_t p) { return R_u64(p).v; }
void store_u64(uint64_t p, uint64_t v) { R_u64(p).v = v; }
int64_t load_i64(uint64_t p) { return R_i64(p).v; }
void store_i64(uint64_t p, int64_t v) { R_i64(p).v = v; }
float load_f32(uint64_t p) { return R_f32(p).v; }
void store_f32(uint64_t p, float v) { R_f32(p).v = v; }
float load_f16(uint64_t p) { return half_to_float(uint(R_u16(p).v)); }
void store_f16(uint64_t p, float v) { R_u16(p).v = uint16_t(float_to_half(v)); }
float load_bf16(uint64_t p) { return uintBitsToFloat(uint(R_u16(p).v) << 16); }
void store_bf16(uint64_t p, float v) { R_u16(p).v = uint16_t(float_to_brain(v)); }

// Plain bytes, for kernels that only move data.
uint load_s1(uint64_t p) { return uint(R_u8(p).v); }
void store_s1(uint64_t p, uint v) { R_u8(p).v = uint8_t(v); }
uint load_s2(uint64_t p) { return uint(R_u16(p).v); }
void store_s2(uint64_t p, uint v) { R_u16(p).v = uint16_t(v); }
uint load_s4(uint64_t p) { return R_u32(p).v; }
void store_s4(uint64_t p, uint v) { R_u32(p).v = v; }
uvec2 load_s8(uint64_t p) { return R_s8(p).v; }
void store_s8(uint64_t p, uvec2 v) { R_s8(p).v = v; }
uvec4 load_s16(uint64_t p) { return R_s16(p).v; }
void store_s16(uint64_t p, uvec4 v) { R_s16(p).v = v; }

// Elements as the bits they have in memory, for kernels that load several at once.
uint value_u8(uint b) { return b; }
uint value_u16(uint b) { return b; }
uint value_u32(uint b) { return b; }
int value_i8(uint b) { return int(b << 24) >> 24; }
int value_i16(uint b) { return int(b << 16) >> 16; }
int value_i32(uint b) { return int(b); }
uint value_b1(uint b) { return b; }
uint value_s1(uint b) { return b; }
uint value_s2(uint b) { return b; }
uint value_s4(uint b) { return b; }
float value_f32(uint b) { return uintBitsToFloat(b); }
float value_f16(uint b) { return half_to_float(b); }
float value_bf16(uint b) { return uintBitsToFloat(b << 16); }
uint bits_u8(uint v) { return v & 0xffu; }
uint bits_u16(uint v) { return v & 0xffffu; }
uint bits_u32(uint v) { return v; }
uint bits_i8(int v) { return uint(v) & 0xffu; }
uint bits_i16(int v) { return uint(v) & 0xffffu; }
uint bits_i32(int v) { return uint(v); }
uint bits_b1(uint v) { return v != 0u ? 1u : 0u; }
uint bits_s1(uint v) { return v; }
uint bits_s2(uint v) { return v; }
uint bits_s4(uint v) { return v; }
uint bits_f32(float v) { return floatBitsToUint(v); }
uint bits_f16(float v) { return float_to_half(v) & 0xffffu; }
uint bits_bf16(float v) { return float_to_brain(v) & 0xffffu; }

// The bits of four neighbouring elements of `size` bytes, as one load or store.
uvec4 load_four_bits(uint64_t p, uint size) {
    if (size == 4u) return R_s16(p).v;
    if (size == 2u) {
        uvec2 q = R_s8(p).v;
        return uvec4(q.x & 0xffffu, q.x >> 16, q.y & 0xffffu, q.y >> 16);
    }
    uint q = R_u32(p).v;
    return uvec4(q, q >> 8, q >> 16, q >> 24) & 0xffu;
}
void store_four_bits(uint64_t p, uint size, uvec4 v) {
    if (size == 4u) R_s16(p).v = v;
    else if (size == 2u) R_s8(p).v = uvec2(v.x | v.y << 16, v.z | v.w << 16);
    else R_u32(p).v = v.x | v.y << 8 | v.z << 16 | v.w << 24;
}

#ifdef USE_F64
layout(buffer_reference, std430, buffer_reference_align = 8) buffer R_f64 { double v; };
double load_f64(uint64_t p) { return R_f64(p).v; }
void store_f64(uint64_t p, double v) { R_f64(p).v = v; }
bool is_nan(double x) {
    uvec2 bits = unpackDouble2x32(x);
    uint high = bits.y & 0x7fffffffu;
    return high > 0x7ff00000u || (high == 0x7ff00000u && bits.x != 0u);
}
bool is_inf(double x) {
    uvec2 bits = unpackDouble2x32(x);
    return (bits.y & 0x7fffffffu) == 0x7ff00000u && bits.x == 0u;
}
#define DOUBLE_NAN packDouble2x32(uvec2(0u, 0x7ff80000u))
#endif

// T is the element type's code, C the type of arithmetic, SIZE the bytes of an element (set by the build's table).
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define LOAD(base, offset) JOIN(load_, T)((base) + int64_t(offset) * SIZE)
#define STORE(base, offset, value) JOIN(store_, T)((base) + int64_t(offset) * SIZE, value)

#version 460
// The frame of generated kernels: a straight line of elementwise operations in one pass, four elements a thread.
// `chain` below only keeps the functions in the module; fusion.py puts calls of some of them in its place.
#include "maths.glsl"
#include "activations.glsl"
layout(local_size_x = 256) in;
layout(constant_id = 0) const uint INPUTS = 1;
layout(constant_id = 1) const uint OUTPUTS = 1;
layout(constant_id = 2) const uint FLAGS = 0;      // bit i: input i is bool
layout(constant_id = 3) const uint SINGLE = 0;     // bit i: input i is one number for all
layout(constant_id = 4) const uint OUT_FLAGS = 0;  // bit i: output i is bool

layout(push_constant, std430) uniform Push {
    uint64_t in_[8];
    uint64_t out_[4];
    uint n, mask;
} push;

// Truth values are 1.0 and 0.0 between operations. A comparison of a value with itself would be known to the compiler,
// and what some compilers make of a factor or divisor that is known to be 0 is not what IEEE says; so the value passes
// through a mask that only the host knows.
#define MASK 0x2545f491u
float truth(bool c) { return uintBitsToFloat((c ? 0x3f800000u ^ MASK : MASK) ^ push.mask); }
float f_neg(float x) { return uintBitsToFloat(floatBitsToUint(x) ^ 0x80000000u); }
float f_abs(float x) { return uintBitsToFloat(floatBitsToUint(x) & 0x7fffffffu); }
float f_sign(float x) { return is_nan(x) ? x : sign(x); }
float f_floor(float x) { return floor(x); }
float f_sqrt(float x) { return own_sqrt(x); }
float f_exp(float x) { return own_exp(x); }
float f_expm1(float x) { return own_expm1(x); }
float f_log(float x) { return own_log(x); }
float f_log1p(float x) { return own_log1p(x); }
float f_sin(float x) { return own_sin(x); }
float f_cos(float x) { return own_cos(x); }
float f_tanh(float x) { return own_tanh(x); }
float f_erf(float x) { return own_erf(x); }
float f_isnan(float x) { return truth(is_nan(x)); }
float f_copy(float x) { return x; }
float f_truth(float x) { return truth(x != 0.0); }
float f_add(float x, float y) { precise float r = x + y; return r; }
float f_sub(float x, float y) { precise float r = x - y; return r; }
float f_mul(float x, float y) { precise float r = x * y; return r; }
float f_div(float x, float y) { return divide(x, y); }
float f_floordiv(float x, float y) { return own_floordiv(x, y); }
float f_pow(float x, float y) { return own_pow(x, y); }
float f_atan2(float x, float y) { return own_atan2(x, y); }
float f_maximum(float x, float y) { return is_nan(x) || is_nan(y) ? NAN : x > y ? x : y; }
float f_minimum(float x, float y) { return is_nan(x) || is_nan(y) ? NAN : x > y ? y : x; }
float f_eq(float x, float y) { return truth(!is_nan(x) && !is_nan(y) && x == y); }
float f_lt(float x, float y) { return truth(!is_nan(x) && !is_nan(y) && x < y); }
float f_both(float x, float y) { return truth(x != 0.0 && y != 0.0); }
float f_either(float x, float y) { return truth(x != 0.0 || y != 0.0); }
float f_differ(float x, float y) { return truth((x != 0.0) != (y != 0.0)); }
float f_where(float c, float x, float y) { return c != 0.0 ? x : y; }
float f_relu(float x) { return relu(x); }
float f_relu_vjp(float g, float y) { return y > 0.0 ? g : 0.0; }
float f_sigmoid(float x) { return sigmoid(x); }
float f_silu(float x) { return silu(x); }
float f_gelu(float x) { return gelu(x); }
float f_gelu_tanh(float x) { return gelu_tanh(x); }

void chain(inout float x[8], inout float y[4]) {
    float a = x[0], b = x[1];
    a = f_neg(a) + f_abs(a) + f_sign(a) + f_floor(a) + f_sqrt(a) + f_exp(a) + f_expm1(a) + f_log(a) + f_log1p(a);
    a = f_sin(a) + f_cos(a) + f_tanh(a) + f_erf(a) + f_isnan(a) + f_copy(a) + f_truth(a) + f_add(a, b) + f_sub(a, b);
    a = f_mul(a, b) + f_div(a, b) + f_floordiv(a, b) + f_pow(a, b) + f_atan2(a, b) + f_maximum(a, b) + f_minimum(a, b);
    a = f_eq(a, b) + f_lt(a, b) + f_both(a, b) + f_either(a, b) + f_differ(a, b) + f_where(a, b, a) + f_relu(a);
    y[0] = a + f_relu_vjp(a, b) + f_sigmoid(a) + f_silu(a) + f_gelu(a) + f_gelu_tanh(a);
}

float load(uint k, uint64_t at) {
    return (FLAGS >> k & 1u) != 0u ? float(load_b1(push.in_[k] + at)) : load_f32(push.in_[k] + at * 4);
}

void main() {
    for (uint i = gl_GlobalInvocationID.x; i < (push.n + 3u) / 4u; i += gl_NumWorkGroups.x * 256u) {
        bool whole = 4u * i + 4u <= push.n;
        float x[4][8], y[4][4];
        for (uint k = 0; k < INPUTS; ++k) {
            bool one = (SINGLE >> k & 1u) != 0u, flag = (FLAGS >> k & 1u) != 0u;
            if (one || !whole) {
                for (uint c = 0; c < 4; ++c) x[c][k] = load(k, one ? 0u : min(4u * i + c, push.n - 1u));
                continue;
            }
            uvec4 bits = load_four_bits(push.in_[k] + uint64_t(i) * (flag ? 4u : 16u), flag ? 1u : 4u);
            for (uint c = 0; c < 4; ++c) x[c][k] = flag ? float(bits[c]) : uintBitsToFloat(bits[c]);
        }
        for (uint c = 0; c < 4; ++c) chain(x[c], y[c]);
        for (uint k = 0; k < OUTPUTS; ++k) {
            bool flag = (OUT_FLAGS >> k & 1u) != 0u;
            uvec4 bits;
            for (uint c = 0; c < 4; ++c) bits[c] = flag ? uint(y[c][k] != 0.0) : floatBitsToUint(y[c][k]);
            uint64_t to = push.out_[k] + uint64_t(i) * (flag ? 4u : 16u);
            if (whole) store_four_bits(to, flag ? 1u : 4u, bits);
            else for (uint c = 0; 4u * i + c < push.n; ++c) {
                if (flag) store_b1(to + c, bits[c]);
                else store_u32(to + c * 4, bits[c]);
            }
        }
    }
}

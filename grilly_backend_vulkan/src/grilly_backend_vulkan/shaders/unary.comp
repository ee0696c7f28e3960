#version 460
// Elementwise functions of one operand: OP chooses.
#include "map.glsl"
#include "maths.glsl"
layout(constant_id = 1) const uint OP = 0;

#if defined(KIND_f)
#ifdef USE_F64
double apply(double x) {
    if (OP == 0) return -x;
    if (OP == 1) return abs(x);
    if (OP == 2) return is_nan(x) ? x : sign(x);
    if (OP == 3) return floor(x);
    return sqrt(x);
}
#else
float apply(float x) {
    if (OP == 0) return uintBitsToFloat(floatBitsToUint(x) ^ 0x80000000u);
    if (OP == 1) return uintBitsToFloat(floatBitsToUint(x) & 0x7fffffffu);
    if (OP == 2) return is_nan(x) ? x : sign(x);
    if (OP == 3) return floor(x);
    if (OP == 4) return own_sqrt(x);
    if (OP == 5) return own_exp(x);
    if (OP == 6) return own_expm1(x);
    if (OP == 7) return own_log(x);
    if (OP == 8) return own_log1p(x);
    if (OP == 9) return own_sin(x);
    if (OP == 10) return own_cos(x);
    if (OP == 11) return own_tanh(x);
    return own_erf(x);
}
#endif
#else
C apply(C x) {
    if (OP == 0) return C(0) - x;
    if (OP == 3) return x;
#ifdef KIND_u
    return OP == 1 ? x : x == C(0) ? C(0) : C(1);
#else
    if (OP == 1) return x < C(0) ? C(0) - x : x;
    return x > C(0) ? C(1) : x < C(0) ? C(0) - C(1) : C(0);
#endif
}
#endif

void main() {
#if SIZE <= 4
    if (RANK == FOURS) {
        EACH_FOUR(i) {
            C x[4];
            load_four(1, i, x);
            [[unroll]] for (uint k = 0; k < 4; ++k) x[k] = apply(x[k]);
            store_four(i, x);
        }
        return;
    }
#endif
    EACH(i) {
        ivec4 at = locate(i);
        STORE(push.p[0], at.x, apply(LOAD(push.p[1], at.y)));
    }
}

#version 460
// Elementwise functions of two operands: OP chooses.
#include "map.glsl"
#include "maths.glsl"
layout(constant_id = 1) const uint OP = 0;

#if defined(KIND_f)
#ifdef USE_F64
double apply(double x, double y) {
    if (OP == 0) return x + y;
    if (OP == 1) return x - y;
    if (OP == 2) return x * y;
    if (OP == 3) return x / y;
    if (OP == 4) {
        double q = x / y, f = floor(q), rest = fma(-f, y, x);
        if (is_nan(x) || is_nan(y) || is_inf(x) && y != 0.0lf) return DOUBLE_NAN;
        if (y == 0.0lf) return q;
        if (is_inf(y)) return x != 0.0lf && (x < 0.0lf) != (y < 0.0lf) ? -1.0lf : q;
        if (is_nan(rest) || abs(f) > 4e15lf) return f;
        return rest != 0.0lf && (rest < 0.0lf) != (y < 0.0lf) ? f - 1.0lf : f;
    }
    if (is_nan(x) || is_nan(y)) return DOUBLE_NAN;
    return (OP == 6) == (x > y) ? x : y;
}
#else
float apply(float x, float y) {
    if (OP == 0) return x + y;
    if (OP == 1) return x - y;
    if (OP == 2) return x * y;
    if (OP == 3) return divide(x, y);
    if (OP == 4) return own_floordiv(x, y);
    if (OP == 5) return own_pow(x, y);
    if (OP == 8) return own_atan2(x, y);
    if (is_nan(x) || is_nan(y)) return NAN;
    return (OP == 6) == (x > y) ? x : y;
}
#endif
#else
C power(C x, C y) {
#ifndef KIND_u
    if (y < C(0)) return x == C(1) ? C(1) : x == C(-1) ? ((y & C(1)) == C(0) ? C(1) : C(-1)) : C(0);
#endif
    C result = C(1);
    for (; y != C(0); y >>= 1) {
        if ((y & C(1)) != C(0)) result *= x;
        x *= x;
    }
    return result;
}
C floor_quotient(C x, C y) {
    if (y == C(0)) return C(0);
#ifdef KIND_u
    return x / y;
#else
    if (y == C(-1)) return C(0) - x;  // the smallest number divided by -1 wraps round
    C q = x / y;
    return (x - q * y) != C(0) && (x < C(0)) != (y < C(0)) ? q - C(1) : q;
#endif
}
C apply(C x, C y) {
    if (OP == 0) return x + y;
    if (OP == 1) return x - y;
    if (OP == 2) return x * y;
    if (OP == 4) return floor_quotient(x, y);
    if (OP == 5) return power(x, y);
    if (OP == 6) return x > y ? x : y;
    if (OP == 7) return x < y ? x : y;
    if (OP == 9) return x & y;
    if (OP == 10) return x | y;
    if (OP == 11) return x ^ y;
    if (OP == 12) return x << uint(y);
    return x >> uint(y);
}
#endif

void main() {
#if SIZE <= 4
    if (RANK == FOURS) {
        EACH_FOUR(i) {
            C x[4], y[4];
            load_four(1, i, x);
            load_four(2, i, y);
            [[unroll]] for (uint k = 0; k < 4; ++k) x[k] = apply(x[k], y[k]);
            store_four(i, x);
        }
        return;
    }
#endif
    EACH(i) {
        ivec4 at = locate(i);
        STORE(push.p[0], at.x, apply(LOAD(push.p[1], at.y), LOAD(push.p[2], at.z)));
    }
}

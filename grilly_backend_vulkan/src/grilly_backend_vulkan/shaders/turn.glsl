// Points on the unit circle at fractions of a turn: reduced in integers, so exact up to the polynomials' last bit.
#include "types.glsl"

// (cos, sin) of 2 pi m / n for m <= n < 2^28.
vec2 turn(uint m, uint n) {
    uint u = 8u * m;  // in eighths of 1/n turn
    bool below = u > 4u * n;
    if (below) u = 8u * n - u;
    bool left = u > 2u * n;
    if (left) u = 4u * n - u;
    bool steep = u > n;
    if (steep) u = 2u * n - u;
    float x = float(u) * (0.785398163397448310 / float(n)), y = x * x;  // at most pi / 4
    float s = x + x * y * (-1.6666654611e-1 + y * (8.3321608736e-3 + y * -1.9515295891e-4));
    float c = 1.0 - 0.5 * y + y * y * (4.166664568298827e-2 + y * (-1.388731625493765e-3 + y * 2.443315711809948e-5));
    vec2 p = steep ? vec2(s, c) : vec2(c, s);
    return vec2(left ? -p.x : p.x, below ? -p.y : p.y);
}
vec2 times(vec2 a, vec2 b) { return vec2(a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x); }

layout(buffer_reference, std430, buffer_reference_align = 8) buffer Complexes { vec2 v; };
vec2 load_c(uint64_t p, uint64_t i) { return Complexes(p + i * 8u).v; }
void store_c(uint64_t p, uint64_t i, vec2 z) { Complexes(p + i * 8u).v = z; }

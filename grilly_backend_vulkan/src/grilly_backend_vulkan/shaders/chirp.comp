#version 460
// What surrounds the convolution by which Bluestein's method makes a Fourier transform of any length n:
// jk = (j^2 + k^2 - (k - j)^2) / 2. Rows are `padded` long.
// MODE 0: x times the conjugate chirp, then zeros; 1: the chirp as a period; 2: rows times one row;
// 3: back to n, times the conjugate chirp and the factor.
#include "turn.glsl"
layout(local_size_x = 256) in;
layout(constant_id = 0) const uint MODE = 0;
layout(constant_id = 1) const bool INVERSE = false;
layout(push_constant, std430) uniform Push {
    uint64_t to, from, row;
    uint n, inner, padded, rows;  // rows = outer * inner
    float scale;
} push;

vec2 chirp(uint j) {  // exp(pi i j^2 / n)
    return turn(uint(uint64_t(j) * j % (2u * push.n)), 2u * push.n);
}
vec2 conjugate(vec2 z) { return vec2(z.x, -z.y); }
uint64_t outside(uint r, uint j) {
    uint outer = r / push.inner;
    return (uint64_t(outer) * push.n + j) * push.inner + (r - outer * push.inner);
}

void main() {
    uint length_ = MODE == 3 ? push.n : push.padded;
    uint64_t all = uint64_t(MODE == 1 ? 1u : push.rows) * length_, step = uint64_t(gl_NumWorkGroups.x) * 256u;
    for (uint64_t t = uint64_t(gl_WorkGroupID.x) * 256u + gl_LocalInvocationID.x; t < all; t += step) {
        uint r = uint(t / length_), j = uint(t - uint64_t(r) * length_);
        if (MODE == 0) {
            vec2 z = vec2(0.0);
            if (j < push.n) {
                z = load_c(push.from, outside(r, j));
                z = times(INVERSE ? z.yx : z, conjugate(chirp(j)));
            }
            store_c(push.to, t, z);
        } else if (MODE == 1) {
            uint near = min(j, push.padded - j);
            store_c(push.to, t, near < push.n ? chirp(near) : vec2(0.0));
        } else if (MODE == 2) {
            store_c(push.to, t, times(load_c(push.from, t), load_c(push.row, j)));
        } else {
            vec2 z = push.scale * times(load_c(push.from, uint64_t(r) * push.padded + j), conjugate(chirp(j)));
            store_c(push.to, outside(r, j), INVERSE ? z.yx : z);
        }
    }
}

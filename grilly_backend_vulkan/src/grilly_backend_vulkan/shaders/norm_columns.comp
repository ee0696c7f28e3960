#version 460
// Sums over rows of g * (x - mean) * rstd and of g, for parts of the rows: gradients of weight and bias.
#include "lanes.glsl"
layout(push_constant, std430) uniform Push {
    uint64_t weight, bias, g, x, mean, rstd;  // no mean, no bias: 0
    uint rows, terms, chunks, chunk;
} push;

void main() {
    uint all = push.terms * push.chunks;
    for (uint w = gl_GlobalInvocationID.x; w < all; w += gl_NumWorkGroups.x * 256u) {
        uint c = w / push.terms, j = w - c * push.terms;
        uint end = min((c + 1u) * push.chunk, push.rows);
        vec2 along = vec2(0.0), plain = vec2(0.0);
        for (uint r = c * push.chunk; r < end; ++r) {
            int64_t i = (int64_t(r) * push.terms + j) * 4;
            float g = load_f32(push.g + i), mean = push.mean == 0 ? 0.0 : load_f32(push.mean + uint64_t(r) * 4);
            add_to(along, g * (load_f32(push.x + i) - mean) * load_f32(push.rstd + uint64_t(r) * 4));
            add_to(plain, g);
        }
        store_f32(push.weight + uint64_t(w) * 4, total_of(along));
        if (push.bias != 0) store_f32(push.bias + uint64_t(w) * 4, total_of(plain));
    }
}

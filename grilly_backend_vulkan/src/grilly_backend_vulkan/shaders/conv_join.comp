#version 460
// Adds up the parts (part, group, tap, out, in) that conv_matrix.comp made of a weight's gradient, in order, into
// (group, out, in, tap) of the gradient's own type.
#include "types.glsl"
layout(local_size_x = 256) in;
layout(push_constant, std430) uniform Push {
    uint64_t to, from;
    uint groups, taps, pairs, chunks;  // pairs of channels of a group
} push;

void main() {
    uint all = push.groups * push.taps * push.pairs, step = gl_NumWorkGroups.x * 256u;
    for (uint i = gl_GlobalInvocationID.x; i < all; i += step) {
        float sum = 0.0;
        for (uint c = 0u; c < push.chunks; ++c) sum += load_f32(push.from + (uint64_t(c) * all + i) * 4u);
        uint q = i / push.pairs, pair = i - q * push.pairs, group = q / push.taps;
        STORE(push.to, (group * push.pairs + pair) * push.taps + (q - group * push.taps), sum);
    }
}

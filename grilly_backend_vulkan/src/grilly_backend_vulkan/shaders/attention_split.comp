#version 460
// Lines of f32, of any strides, as sums of PARTS factors of bf16: each part is what rounding left of those before it, and
// the parts of a line follow each other.
#include "types.glsl"
layout(local_size_x = 256) in;
layout(constant_id = 0) const bool WIDE = false;  // eight neighbours are aligned
layout(push_constant, std430) uniform Push {
    uint64_t to, from;
    uint eights, total;       // of a line, and of all
    uint heads, positions;
    int step_[4];             // of batch, head, position and element
} push;
layout(buffer_reference, std430, buffer_reference_align = 16) readonly buffer Quads { vec4 v; };
layout(buffer_reference, std430, buffer_reference_align = 16) writeonly buffer Words { uvec4 v; };

void main() {
    for (uint t = gl_GlobalInvocationID.x; t < push.total; t += gl_NumWorkGroups.x * 256u) {
        uint line = t / push.eights, q = t - line * push.eights;
        uint row = line / push.positions, position = line - row * push.positions;
        uint batch = row / push.heads, head = row - batch * push.heads;
        int64_t at = int64_t(batch) * push.step_[0] + int64_t(head) * push.step_[1]
            + int64_t(position) * push.step_[2] + int64_t(q) * 8 * push.step_[3];
        uint64_t from = push.from + at * 4;
        float x[8];
        [[unroll]] for (uint j = 0u; j < 8u; ++j)
            x[j] = WIDE ? Quads(from + j / 4u * 16u).v[j % 4u] : load_f32(from + int64_t(j) * push.step_[3] * 4);
        uint64_t to = push.to + (uint64_t(line) * push.eights * PARTS + q) * 16u;
        [[unroll]] for (uint p = 0u; p < PARTS; ++p) {
            uvec4 part = uvec4(0u);
            [[unroll]] for (uint j = 0u; j < 8u; ++j) {
                uint bits = float_to_brain(x[j]);
                part[j / 2u] |= bits << 16u * (j % 2u);
                x[j] -= uintBitsToFloat(bits << 16);
                if (is_nan(x[j]) || is_inf(x[j])) x[j] = 0.0;  // of an infinity nothing is left
            }
            Words(to + uint64_t(p * push.eights) * 16u).v = part;
        }
    }
}

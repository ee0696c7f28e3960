#version 460
// Lines of any strides to lines that cooperative matrices read: neighbours adjacent, length a multiple of 16 bytes,
// filled up with zeros. f32 becomes bf16, or (PARTS 3) three factors in a row: the nearest bf16 twice, and the nearest to
// what that leaves at place LOW of the three. The products of [low high high] and [high low high] then sum to nearly
// that of f32 in one longer sum.
#include "types.glsl"
layout(local_size_x = 256) in;
layout(constant_id = 0) const bool WIDE = false;  // FROM f32: eight neighbours are aligned, and all inside
layout(constant_id = 1) const uint PARTS = 1;
layout(constant_id = 2) const uint LOW = 0;
layout(push_constant, std430) uniform Push {
    uint64_t to, from;
    uint lines, given, items, quads, batch;  // lines made, and those that there are; quads of 16 bytes in one made
    uint pitch, part;                   // quads between lines of the output, and between its parts
    int line_step, step;
    uint size[2];                       // of the batch's inner two axes, innermost first
    int batch_step[3];
} push;
layout(buffer_reference, std430, buffer_reference_align = 16) readonly buffer Quads { vec4 v[2]; };
layout(buffer_reference, std430, buffer_reference_align = 16) writeonly buffer Words { uvec4 v; };

const uint EACH = SIZE == 1 ? 16 : 8;  // elements of a quad

#ifdef SPLIT
void fill_quad(uint64_t from, uint have, out uvec4 high, out uvec4 low) {
    float x[8];
    if (WIDE && have > 0u) {
        vec4 u = Quads(from).v[0], v = Quads(from).v[1];
        [[unroll]] for (uint j = 0u; j < 4u; ++j) { x[j] = u[j]; x[j + 4u] = v[j]; }
    } else {
        [[unroll]] for (uint j = 0u; j < 8u; ++j) x[j] = j < have ? load_f32(from + int64_t(j) * push.step * 4) : 0.0;
    }
    [[unroll]] for (uint j = 0u; j < 4u; ++j) {
        uint a = float_to_brain(x[2u * j]), b = float_to_brain(x[2u * j + 1u]);
        high[j] = a | b << 16;
        // What is left of an infinity is not a number, and nothing: the nearest is all there is to it.
        float p = x[2u * j] - uintBitsToFloat(a << 16), q = x[2u * j + 1u] - uintBitsToFloat(b << 16);
        low[j] = (is_nan(p) || is_inf(p) ? 0u : float_to_brain(p)) | (is_nan(q) || is_inf(q) ? 0u : float_to_brain(q)) << 16;
    }
}
#else
void fill_quad(uint64_t from, uint have, out uvec4 high, out uvec4 low) {
    const uint per_word = EACH / 4u;
    low = uvec4(0u);
    [[unroll]] for (uint j = 0u; j < 4u; ++j) {
        high[j] = 0u;
        [[unroll]] for (uint i = 0u; i < per_word; ++i) {
            uint e = j * per_word + i;
            if (e < have) high[j] |= JOIN(load_, T)(from + int64_t(e) * push.step * SIZE) << (8u * SIZE * i);
        }
    }
}
#endif

void main() {
    uint total = push.lines * push.quads * push.batch;
    for (uint t = gl_GlobalInvocationID.x; t < total; t += gl_NumWorkGroups.x * 256u) {
        uint line = t / push.quads, q = t - line * push.quads, place = line / push.lines;
        line -= place * push.lines;
        uint j = place / push.size[0], x = place - j * push.size[0], z = j / push.size[1], y = j - z * push.size[1];
        int64_t at = int64_t(x) * push.batch_step[0] + int64_t(y) * push.batch_step[1] + int64_t(z) * push.batch_step[2]
            + int64_t(line) * push.line_step + int64_t(q * EACH) * push.step;
        uvec4 high, low;
        fill_quad(push.from + at * SIZE, line < push.given ? push.items - min(push.items, q * EACH) : 0u, high, low);
        uint64_t first = uint64_t(place) * push.lines * push.quads;
        if (PARTS == 3u) first *= 3u;  // not `* PARTS`: SPIR-V 1.3 cannot widen a constant chosen later
        uint64_t to = push.to + (first + line * push.pitch + q) * 16u;
        [[unroll]] for (uint i = 0u; i < PARTS; ++i)
            Words(to + uint64_t(i * push.part) * 16u).v = PARTS == 3u && i == LOW ? low : high;
    }
}

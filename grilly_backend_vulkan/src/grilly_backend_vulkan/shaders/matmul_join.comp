#version 460
// Sums the f32 parts of a product in order, and finishes them: bias of the columns, activation, residual.
#include "matmul_finish.glsl"
layout(local_size_x = 256) in;
layout(constant_id = 0) const uint ACTIVATION = 0;
layout(constant_id = 1) const bool WIDE = true;  // columns are a multiple of 4, and parts aligned to 16 bytes
layout(push_constant, std430) uniform Push {
    uint64_t to, parts, bias, residual;
    uint count, chunks, columns;  // elements of the output
} push;
layout(buffer_reference, std430, buffer_reference_align = 16) readonly buffer Quads { vec4 v; };

void put(uint i, float value) {
    if (push.bias != 0) value += LOAD(push.bias, i % push.columns);
    value = activated(value, ACTIVATION);
    if (push.residual != 0) value = with_kept(value, LOAD(push.residual, i), ACTIVATION);
    STORE(push.to, i, value);
}
void main() {
    const uint width = WIDE ? 4u : 1u;
    for (uint i = gl_GlobalInvocationID.x * width; i < push.count; i += gl_NumWorkGroups.x * 256u * width) {
        vec4 sum = vec4(0.0);
        for (uint part = 0u; part < push.chunks; ++part) {
            uint64_t at = push.parts + (uint64_t(part) * push.count + i) * 4u;
            if (WIDE) sum += Quads(at).v;
            else sum.x += load_f32(at);
        }
        [[unroll]] for (uint j = 0u; j < width; ++j) put(i + j, sum[j]);
    }
}

#version 460
// Random words: each thread makes the four of a block.
#include "types.glsl"
#include "philox.glsl"
layout(local_size_x = 64) in;
layout(push_constant, std430) uniform Push {
    uint64_t to, state, relative;
    uint size, blocks;
} push;

void main() {
    uvec2 key;
    uint64_t offset = philox_start(push.state, push.relative, key);
    for (uint b = gl_GlobalInvocationID.x; b < push.blocks; b += gl_NumWorkGroups.x * 64u) {
        uvec4 words = philox(offset + uint64_t(b), key);
        uint count = min(4u, push.size - 4u * b);
        for (uint j = 0u; j < count; ++j) store_u32(push.to + (uint64_t(b) * 4 + j) * 4, words[j]);
    }
}

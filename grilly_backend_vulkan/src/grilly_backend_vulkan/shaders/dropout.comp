#version 460
// Keep element i if random word i is at least the limit, and scale what is kept.
#include "types.glsl"
#include "philox.glsl"
layout(local_size_x = 64) in;
layout(push_constant, std430) uniform Push {
    uint64_t to, x, state, relative;
    uint size, blocks, limit;
    float scale;
} push;

void main() {
    uvec2 key;
    uint64_t offset = philox_start(push.state, push.relative, key);
    for (uint b = gl_GlobalInvocationID.x; b < push.blocks; b += gl_NumWorkGroups.x * 64u) {
        uvec4 words = philox(offset + uint64_t(b), key);
        uint count = min(4u, push.size - 4u * b);
        for (uint j = 0u; j < count; ++j) {
            int64_t i = int64_t(b) * 4 + j;
            STORE(push.to, i, words[j] < push.limit ? 0.0 : LOAD(push.x, i) * push.scale);
        }
    }
}

#version 460
// Philox4x32-10: each thread makes the four words of a block.
#include "types.glsl"
layout(local_size_x = 64) in;
layout(push_constant, std430) uniform Push {
    uint64_t to, state, relative;
    uint size, blocks;
} push;

void main() {
    uint key0 = load_u32(push.state), key1 = load_u32(push.state + 4);
    uint64_t offset = packUint2x32(uvec2(load_u32(push.state + 8), load_u32(push.state + 12))) + push.relative;
    for (uint b = gl_GlobalInvocationID.x; b < push.blocks; b += gl_NumWorkGroups.x * 64u) {
        uvec4 w = uvec4(unpackUint2x32(offset + uint64_t(b)), 0u, 0u);
        uint k0 = key0, k1 = key1;
        for (uint round = 0u; round < 10u; ++round) {
            uint h0, l0, h1, l1;
            umulExtended(w.x, 0xD2511F53u, h0, l0);
            umulExtended(w.z, 0xCD9E8D57u, h1, l1);
            w = uvec4(h1 ^ w.y ^ k0, l1, h0 ^ w.w ^ k1, l0);
            k0 += 0x9E3779B9u;
            k1 += 0xBB67AE85u;
        }
        uint count = min(4u, push.size - 4u * b);
        uint64_t p = push.to + uint64_t(b) * 16;
        for (uint j = 0u; j < count; ++j) store_u32(p + uint64_t(j) * 4, w[j]);
    }
}

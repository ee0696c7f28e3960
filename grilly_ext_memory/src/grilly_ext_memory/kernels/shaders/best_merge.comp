#version 460
// The best of entries that parts have left, or only of those queries that are flagged.
#define THREADS 256
#define EACH 4
#include "types.glsl"
layout(push_constant, std430) uniform Push {
    uint64_t values, positions, entries;
    uint queries, wanted, parts;
    uint64_t flags;
} push;
#include "best.glsl"

void main() {
    uint query = group_index();
    if (query >= push.queries || (push.flags != 0 && load_u32(push.flags + uint64_t(query) * 4u) == 0u)) return;
    begin_best();
    uint count = push.parts * push.wanted;
    for (uint first = 0u; first < count; first += THREADS * EACH) {
        uint64_t given[EACH];
        [[unroll]] for (uint e = 0u; e < EACH; ++e) {
            uint i = first + e * THREADS + gl_LocalInvocationIndex;
            given[e] = i < count ? load_u64(entry_at(query, 0u, i)) : NOTHING;
        }
        if (first == 0u) offer_first(given);
        else offer(given);
    }
    end_best(query, 0u);
}

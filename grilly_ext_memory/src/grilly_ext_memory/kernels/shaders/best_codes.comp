#version 460
// The best coded rows for one query, of a slice of a list that it probes: a row scores the sum of the entries of a
// table that its codes pick, in order.
#define THREADS 256
#define EACH 1
#include "types.glsl"
layout(push_constant, std430) uniform Push {
    uint64_t values, positions, entries;
    uint queries, wanted, parts;
    uint64_t tables, codes, mask, offsets, probes;
    uint rows, bytes, width, mask_rows, lists, probed, slices;
} push;
#include "best.glsl"
#include "lists.glsl"
layout(constant_id = 5) const uint HELD = 1;       // numbers of a table; 1 if shared memory does not hold them
layout(constant_id = 6) const bool WORDS = false;  // codes are whole words
shared float table_[HELD];

float picked(uint64_t table, uint m, uint code) {
    uint i = m * push.width + min(code, push.width - 1u);
    return HELD > 1u ? table_[i] : load_f32(table + uint64_t(i) * 4u);
}
float total_of(uint64_t table, uint row) {
    uint64_t at = push.codes + uint64_t(row) * push.bytes;
    precise float total = 0.0;
    if (WORDS) {
        for (uint m = 0u; m < push.bytes; m += 4u) {
            uint word = load_u32(at + m);
            [[unroll]] for (uint b = 0u; b < 4u; ++b) total += picked(table, m + b, word >> 8u * b & 0xffu);
        }
    } else {
        for (uint m = 0u; m < push.bytes; ++m) total += picked(table, m, load_u8(at + m));
    }
    return total;
}

void main() {
    uint group = group_index(), part = group % push.parts, query = group / push.parts;
    if (query >= push.queries) return;
    begin_best();
    uvec2 range = range_of(query, part);
    uint64_t table = push.tables
        + (uint64_t(query) * push.probed + part / push.slices) * push.bytes * push.width * 4u;
    if (range.x < range.y)
        for (uint i = gl_LocalInvocationIndex; HELD > 1u && i < HELD; i += THREADS)
            table_[i] = load_f32(table + uint64_t(i) * 4u);
    barrier();
    for (uint first = range.x; first < range.y; first += THREADS) {
        uint row = first + gl_LocalInvocationIndex;
        uint64_t given[1] = uint64_t[1](NOTHING);
        if (row < range.y && allowed(query, row)) {
            float total = total_of(table, row);
            if (!is_nan(total)) given[0] = entry_of(number_of(NEGATE ? -total : total), row);
        }
        offer(given);
    }
    end_best(query, part);
}

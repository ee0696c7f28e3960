#version 460
// The rows of a part that differ from a query in the fewest bits.
#define THREADS 256
#define EACH 1
#include "types.glsl"
layout(push_constant, std430) uniform Push {
    uint64_t values, positions, entries;
    uint queries, wanted, parts;
    uint64_t from, to, mask;
    uint rows, words, mask_rows;
} push;
#include "best.glsl"
layout(constant_id = 5) const bool WIDE = false;  // rows are whole groups of four words

uint apart(uint64_t query, uint64_t row) {
    uint count = 0u;
    if (WIDE) {
        for (uint w = 0u; w < push.words; w += 4u) {
            ivec4 bits = bitCount(R_s16(query + w * 4u).v ^ R_s16(row + w * 4u).v);
            count += uint(bits.x + bits.y + bits.z + bits.w);
        }
    } else {
        for (uint w = 0u; w < push.words; ++w)
            count += uint(bitCount(load_u32(query + w * 4u) ^ load_u32(row + w * 4u)));
    }
    return count;
}

void main() {
    uint group = group_index(), part = group % push.parts, query = group / push.parts;
    if (query >= push.queries) return;
    begin_best();
    uint each = (push.rows + push.parts - 1u) / push.parts;
    uint start = min(part * each, push.rows), stop = min(start + each, push.rows);
    for (uint first = start; first < stop; first += THREADS) {
        uint row = first + gl_LocalInvocationIndex;
        uint64_t given[1] = uint64_t[1](NOTHING), size = uint64_t(push.words) * 4u;
        bool there = row < stop
            && (push.mask == 0 || load_b1(push.mask + uint64_t(query) * push.mask_rows + row) != 0u);
        if (there) given[0] = entry_of(apart(push.from + query * size, push.to + row * size), row);
        offer(given);
    }
    end_best(query, part);
}

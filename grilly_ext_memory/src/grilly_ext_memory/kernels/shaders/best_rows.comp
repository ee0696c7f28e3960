#version 460
// The best rows for one query, of a part of all rows, or of a slice of a list that it probes.
#define THREADS 128
#define COLUMNS 16
#define EACH 1
#define QUERIES 1
#define FIRST_ID 5
#include "types.glsl"
layout(push_constant, std430) uniform Push {
    uint64_t values, positions, entries;
    uint queries, wanted, parts;
    uint64_t from, to, mask, offsets, probes, flags;
    uint rows, width, mask_rows, lists, probed, slices;
} push;
#include "best.glsl"
#include "exact.glsl"
#include "lists.glsl"

uint query, first_row;
uint64_t row_at(uint i) { return push.to + (uint64_t(first_row) + i) * push.width * 4u; }
uint64_t query_at(uint r) { return push.from + uint64_t(query) * push.width * 4u; }

void main() {
    uint group = group_index(), part = group % push.parts;
    query = group / push.parts;
    if (query >= push.queries || (push.flags != 0 && load_u32(push.flags + uint64_t(query) * 4u) == 0u)) return;
    begin_best();
    uvec2 range = range_of(query, part);
    for (first_row = range.x; first_row < range.y; first_row += THREADS) {
        float found[1];
        score_rows(min(THREADS, range.y - first_row), push.width, found);
        uint row = first_row + gl_LocalInvocationIndex;
        uint64_t given[1] = uint64_t[1](NOTHING);
        if (row < range.y && !is_nan(found[0]) && allowed(query, row)) given[0] = entry_of(number_of(found[0]), row);
        offer(given);
    }
    end_best(query, part);
}

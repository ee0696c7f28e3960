#version 460
// Scores of some queries with THREADS rows: `faiss.distances`, and what few queries are searched by.
#define THREADS 128
#define COLUMNS 32
#define FIRST_ID 1
#include "types.glsl"
layout(local_size_x = THREADS) in;
layout(constant_id = 0) const uint QUERIES = 1;
#include "exact.glsl"
layout(push_constant, std430) uniform Push { uint64_t scores, from, to; uint queries, rows, width; } push;

uint first_row, first_query;
uint64_t row_at(uint i) { return push.to + (uint64_t(first_row) + i) * push.width * 4u; }
uint64_t query_at(uint r) { return push.from + uint64_t(min(first_query + r, push.queries - 1u)) * push.width * 4u; }

void main() {
    uint across = (push.queries + QUERIES - 1u) / QUERIES;
    uint group = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
    first_query = group % across * QUERIES;  // neighbours share rows
    first_row = group / across * THREADS;
    if (first_row >= push.rows) return;
    float found[QUERIES];
    score_rows(min(THREADS, push.rows - first_row), push.width, found);
    uint row = first_row + gl_LocalInvocationIndex;
    if (row >= push.rows) return;
    [[unroll]] for (uint r = 0u; r < QUERIES; ++r) {
        if (first_query + r >= push.queries) continue;
        uint64_t at = uint64_t(first_query + r) * push.rows + row;
        store_f32(push.scores + at * 4u, METRIC == INNER ? -found[r] : found[r]);
    }
}

#version 460
// Lower bounds of the scores of some queries with all rows, from sums in float32: one pass over the rows at the speed
// of memory. Some lanes share a row, so that they read neighbours, and each has several rows under way; pieces of sums
// are joined in shared memory. NaN marks what is never near; a bound is -infinity where nothing is known.
#include "types.glsl"
layout(local_size_x = 256) in;
layout(constant_id = 0) const uint METRIC = 0;
layout(constant_id = 1) const bool WIDE = true;    // four columns are aligned, and wholly inside a row
layout(constant_id = 2) const uint QUERIES = 1;    // of a pass
layout(constant_id = 3) const uint TURNS = 8;      // rows of a lane
layout(constant_id = 4) const uint LANES = 8;      // of a row
layout(push_constant, std430) uniform Push { uint64_t bounds, from, to; uint queries, rows, width; float slack; } push;
const uint EUCLID = 1, INNER = 2, COSINE = 3, CITY = 4;
const uint TOGETHER = 256 / LANES, COLUMNS = QUERIES > 8 ? 256 : 512;
const bool LENGTHS = METRIC == INNER || METRIC == COSINE;  // of rows are the last sum, those of queries come apart
const uint SUMS = LENGTHS ? QUERIES + 1 : QUERIES;

shared vec4 held[QUERIES * COLUMNS / 4];
shared float pieces[TOGETHER * TURNS * (LANES + 1)];
shared float lengths[QUERIES * LANES];

vec4 four_at(uint64_t at, uint d) {
    if (WIDE) return uintBitsToFloat(R_s16(at + uint64_t(d) * 4u).v);
    vec4 found = vec4(0.0);
    [[unroll]] for (uint c = 0u; c < 4u; ++c)
        if (d + c < push.width) found[c] = load_f32(at + uint64_t(d + c) * 4u);
    return found;
}
float total(vec4 four) { return (four.x + four.y) + (four.z + four.w); }
void add_terms(inout float sums[SUMS], uint c, vec4 x) {
    [[unroll]] for (uint r = 0u; r < QUERIES; ++r) {
        vec4 q = held[r * (COLUMNS / 4u) + c];
        if (LENGTHS) {
            sums[r] += dot(q, x);
        } else {
            vec4 apart = q - x;
            sums[r] += METRIC == CITY ? total(abs(apart)) : dot(apart, apart);
        }
    }
    if (LENGTHS) sums[QUERIES] += dot(x, x);
}
// The bound from finished sums; `size` and `other` are squared lengths of query and row, of whose product the error is
// a small part.
float bound_from(float sum, float other, float size) {
    if (!LENGTHS) return is_nan(sum) ? NAN : min(sum, 3.4e38) * (1.0 - push.slack);
    if (is_nan(other) || is_nan(size)) return NAN;
    if (!(other < 1e36 && size < 1e36)) return -INF;
    bool small = !(other > 1e-30 && size > 1e-30);  // then squares may have vanished
    if (METRIC == INNER && small) return -max(sqrt(other) * 2e-15 + 1e-30, sqrt(size) * 2e-15 + 1e-30);
    if (small) return -INF;
    float both = sqrt(other) * sqrt(size);
    if (METRIC == INNER) return -sum - 1.001 * push.slack * both;
    return 1.0 - 4.0 * push.slack - sum / both;
}
void bring_queries(uint first_query, uint first, inout float size) {
    uint l = gl_LocalInvocationIndex;
    barrier();
    for (uint i = l; i < QUERIES * (COLUMNS / 4u); i += 256u) {
        uint d = first + i % (COLUMNS / 4u) * 4u, query = min(first_query + i / (COLUMNS / 4u), push.queries - 1u);
        held[i] = d < push.width ? four_at(push.from + uint64_t(query) * push.width * 4u, d) : vec4(0.0);
    }
    barrier();
    if (LENGTHS && l < QUERIES * LANES)
        for (uint c = l % LANES; c < COLUMNS / 4u; c += LANES) {
            vec4 q = held[l / LANES * (COLUMNS / 4u) + c];
            size += dot(q, q);
        }
}
float joined(uint row) {
    float sum = 0.0;
    [[unroll]] for (uint i = 0u; i < LANES; ++i) sum += pieces[row * (LANES + 1u) + i];
    return sum;
}

void main() {
    uint across = (push.queries + QUERIES - 1u) / QUERIES, l = gl_LocalInvocationIndex, lane = l % LANES;
    uint group = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
    uint first_query = group % across * QUERIES, first_row = group / across * (TOGETHER * TURNS);
    if (first_row >= push.rows) return;
    float sums[TURNS][SUMS], size = 0.0;
    [[unroll]] for (uint t = 0u; t < TURNS; ++t)
        [[unroll]] for (uint s = 0u; s < SUMS; ++s) sums[t][s] = 0.0;
    for (uint first = 0u; first < push.width; first += COLUMNS) {
        bring_queries(first_query, first, size);
        uint quads = (min(push.width - first, COLUMNS) + 3u) / 4u;
        for (uint c = lane; c < quads; c += LANES) {
            vec4 x[TURNS];
            [[unroll]] for (uint t = 0u; t < TURNS; ++t) {
                uint row = min(first_row + t * TOGETHER + l / LANES, push.rows - 1u);
                x[t] = four_at(push.to + uint64_t(row) * push.width * 4u, first + c * 4u);
            }
            [[unroll]] for (uint t = 0u; t < TURNS; ++t) add_terms(sums[t], c, x[t]);
        }
    }
    if (LENGTHS && l < QUERIES * LANES) lengths[l] = size;
    float found[SUMS];
    [[unroll]] for (uint s = 0u; s < SUMS; ++s) {
        [[unroll]] for (uint t = 0u; t < TURNS; ++t)
            pieces[(t * TOGETHER + l / LANES) * (LANES + 1u) + lane] = sums[t][s];
        barrier();
        found[s] = l < TOGETHER * TURNS ? joined(l) : 0.0;
        barrier();
    }
    uint row = first_row + l;
    if (l >= TOGETHER * TURNS || row >= push.rows) return;
    [[unroll]] for (uint r = 0u; r < QUERIES; ++r) {
        if (first_query + r >= push.queries) continue;
        float other = 0.0, length_ = 0.0;
        if (LENGTHS) {
            other = found[QUERIES];
            [[unroll]] for (uint i = 0u; i < LANES; ++i) length_ += lengths[r * LANES + i];
        }
        uint64_t at = uint64_t(first_query + r) * push.rows + row;
        store_f32(push.bounds + at * 4u, bound_from(found[r], other, length_));
    }
}

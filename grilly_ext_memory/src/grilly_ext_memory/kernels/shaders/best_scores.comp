#version 460
// The best of a block of a table of scores, rows [first, first + rows): scores that are given, or, with PRODUCTS, lower
// bounds of scores from products of queries with rows.
#define THREADS 256
#define EACH 8
#include "types.glsl"
layout(push_constant, std430) uniform Push {
    uint64_t values, positions, entries;
    uint queries, wanted, parts;
    uint64_t scores, mask, weights, factors;
    uint rows, first, mask_rows, resumed;
    float base;
} push;
#include "best.glsl"
layout(constant_id = 5) const uint KIND = 0;      // of the bound, see `weigh.comp`
layout(constant_id = 6) const bool WIDE = true;   // four neighbours are aligned
layout(constant_id = 7) const bool MASKED = false;

void load(uint64_t at, uint i, uint stop, out float found[EACH]) {
    uint l = gl_LocalInvocationIndex;
    [[unroll]] for (uint e = 0u; e < EACH; e += 4u) {
        if (WIDE) {
            uint j = i + e * THREADS + l * 4u;
            vec4 four = j < stop ? uintBitsToFloat(R_s16(at + uint64_t(j) * 4u).v) : vec4(NAN);
            [[unroll]] for (uint c = 0u; c < 4u; ++c) found[e + c] = four[c];
        } else {
            [[unroll]] for (uint c = 0u; c < 4u; ++c) {
                uint j = i + (e + c) * THREADS + l;
                found[e + c] = j < stop ? load_f32(at + uint64_t(j) * 4u) : NAN;
            }
        }
    }
}
uint column(uint i, uint e) {
    uint l = gl_LocalInvocationIndex;
    return WIDE ? i + e / 4u * 4u * THREADS + l * 4u + e % 4u : i + e * THREADS + l;
}

#ifdef PRODUCTS
// A row whose weight is NaN is never near; what cannot be bounded may be anything.
float bounded(float product, float weight, float factor) {
    if (is_nan(weight)) return NAN;
    if (is_inf(weight) || is_inf(factor)) return -INF;
    float low = KIND == 3u ? push.base + factor * product * weight : weight + factor * product;
    return is_nan(low) ? -INF : low;
}
#endif

void main() {
    uint group = group_index(), query = group / push.parts, part = group % push.parts;
    if (query >= push.queries) return;
    begin_best();
    if (push.resumed != 0u) {
        for (uint i = gl_LocalInvocationIndex; i < push.wanted; i += THREADS)
            held[i] = load_u64(entry_at(query, part, i));
        barrier();
        if (gl_LocalInvocationIndex == 0u) worst = held[push.wanted - 1u];
        barrier();
    }
    uint each = (push.rows + push.parts - 1u) / push.parts;
    each = (each + 3u) / 4u * 4u;
    uint start = min(part * each, push.rows), stop = min(start + each, push.rows);
    uint64_t line = push.scores + uint64_t(query) * push.rows * 4u;
    uint64_t allowed = push.mask + uint64_t(query) * push.mask_rows + push.first;
#ifdef PRODUCTS
    float factor = load_f32(push.factors + uint64_t(query) * 4u);
#endif
    for (uint i = start; i < stop; i += THREADS * EACH) {
        float found[EACH];
        load(line, i, stop, found);
#ifdef PRODUCTS
        float weights[EACH];
        load(push.weights, i, stop, weights);
        [[unroll]] for (uint e = 0u; e < EACH; ++e) found[e] = bounded(found[e], weights[e], factor);
#endif
        uint64_t given[EACH], limit = worst;
        [[unroll]] for (uint e = 0u; e < EACH; ++e) {
            uint j = column(i, e);
            given[e] = NOTHING;
            if (is_nan(found[e]) || j >= stop) continue;
            uint64_t entry = entry_of(number_of(NEGATE ? -found[e] : found[e]), push.first + j);
            if (entry < limit && (!MASKED || load_b1(allowed + j) != 0u)) given[e] = entry;
        }
        if (i == start && push.resumed == 0u) offer_first(given);
        else offer(given);
    }
    end_best(query, part);
}

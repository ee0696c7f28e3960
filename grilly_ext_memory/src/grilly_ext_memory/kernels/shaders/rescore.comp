#version 460
// From the rows with the lowest bounds to the nearest ones: bounds of all parts are merged, the rows scored exactly and
// sorted. A query is flagged where a row that was not scored might be nearer than the last wanted one.
#define THREADS 256
#define TILE 32
#define COLUMNS 64
#define EACH 4
#define QUERIES 1
#define FIRST_ID 5
#include "types.glsl"
layout(push_constant, std430) uniform Push {
    uint64_t values, positions, entries;
    uint queries, wanted, parts;
    uint64_t from, to, flags;
    uint width, results;
    float slack;
    uint direct;
} push;
#include "best.glsl"
#include "exact.glsl"
shared double partial[THREADS];

uint query, first_entry;
uint64_t row_at(uint i) { return push.to + uint64_t(place_in(held[first_entry + i])) * push.width * 4u; }
uint64_t query_at(uint r) { return push.from + uint64_t(query) * push.width * 4u; }

double squared_length() {
    uint l = gl_LocalInvocationIndex;
    double sum = 0.0LF;
    for (uint d = l; d < push.width; d += THREADS) {
        double x = double(load_f32(query_at(0u) + uint64_t(d) * 4u));
        sum += x * x;
    }
    partial[l] = sum;
    barrier();
    for (uint half_ = THREADS / 2u; half_ > 0u; half_ >>= 1) {
        if (l < half_) partial[l] += partial[l + half_];
        barrier();
    }
    return partial[0];
}
// The bound above which a row is not among the best, whose last one has the score `last`.
double limit_of(double last, double size) {
    double vanished = double(push.width) * 4.7e-38LF, w = last;
    if (push.direct != 0u) {  // bounds are of scores, those of lengths of squares
        if (METRIC == EUCLID) return w * w * 1.000001LF;
        return w + abs(w) * 1e-6LF + (METRIC == COSINE ? 1e-6LF : vanished);
    }
    if (METRIC == INNER) {
        w = (w + abs(w) * 1e-6LF) / sqrt(size);
        return w + abs(w) * 1e-6LF + vanished / sqrt(size);
    }
    if (METRIC == COSINE) return w + abs(w) * 1e-6LF + 1e-6LF;
    w = (METRIC == EUCLID ? w * w : w) * 1.000001LF;
    return w - size * (1.0LF - 2.0LF * double(push.slack)) + 1e-6LF * w + vanished;
}
void merge() {
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
    settle();
}
// Put exact scores in the place of bounds.
void score_held() {
    uint l = gl_LocalInvocationIndex, there = 0u;
    for (uint i = 0u; i < push.wanted; ++i) there += uint(held[i] != NOTHING);
    for (first_entry = 0u; first_entry < there; first_entry += TILE) {
        float found[1];
        score_rows(min(TILE, there - first_entry), push.width, found);
        uint i = first_entry + l;
        if (l < TILE && i < there)
            held[i] = is_nan(found[0]) ? NOTHING : entry_of(number_of(found[0]), place_in(held[i]));
        barrier();
    }
}

void main() {
    query = group_index();
    if (query >= push.queries) return;
    merge();
    uint64_t bound = held[push.wanted - 1u];
    double size = push.direct != 0u ? 0.0LF : squared_length();
    score_held();
    for (uint i = push.wanted + gl_LocalInvocationIndex; i < KEEP; i += THREADS) held[i] = NOTHING;
    sort_held(KEEP);
    uint64_t last = held[push.results - 1u];
    bool sure = bound == NOTHING;
    if (!sure && last != NOTHING)
        sure = double(score_of(number_in(bound))) > limit_of(double(score_of(number_in(last))), size);
    if (gl_LocalInvocationIndex == 0u) store_u32(push.flags + uint64_t(query) * 4u, sure ? 0u : 1u);
    for (uint i = gl_LocalInvocationIndex; i < push.results; i += THREADS) {
        uint64_t entry = held[i], at = (uint64_t(query) * push.results + i) * 4u;
        bool none = entry == NOTHING;
        store_i32(push.positions + at, none ? -1 : int(place_in(entry)));
        uint bits = none ? 0x7f7fffffu : floatBitsToUint(score_of(number_in(entry)));
        store_u32(push.values + at, NEGATE && bits != 0u ? bits ^ 0x80000000u : bits);
    }
}

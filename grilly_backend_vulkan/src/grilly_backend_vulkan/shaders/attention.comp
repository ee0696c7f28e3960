#version 460
// Attention, forward: a work group takes BR queries through all keys they see, BC at a time (Dao 2023).
// The rows' maxima and the sums of their powers run along, and earlier sums are scaled when a maximum grows.
#include "attention_tiles.glsl"
layout(push_constant, std430) uniform Push { uint64_t out_, log_sum, q, k, v, sizes; } push;

shared float partial[S_ACROSS * BR];
shared float base[BR], factor[BR];

vec4 s[SR][NQ], sums[OR][OQ];
float totals[SR];
float top;  // of row `gl_LocalInvocationIndex`

void mask_block(Sizes sizes, uint query, uint key) {
    [[unroll]] for (uint i = 0u; i < SR; ++i)
        [[unroll]] for (uint n = 0u; n < NQ; ++n)
            [[unroll]] for (uint t = 0u; t < 4u; ++t)
                s[i][n][t] = masked(sizes, s[i][n][t], query + row_of(i), key + column_of(n) + t);
}
void drop(Sizes sizes, uint query, uint key) {
    [[unroll]] for (uint i = 0u; i < SR; ++i)
        [[unroll]] for (uint n = 0u; n < NQ; ++n) {
            uvec4 words = words_of(sizes, query + row_of(i), (key + column_of(n)) / 4u);
            [[unroll]] for (uint t = 0u; t < 4u; ++t)
                s[i][n][t] = words[t] < sizes.limit ? 0.0 : s[i][n][t] * sizes.kept;
        }
}
// From scores to powers, with the maxima and totals.
void exponentiate() {
    uint x = thread_x(S_ACROSS), l = gl_LocalInvocationIndex;
    [[unroll]] for (uint i = 0u; i < SR; ++i) {
        float most = -INF;
        [[unroll]] for (uint n = 0u; n < NQ; ++n)
            most = max(most, max(max(s[i][n].x, s[i][n].y), max(s[i][n].z, s[i][n].w)));
        partial[x * BR + row_of(i)] = most;
    }
    barrier();
    if (l < BR) {
        float most = top;
        [[unroll]] for (uint j = 0u; j < S_ACROSS; ++j) most = max(most, partial[j * BR + l]);
        float from = most == -INF ? 0.0 : most;  // a row that has seen nothing yet
        base[l] = from;
        factor[l] = power(top - from);
        top = most;
    }
    barrier();
    [[unroll]] for (uint i = 0u; i < SR; ++i) {
        float from = base[row_of(i)], total = 0.0;
        [[unroll]] for (uint n = 0u; n < NQ; ++n)
            [[unroll]] for (uint t = 0u; t < 4u; ++t) {
                s[i][n][t] = power(s[i][n][t] - from);
                total += s[i][n][t];
            }
        totals[i] = totals[i] * factor[row_of(i)] + total;
    }
    [[unroll]] for (uint i = 0u; i < OR; ++i)
        [[unroll]] for (uint n = 0u; n < OQ; ++n) sums[i][n] *= factor[sum_row(i)];
}
void finish(Sizes sizes, uint64_t row, uint query) {
    uint x = thread_x(S_ACROSS), l = gl_LocalInvocationIndex;
    [[unroll]] for (uint i = 0u; i < SR; ++i) partial[x * BR + row_of(i)] = totals[i];
    barrier();
    if (l < BR) {
        float total = 0.0;
        [[unroll]] for (uint j = 0u; j < S_ACROSS; ++j) total += partial[j * BR + l];
        factor[l] = total == 0.0 ? 0.0 : 1.0 / total;
        if (push.log_sum != 0 && query + l < sizes.queries)
            store_f32(push.log_sum + (row + query + l) * 4u, total == 0.0 ? INF : top * LN2 + own_log(total));
    }
    barrier();
    [[unroll]] for (uint i = 0u; i < OR; ++i) {
        uint line = query + sum_row(i);
        if (line >= sizes.queries) continue;
        [[unroll]] for (uint n = 0u; n < OQ; ++n)
            put(sums[i][n] * factor[sum_row(i)], push.out_ + row * sizes.value_width * 4u, line, sum_column(n), sizes.value_width);
    }
}

void main() {
    Sizes sizes = Sizes(push.sizes);
    uint blocks = (sizes.queries + BR - 1u) / BR, head = group_number() / blocks, batch = head / sizes.heads;
    if (batch >= sizes.batch) return;
    uint query = (blocks - 1u - group_number() % blocks) * BR;  // the longest first
    enter_batch(sizes, batch);
    enter_head(sizes, head % sizes.heads);
    int group = int(own_head / (sizes.heads / sizes.groups)), b = int(batch);
    Lines q = Lines(push.q + (int64_t(b) * sizes.q[0] + int64_t(own_head) * sizes.q[1]) * 4, sizes.q[2], sizes.queries, sizes.width);
    Lines k = Lines(push.k + (int64_t(b) * sizes.k[0] + int64_t(group) * sizes.k[1]) * 4, sizes.k[2], end, sizes.width);
    Lines v = Lines(push.v + (int64_t(b) * sizes.v[0] + int64_t(group) * sizes.v[1]) * 4, sizes.v[2], end, sizes.value_width);
    uint after = seen_by(min(query + BR, sizes.queries));
    float scale = sizes.scale * LOG2E;
    top = -INF;
    [[unroll]] for (uint i = 0u; i < SR; ++i) totals[i] = 0.0;
    [[unroll]] for (uint i = 0u; i < OR; ++i) [[unroll]] for (uint n = 0u; n < OQ; ++n) sums[i][n] = vec4(0.0);
    fetch(q, query, k, 0u);
    for (uint key = 0u; key < after; key += BC) {
        product(q.width, s);
        fetch_lines(v, key);
        [[unroll]] for (uint i = 0u; i < SR; ++i) [[unroll]] for (uint n = 0u; n < NQ; ++n) s[i][n] *= scale;
        if (!all_seen(query, key + BC)) mask_block(sizes, query, key);
        exponentiate();
        if (DROPOUT) drop(sizes, query, key);
        accumulate(s, sums);
        if (key + BC < after) fetch(q, query, k, key + BC);
    }
    finish(sizes, uint64_t(head) * sizes.queries, query);
}

#version 460
// The gradients of keys and values: a work group takes BR keys through all queries that see them, of all heads that share
// the keys. Scores are transposed, keys down and queries across. Nothing is added by two work groups, so
// the order of all sums is fixed.
#include "attention_tiles.glsl"
layout(push_constant, std430) uniform Push { uint64_t to_k, to_v, along, g, q, k, v, log_sum, sizes; } push;

shared float base[BC], product_along[BC];

vec4 s[SR][NQ], gs[SR][NQ], sums_k[OR][OQ], sums_v[OR][OQ];

bool dropped(Sizes sizes, uint query, uint key) { return words_of(sizes, query, key / 4u)[key % 4u] < sizes.limit; }
void weigh(Sizes sizes, uint query, uint key, bool all) {
    float scale = sizes.scale * LOG2E;
    [[unroll]] for (uint i = 0u; i < SR; ++i)
        [[unroll]] for (uint n = 0u; n < NQ; ++n)
            [[unroll]] for (uint t = 0u; t < 4u; ++t) {
                uint c = column_of(n) + t;
                float score = s[i][n][t] * scale;
                if (!all) score = masked(sizes, score, query + c, key + row_of(i));
                s[i][n][t] = power(score - base[c]);
            }
}
// The weights after dropout, for the sums of the values' gradient.
void drop(Sizes sizes, uint query, uint key) {
    [[unroll]] for (uint i = 0u; i < SR; ++i)
        [[unroll]] for (uint n = 0u; n < NQ; ++n)
            [[unroll]] for (uint t = 0u; t < 4u; ++t) {
                bool gone = dropped(sizes, query + column_of(n) + t, key + row_of(i));
                gs[i][n][t] = gone ? 0.0 : s[i][n][t] * sizes.kept;
            }
}
void gradients(Sizes sizes, uint query, uint key) {
    [[unroll]] for (uint i = 0u; i < SR; ++i)
        [[unroll]] for (uint n = 0u; n < NQ; ++n)
            [[unroll]] for (uint t = 0u; t < 4u; ++t) {
                uint c = column_of(n) + t;
                float given = gs[i][n][t];
                if (DROPOUT) given = dropped(sizes, query + c, key + row_of(i)) ? 0.0 : given * sizes.kept;
                s[i][n][t] *= given - product_along[c];
            }
}
// Take the keys through the queries of one head.
void walk(Sizes sizes, Lines k, Lines v, uint key) {
    int64_t b = own_batch, h = own_head;
    uint64_t row = (uint64_t(own_batch) * sizes.heads + own_head) * sizes.queries;
    uint l = gl_LocalInvocationIndex;
    Lines q = Lines(push.q + (b * sizes.q[0] + h * sizes.q[1]) * 4, sizes.q[2], sizes.queries, sizes.width);
    Lines g = Lines(push.g + (b * sizes.g[0] + h * sizes.g[1]) * 4, sizes.g[2], sizes.queries, sizes.value_width);
    uint query = CAUSAL == 0 ? 0u : uint(max(int(key) - diagonal, 0)) / BC * BC;
    for (; query < sizes.queries; query += BC) {
        fetch(k, key, q, query);
        if (l < BC) {
            bool inside = query + l < sizes.queries;
            base[l] = inside ? load_f32(push.log_sum + (row + query + l) * 4u) * LOG2E : INF;
            product_along[l] = inside ? load_f32(push.along + (row + query + l) * 4u) : 0.0;
        }
        product(k.width, s);
        fetch_lines(g, query);
        bool all = all_seen(query, key + BR) && query + BC <= sizes.queries;
        weigh(sizes, query, key, all);
        if (DROPOUT) {
            drop(sizes, query, key);
            accumulate(gs, sums_v);
        } else {
            accumulate(s, sums_v);
        }
        fetch(v, key, g, query);
        product(v.width, gs);
        fetch_lines(q, query);
        gradients(sizes, query, key);
        accumulate(s, sums_k);
        barrier();
    }
}

void main() {
    Sizes sizes = Sizes(push.sizes);
    uint blocks = (sizes.keys + BR - 1u) / BR, place_ = group_number() / blocks, batch = place_ / sizes.groups;
    if (batch >= sizes.batch) return;
    uint key = group_number() % blocks * BR, group = place_ % sizes.groups, share = sizes.heads / sizes.groups;
    enter_batch(sizes, batch);
    int64_t b = batch, n_ = group;
    Lines k = Lines(push.k + (b * sizes.k[0] + n_ * sizes.k[1]) * 4, sizes.k[2], end, sizes.width);
    Lines v = Lines(push.v + (b * sizes.v[0] + n_ * sizes.v[1]) * 4, sizes.v[2], end, sizes.value_width);
    [[unroll]] for (uint i = 0u; i < OR; ++i)
        [[unroll]] for (uint n = 0u; n < OQ; ++n) sums_k[i][n] = sums_v[i][n] = vec4(0.0);
    if (key < end)
        for (uint h = 0u; h < share; ++h) {
            enter_head(sizes, group * share + h);
            walk(sizes, k, v, key);
        }
    uint64_t row = uint64_t(place_) * sizes.keys;
    [[unroll]] for (uint i = 0u; i < OR; ++i) {
        uint line = key + sum_row(i);
        if (line >= sizes.keys) continue;
        [[unroll]] for (uint n = 0u; n < OQ; ++n) {
            put(sums_k[i][n] * sizes.scale, push.to_k + row * sizes.width * 4u, line, sum_column(n), sizes.width);
            put(sums_v[i][n], push.to_v + row * sizes.value_width * 4u, line, sum_column(n), sizes.value_width);
        }
    }
}

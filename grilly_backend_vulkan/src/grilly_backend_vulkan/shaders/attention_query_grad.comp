#version 460
// The gradient of the queries: a work group takes BR queries through all keys they see. On the way it leaves the sums
// of gradient times output of each query, which the gradients of keys and values need as well.
#include "attention_tiles.glsl"
layout(push_constant, std430) uniform Push { uint64_t to, along, g, q, k, v, out_, log_sum, sizes; } push;

shared float base[BR], product_along[BR];

vec4 s[SR][NQ], gs[SR][NQ], sums[OR][OQ];

float along_of(Lines g, Lines out_, uint line) {
    vec4 total = vec4(0.0);
    for (uint d = 0u; d < g.width; d += 4u) total = fma(quad_of(g, line, d), quad_of(out_, line, d), total);
    return (total.x + total.y) + (total.z + total.w);
}
void gradients(Sizes sizes, uint query, uint key, bool all) {
    float scale = sizes.scale * LOG2E;
    [[unroll]] for (uint i = 0u; i < SR; ++i) {
        float from = base[row_of(i)], along = product_along[row_of(i)];
        [[unroll]] for (uint n = 0u; n < NQ; ++n) {
            uvec4 words = DROPOUT ? words_of(sizes, query + row_of(i), (key + column_of(n)) / 4u) : uvec4(0u);
            [[unroll]] for (uint t = 0u; t < 4u; ++t) {
                float score = s[i][n][t] * scale;
                if (!all) score = masked(sizes, score, query + row_of(i), key + column_of(n) + t);
                float given = gs[i][n][t];
                if (DROPOUT) given = words[t] < sizes.limit ? 0.0 : given * sizes.kept;
                s[i][n][t] = power(score - from) * (given - along);
            }
        }
    }
}

void main() {
    Sizes sizes = Sizes(push.sizes);
    uint blocks = (sizes.queries + BR - 1u) / BR, head = group_number() / blocks, batch = head / sizes.heads;
    if (batch >= sizes.batch) return;
    uint query = (blocks - 1u - group_number() % blocks) * BR, l = gl_LocalInvocationIndex;
    enter_batch(sizes, batch);
    enter_head(sizes, head % sizes.heads);
    int64_t group = own_head / (sizes.heads / sizes.groups), b = batch, h = own_head;
    uint64_t row = uint64_t(head) * sizes.queries;
    Lines q = Lines(push.q + (b * sizes.q[0] + h * sizes.q[1]) * 4, sizes.q[2], sizes.queries, sizes.width);
    Lines k = Lines(push.k + (b * sizes.k[0] + group * sizes.k[1]) * 4, sizes.k[2], end, sizes.width);
    Lines v = Lines(push.v + (b * sizes.v[0] + group * sizes.v[1]) * 4, sizes.v[2], end, sizes.value_width);
    Lines g = Lines(push.g + (b * sizes.g[0] + h * sizes.g[1]) * 4, sizes.g[2], sizes.queries, sizes.value_width);
    Lines out_ = Lines(push.out_ + row * sizes.value_width * 4u, int(sizes.value_width), sizes.queries, sizes.value_width);
    if (l < BR) {
        bool inside = query + l < sizes.queries;
        base[l] = inside ? load_f32(push.log_sum + (row + query + l) * 4u) * LOG2E : INF;
        product_along[l] = along_of(g, out_, query + l);
        if (inside) store_f32(push.along + (row + query + l) * 4u, product_along[l]);
    }
    [[unroll]] for (uint i = 0u; i < OR; ++i) [[unroll]] for (uint n = 0u; n < OQ; ++n) sums[i][n] = vec4(0.0);
    uint after = seen_by(min(query + BR, sizes.queries));
    fetch(q, query, k, 0u);
    for (uint key = 0u; key < after; key += BC) {
        product(q.width, s);
        fetch(g, query, v, key);
        product(g.width, gs);
        fetch_lines(k, key);
        gradients(sizes, query, key, all_seen(query, key + BC));
        accumulate(s, sums);
        if (key + BC < after) fetch(q, query, k, key + BC);
    }
    [[unroll]] for (uint i = 0u; i < OR; ++i) {
        uint line = query + sum_row(i);
        if (line >= sizes.queries) continue;
        [[unroll]] for (uint n = 0u; n < OQ; ++n)
            put(sums[i][n] * sizes.scale, push.to + row * sizes.width * 4u, line, sum_column(n), sizes.width);
    }
}

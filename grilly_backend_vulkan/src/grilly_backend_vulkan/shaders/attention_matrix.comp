#version 460
// Attention in 16-bit floats, forward: each subgroup takes 16 queries through all keys they see, see attention.comp.
#include "attention_matrix.glsl"
layout(push_constant, std430) uniform Push { uint64_t out_, log_sum, q, k, v, sizes; } push;

shared vec2 stats[BR];  // of each row: what is taken from its exponents, and what earlier sums are scaled by

LEFT own[DEPTH];
SUMS s[BLOCKS], sums[DEPTH], totals;
float top;              // of row `LANE_ % 16`

void mask_block(Sizes sizes, uint query, uint key) {
    [[unroll]] for (uint j = 0u; j < BLOCKS; ++j)
        [[unroll]] for (uint i = 0u; i < ELEMENTS; ++i)
            s[j][i] = masked(sizes, s[j][i], query + row_of[i], key + j * 16u + column_of[i]);
}
void drop(Sizes sizes, uint query, uint key) {
    [[unroll]] for (uint j = 0u; j < BLOCKS; ++j)
        [[unroll]] for (uint i = 0u; i < ELEMENTS; ++i) {
            uint at = key + j * 16u + column_of[i];
            bool gone = words_of(sizes, query + row_of[i], at / 4u)[at % 4u] < sizes.limit;
            s[j][i] = gone ? 0.0 : s[j][i] * sizes.kept;
        }
}
// Sixteen staged numbers of row `LANE_ % 16`.
vec4 row_quad(uint q) { return uintBitsToFloat(staged[stage() + LANE_ % 16u * ROW + q]); }

void exponentiate() {
    SUMS most;
    [[unroll]] for (uint i = 0u; i < ELEMENTS; ++i) {
        float value = s[0][i];
        [[unroll]] for (uint j = 1u; j < BLOCKS; ++j) value = max(value, s[j][i]);
        most[i] = value;
    }
    TOGETHER();
    STORE_SUMS(most, stage());
    TOGETHER();
    vec4 all = max(max(row_quad(0u), row_quad(1u)), max(row_quad(2u), row_quad(3u)));
    float value = max(top, max(max(all.x, all.y), max(all.z, all.w))), from = value == -INF ? 0.0 : value;
    if (LANE_ < 16u) stats[WARP * 16u + LANE_] = vec2(from, power(top - from));
    top = value;
    TOGETHER();
    [[unroll]] for (uint i = 0u; i < ELEMENTS; ++i) {
        vec2 stat = stats[WARP * 16u + row_of[i]];
        float total = 0.0;
        [[unroll]] for (uint j = 0u; j < BLOCKS; ++j) {
            s[j][i] = power(s[j][i] - stat.x);
            total += s[j][i];
        }
        totals[i] = totals[i] * stat.y + total;
        [[unroll]] for (uint d = 0u; d < DEPTH; ++d) sums[d][i] *= stat.y;
    }
}
void finish(Sizes sizes, uint64_t row, uint query) {
    TOGETHER();
    STORE_SUMS(totals, stage());
    TOGETHER();
    vec4 all = (row_quad(0u) + row_quad(1u)) + (row_quad(2u) + row_quad(3u));
    float total = (all.x + all.y) + (all.z + all.w);
    uint line = query + WARP * 16u + LANE_;
    if (LANE_ < 16u) {
        stats[WARP * 16u + LANE_] = vec2(total == 0.0 ? 0.0 : 1.0 / total, 0.0);
        if (push.log_sum != 0 && line < sizes.queries)
            store_f32(push.log_sum + (row + line) * 4u, total == 0.0 ? INF : top * LN2 + own_log(total));
    }
    TOGETHER();
    float factor[ELEMENTS];
    [[unroll]] for (uint i = 0u; i < ELEMENTS; ++i) factor[i] = stats[WARP * 16u + row_of[i]].x;
    PUT(sums, factor, push.out_ + row * sizes.value_width * 2u, query, sizes.queries, sizes.value_width)
}

void main() {
    Sizes sizes = Sizes(push.sizes);
    uint blocks = (sizes.queries + BR - 1u) / BR, head = group_number() / blocks, batch = head / sizes.heads;
    if (batch >= sizes.batch) return;
    uint query = (blocks - 1u - group_number() % blocks) * BR, mine = query + WARP * 16u;
    enter_batch(sizes, batch);
    enter_head(sizes, head % sizes.heads);
    int64_t group = own_head / (sizes.heads / sizes.groups), b = batch, h = own_head;
    Lines q = Lines(push.q + (b * sizes.q[0] + h * sizes.q[1]) * 2, sizes.q[2], sizes.queries, sizes.width);
    Lines k = Lines(push.k + (b * sizes.k[0] + group * sizes.k[1]) * 2, sizes.k[2], end, sizes.width);
    Lines v = Lines(push.v + (b * sizes.v[0] + group * sizes.v[1]) * 2, sizes.v[2], end, sizes.value_width);
    uvec4 next_k[LOADS], next_v[LOADS];
    fetch(k, 0u, next_k);
    find_places();
    load_own(q, query, own);
    top = -INF;
    CLEAR(totals);
    [[unroll]] for (uint d = 0u; d < DEPTH; ++d) CLEAR(sums[d]);
    uint after = seen_by(min(query + BR, sizes.queries)), my_after = seen_by(min(mine + 16u, sizes.queries));
    float scale = sizes.scale * LOG2E;
    for (uint key = 0u; key < after; key += BC) {
        keep(0u, next_k);
        barrier();
        fetch(v, key, next_v);
        if (IDLE(key >= my_after)) {  // rows that see none of these keys
            keep(1u, next_v);
            barrier();
            if (key + BC < after) fetch(k, key + BC, next_k);
            continue;
        }
        SCORES(s, own, 0u)
        [[unroll]] for (uint j = 0u; j < BLOCKS; ++j)
            [[unroll]] for (uint i = 0u; i < ELEMENTS; ++i) s[j][i] *= scale;
        if (!all_seen(mine, key + BC)) mask_block(sizes, mine, key);
        exponentiate();
        keep(1u, next_v);
        barrier();
        if (key + BC < after) fetch(k, key + BC, next_k);
        if (DROPOUT) drop(sizes, mine, key);
        STAGE_WEIGHTS(s)
        ACCUMULATE(sums, 1u)
    }
    finish(sizes, uint64_t(head) * sizes.queries, query);
}

#version 460
// Attention in 16-bit floats, forward: each subgroup takes 16 queries through all keys they see, see attention.comp.
#include "attention_matrix.glsl"
layout(push_constant, std430) uniform Push { uint64_t out_, log_sum, q, k, v, sizes; } push;

shared vec2 stats[BR];  // of each row, unless direct: what is taken from its exponents, and what earlier sums are scaled by

LEFT own[PARTS][DEPTH];
SUMS s[BLOCKS], sums[DEPTH], totals;
vec2 top;               // of rows `direct_row(0)` and `direct_row(4)`, or x of row `LANE_ % 16`

void mask_block(Sizes sizes, uint query, uint key, float scale, const bool direct) {
    [[unroll]] for (uint j = 0u; j < BLOCKS; ++j)
        [[unroll]] for (uint i = 0u; i < ELEMENTS; ++i)
            s[j][i] = masked(sizes, s[j][i] * scale, query + row_at(i, direct), key + j * 16u + column_at(i, direct));
}
void drop(Sizes sizes, uint query, uint key, const bool direct) {
    [[unroll]] for (uint j = 0u; j < BLOCKS; ++j)
        [[unroll]] for (uint i = 0u; i < ELEMENTS; ++i) {
            uint at = key + j * 16u + column_at(i, direct);
            bool gone = words_of(sizes, query + row_at(i, direct), at / 4u)[at % 4u] < sizes.limit;
            s[j][i] = gone ? 0.0 : s[j][i] * sizes.kept;
        }
}
// Sixteen staged numbers of row `LANE_ % 16`.
vec4 row_quad(uint q) { return uintBitsToFloat(staged[stage() + LANE_ % 16u * ROW + q]); }

// Raise the tops of rows to the largest score times `unit`; for each element, what is taken from its exponent and what
// earlier sums are scaled by.
void raise(float unit, out vec2 found[ELEMENTS], const bool direct) {
    SUMS most;
    [[unroll]] for (uint i = 0u; i < ELEMENTS; ++i) {
        float value = s[0][i];
        [[unroll]] for (uint j = 1u; j < BLOCKS; ++j) value = max(value, s[j][i]);
        most[i] = value * unit;
    }
    vec2 before = top;
    if (direct) {
        [[unroll]] for (uint r = 0u; r < 2u; ++r) {
            float value = max(max(most[4u * r], most[4u * r + 1u]), max(most[4u * r + 2u], most[4u * r + 3u]));
            value = max(value, FROM_LANE(value, 1u));
            top[r] = max(top[r], max(value, FROM_LANE(value, 2u)));
        }
    } else {
        TOGETHER();
        STORE_SUMS(most, stage());
        TOGETHER();
        vec4 all = max(max(row_quad(0u), row_quad(1u)), max(row_quad(2u), row_quad(3u)));
        top.x = max(top.x, max(max(all.x, all.y), max(all.z, all.w)));
    }
    vec2 from = mix(top, vec2(0.0), equal(top, vec2(-INF))), scaled = vec2(power(before.x - from.x), power(before.y - from.y));
    if (!direct) {
        if (LANE_ < 16u) stats[WARP * 16u + LANE_] = vec2(from.x, scaled.x);
        TOGETHER();
    }
    [[unroll]] for (uint i = 0u; i < ELEMENTS; ++i)
        found[i] = direct ? vec2(from[i / 4u], scaled[i / 4u]) : stats[WARP * 16u + row_of[i]];
}
// From scores, in which `unit` is still to be multiplied, to powers of 2.
void exponentiate(float unit, const bool direct) {
    vec2 found[ELEMENTS];
    raise(unit, found, direct);
    bool still = true;
    [[unroll]] for (uint i = 0u; i < ELEMENTS; ++i) {
        float total = 0.0;
        [[unroll]] for (uint j = 0u; j < BLOCKS; ++j) {
            s[j][i] = power(fma(s[j][i], unit, -found[i].x));
            total += s[j][i];
        }
        totals[i] = totals[i] * found[i].y + total;
        still = still && found[i].y == 1.0;
    }
    if (!ALL(still))
        [[unroll]] for (uint d = 0u; d < DEPTH; ++d)
            [[unroll]] for (uint i = 0u; i < ELEMENTS; ++i) sums[d][i] *= found[i].y;
}
float inverse(float total) { return total == 0.0 ? 0.0 : 1.0 / total; }
void put_log_sum(Sizes sizes, uint64_t row, uint line, float most, float total) {
    if (push.log_sum != 0 && line < sizes.queries)
        store_f32(push.log_sum + (row + line) * 4u, total == 0.0 ? INF : most * LN2 + own_log(total));
}
void finish(Sizes sizes, uint64_t row, uint query, const bool direct) {
    float factor[ELEMENTS];
    uint mine = query + WARP * 16u;
    if (direct) {
        [[unroll]] for (uint r = 0u; r < 2u; ++r) {
            float total = totals[4u * r] + totals[4u * r + 1u] + (totals[4u * r + 2u] + totals[4u * r + 3u]);
            total += FROM_LANE(total, 1u);
            total += FROM_LANE(total, 2u);
            if (LANE_ % 4u == 0u) put_log_sum(sizes, row, mine + direct_row(4u * r), top[r], total);
            [[unroll]] for (uint i = 0u; i < ELEMENTS; ++i) if (i / 4u == r) factor[i] = inverse(total);
        }
    } else {
        TOGETHER();
        STORE_SUMS(totals, stage());
        TOGETHER();
        vec4 all = (row_quad(0u) + row_quad(1u)) + (row_quad(2u) + row_quad(3u));
        float total = (all.x + all.y) + (all.z + all.w);
        if (LANE_ < 16u) {
            stats[WARP * 16u + LANE_] = vec2(inverse(total), 0.0);
            put_log_sum(sizes, row, mine + LANE_, top.x, total);
        }
        TOGETHER();
        [[unroll]] for (uint i = 0u; i < ELEMENTS; ++i) factor[i] = stats[WARP * 16u + row_of[i]].x;
    }
    PUT(sums, factor, push.out_ + row * sizes.value_width * SIZE, query, sizes.queries, sizes.value_width)
}

Eight next_k[LOADS], next_v[LOADS];
// Take the queries through all keys they see; the first keys have been fetched.
void walk(Sizes sizes, uint64_t row, uint query, Lines k, Lines v, const bool direct) {
    uint mine = query + WARP * 16u;
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
        float unit = scale;
        if (scale < 0.0 || !all_seen(mine, key + BC)) {
            mask_block(sizes, mine, key, scale, direct);
            unit = 1.0;
        }
        exponentiate(unit, direct);
        keep(1u, next_v);
        barrier();
        if (key + BC < after) fetch(k, key + BC, next_k);
        if (DROPOUT) drop(sizes, mine, key, direct);
        ACCUMULATE(sums, s, 1u, direct)
    }
    finish(sizes, row, query, direct);
}

void main() {
    Sizes sizes = Sizes(push.sizes);
    uint blocks = (sizes.queries + BR - 1u) / BR, head = group_number() / blocks, batch = head / sizes.heads;
    if (batch >= sizes.batch) return;
    uint query = (blocks - 1u - group_number() % blocks) * BR;
    enter_batch(sizes, batch);
    enter_head(sizes, head % sizes.heads);
    int64_t group = own_head / (sizes.heads / sizes.groups), b = batch, h = own_head;
    Lines q = Lines(push.q + (b * sizes.q[0] + h * sizes.q[1]) * 2, sizes.q[2], sizes.queries, sizes.width);
    Lines k = Lines(push.k + (b * sizes.k[0] + group * sizes.k[1]) * 2, sizes.k[2], end, sizes.width);
    Lines v = Lines(push.v + (b * sizes.v[0] + group * sizes.v[1]) * 2, sizes.v[2], end, sizes.value_width);
    fetch(k, 0u, next_k);
    find_places();
    load_own(q, query, own);
    top = vec2(-INF);
    CLEAR(totals);
    [[unroll]] for (uint d = 0u; d < DEPTH; ++d) CLEAR(sums[d]);
    uint64_t row = uint64_t(head) * sizes.queries;
    if (direct_) {
        walk(sizes, row, query, k, v, true);
    } else {
        walk(sizes, row, query, k, v, false);
    }
}

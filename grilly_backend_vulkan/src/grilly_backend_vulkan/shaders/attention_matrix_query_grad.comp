#version 460
// The gradient of the queries in 16-bit floats: each subgroup takes 16 queries through all keys they see. On the way it
// leaves the sums of gradient times output of each query, which the gradients of keys and values need as well.
#include "attention_matrix.glsl"
layout(push_constant, std430) uniform Push { uint64_t to, along, g, q, k, v, out_, log_sum, sizes; } push;

shared vec2 stats[BR];  // of each row: what is taken from its exponents, and the sum of gradient times output

LEFT own_q[DEPTH], own_g[DEPTH];
SUMS s[BLOCKS], gs[BLOCKS], sums[DEPTH];

float dot_of(uvec4 a, uvec4 b) {
    float total = 0.0;
    [[unroll]] for (uint j = 0u; j < 4u; ++j) {
#ifdef BRAIN
        total = fma(uintBitsToFloat(a[j] << 16), uintBitsToFloat(b[j] << 16), total);
        total = fma(uintBitsToFloat(a[j] & 0xffff0000u), uintBitsToFloat(b[j] & 0xffff0000u), total);
#else
        total += dot(unpackHalf2x16(a[j]), unpackHalf2x16(b[j]));
#endif
    }
    return total;
}
void gradients(Sizes sizes, uint query, uint key, bool all) {
    float scale = sizes.scale * LOG2E;
    [[unroll]] for (uint i = 0u; i < ELEMENTS; ++i) {
        vec2 stat = stats[WARP * 16u + row_of[i]];
        [[unroll]] for (uint j = 0u; j < BLOCKS; ++j) {
            uint at = key + j * 16u + column_of[i];
            float score = s[j][i] * scale, given = gs[j][i];
            if (!all) score = masked(sizes, score, query + row_of[i], at);
            if (DROPOUT) {
                bool gone = words_of(sizes, query + row_of[i], at / 4u)[at % 4u] < sizes.limit;
                given = gone ? 0.0 : given * sizes.kept;
            }
            s[j][i] = power(score - stat.x) * (given - stat.y);
        }
    }
}

void main() {
    Sizes sizes = Sizes(push.sizes);
    uint blocks = (sizes.queries + BR - 1u) / BR, head = group_number() / blocks, batch = head / sizes.heads;
    if (batch >= sizes.batch) return;
    uint query = (blocks - 1u - group_number() % blocks) * BR, mine = query + WARP * 16u;
    enter_batch(sizes, batch);
    enter_head(sizes, head % sizes.heads);
    int64_t group = own_head / (sizes.heads / sizes.groups), b = batch, h = own_head;
    uint64_t row = uint64_t(head) * sizes.queries;
    Lines q = Lines(push.q + (b * sizes.q[0] + h * sizes.q[1]) * 2, sizes.q[2], sizes.queries, sizes.width);
    Lines k = Lines(push.k + (b * sizes.k[0] + group * sizes.k[1]) * 2, sizes.k[2], end, sizes.width);
    Lines v = Lines(push.v + (b * sizes.v[0] + group * sizes.v[1]) * 2, sizes.v[2], end, sizes.value_width);
    Lines g = Lines(push.g + (b * sizes.g[0] + h * sizes.g[1]) * 2, sizes.g[2], sizes.queries, sizes.value_width);
    Lines out_ = Lines(push.out_ + row * sizes.value_width * 2u, int(sizes.value_width), sizes.queries, sizes.value_width);
    uvec4 next_k[LOADS], next_v[LOADS];
    fetch(k, 0u, next_k);
    fetch(v, 0u, next_v);
    if (LANE_ < 16u) {
        uint line = mine + LANE_;
        float along = 0.0;
        for (uint d = 0u; d < sizes.value_width; d += 8u) along += dot_of(eight_of(g, line, d), eight_of(out_, line, d));
        bool inside = line < sizes.queries;
        stats[WARP * 16u + LANE_] = vec2(inside ? load_f32(push.log_sum + (row + line) * 4u) * LOG2E : INF, along);
        if (inside) store_f32(push.along + (row + line) * 4u, along);
    }
    find_places();
    load_own(q, query, own_q);
    load_own(g, query, own_g);
    [[unroll]] for (uint d = 0u; d < DEPTH; ++d) CLEAR(sums[d]);
    uint after = seen_by(min(query + BR, sizes.queries)), my_after = seen_by(min(mine + 16u, sizes.queries));
    for (uint key = 0u; key < after; key += BC) {
        keep(0u, next_k);
        keep(1u, next_v);
        barrier();
        if (key + BC < after) {
            fetch(k, key + BC, next_k);
            fetch(v, key + BC, next_v);
        }
        if (!IDLE(key >= my_after)) {
            SCORES(s, own_q, 0u)
            SCORES(gs, own_g, 1u)
            gradients(sizes, mine, key, all_seen(mine, key + BC));
            STAGE_WEIGHTS(s)
            ACCUMULATE(sums, 0u)
        }
        barrier();
    }
    float factor[ELEMENTS];
    [[unroll]] for (uint i = 0u; i < ELEMENTS; ++i) factor[i] = sizes.scale;
    PUT(sums, factor, push.to + row * sizes.width * 2u, query, sizes.queries, sizes.width)
}

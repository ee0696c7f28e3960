#version 460
// The gradient of the queries in 16-bit floats: each subgroup takes 16 queries through all keys they see. On the way it
// leaves the sums of gradient times output of each query, which the gradients of keys and values need as well.
#include "attention_matrix.glsl"
layout(push_constant, std430) uniform Push { uint64_t to, along, g, q, k, v, out_, log_sum, sizes; } push;

shared vec2 stats[BR];  // of each row: what is taken from its exponents, and the sum of gradient times output

LEFT own_q[PARTS][DEPTH], own_g[PARTS][DEPTH];
SUMS s[BLOCKS], gs[BLOCKS], sums[DEPTH];

float number_of(uvec4 eight, uint j) {
#ifdef BRAIN
    return uintBitsToFloat(j % 2u == 0u ? eight[j / 2u] << 16 : eight[j / 2u] & 0xffff0000u);
#else
    return unpackHalf2x16(eight[j / 2u])[j % 2u];
#endif
}
// Gradient times output of one query.
float along_of(Lines g, uint64_t out_, uint line) {
    float total = 0.0;
    if (line >= g.count) return total;
    for (uint d = 0u; d < g.width; d += 8u) {
        Eight given = eight_of(g, line, d);
        uint64_t at = out_ + (uint64_t(line) * g.width + d) * SIZE;
        [[unroll]] for (uint j = 0u; j < 8u; ++j) {
            float x = 0.0;
            [[unroll]] for (uint p = PARTS; p-- > 0u;) x += number_of(given.part[p], j);
            total = fma(x, SIZE == 2 ? number_of(Words(at).v, j) : uintBitsToFloat(Words(at + j / 4u * 16u).v[j % 4u]), total);
        }
    }
    return total;
}
void gradients(Sizes sizes, uint query, uint key, bool all, const bool direct) {
    float scale = sizes.scale * LOG2E;
    [[unroll]] for (uint i = 0u; i < ELEMENTS; ++i) {
        vec2 stat = stats[WARP * 16u + row_at(i, direct)];
        [[unroll]] for (uint j = 0u; j < BLOCKS; ++j) {
            uint at = key + j * 16u + column_at(i, direct);
            float score = s[j][i] * scale, given = gs[j][i];
            if (!all) score = masked(sizes, score, query + row_at(i, direct), at);
            if (DROPOUT) {
                bool gone = words_of(sizes, query + row_at(i, direct), at / 4u)[at % 4u] < sizes.limit;
                given = gone ? 0.0 : given * sizes.kept;
            }
            s[j][i] = power(score - stat.x) * (given - stat.y);
        }
    }
}

Eight next_k[LOADS], next_v[LOADS];
// Take the queries through all keys they see; the first keys have been fetched.
void walk(Sizes sizes, uint query, Lines k, Lines v, const bool direct) {
    uint mine = query + WARP * 16u;
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
            gradients(sizes, mine, key, all_seen(mine, key + BC), direct);
            ACCUMULATE(sums, s, 0u, direct)
        }
        barrier();
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
    fetch(k, 0u, next_k);
    fetch(v, 0u, next_v);
    if (LANE_ < 16u) {
        uint line = mine + LANE_;
        float along = along_of(g, push.out_ + row * sizes.value_width * SIZE, line);
        bool inside = line < sizes.queries;
        stats[WARP * 16u + LANE_] = vec2(inside ? load_f32(push.log_sum + (row + line) * 4u) * LOG2E : INF, along);
        if (inside) store_f32(push.along + (row + line) * 4u, along);
    }
    find_places();
    load_own(q, query, own_q);
    load_own(g, query, own_g);
    [[unroll]] for (uint d = 0u; d < DEPTH; ++d) CLEAR(sums[d]);
    if (direct_) {
        walk(sizes, query, k, v, true);
    } else {
        walk(sizes, query, k, v, false);
    }
    float factor[ELEMENTS];
    [[unroll]] for (uint i = 0u; i < ELEMENTS; ++i) factor[i] = sizes.scale;
    PUT(sums, factor, push.to + row * sizes.width * SIZE, query, sizes.queries, sizes.width)
}

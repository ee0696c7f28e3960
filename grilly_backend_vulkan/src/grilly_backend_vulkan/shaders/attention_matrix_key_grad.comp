#version 460
// The gradients of keys and values in 16-bit floats: each subgroup takes 16 keys through all queries that see them, of all
// heads that share the keys. Scores are transposed, keys down and queries across.
#include "attention_matrix.glsl"
layout(push_constant, std430) uniform Push { uint64_t to_k, to_v, along, g, q, k, v, log_sum, sizes; } push;

shared vec2 stats[BC];  // of each query: what is taken from its exponents, and the sum of gradient times output

LEFT own_k[PARTS][DEPTH], own_v[PARTS][DEPTH];
SUMS s[BLOCKS], gs[BLOCKS], sums_k[DEPTH], sums_v[DEPTH];
Eight next_q[LOADS], next_g[LOADS];

bool dropped(Sizes sizes, uint query, uint key) { return words_of(sizes, query, key / 4u)[key % 4u] < sizes.limit; }
void weigh(Sizes sizes, uint query, uint key, bool all, const bool direct) {
    float scale = sizes.scale * LOG2E;
    [[unroll]] for (uint j = 0u; j < BLOCKS; ++j)
        [[unroll]] for (uint i = 0u; i < ELEMENTS; ++i) {
            uint c = j * 16u + column_at(i, direct);
            float score = s[j][i] * scale;
            if (!all) score = masked(sizes, score, query + c, key + row_at(i, direct));
            s[j][i] = power(score - stats[c].x);
        }
}
void drop(Sizes sizes, uint query, uint key, const bool direct) {
    [[unroll]] for (uint j = 0u; j < BLOCKS; ++j)
        [[unroll]] for (uint i = 0u; i < ELEMENTS; ++i) {
            bool gone = dropped(sizes, query + j * 16u + column_at(i, direct), key + row_at(i, direct));
            gs[j][i] = gone ? 0.0 : s[j][i] * sizes.kept;
        }
}
void gradients(Sizes sizes, uint query, uint key, const bool direct) {
    [[unroll]] for (uint j = 0u; j < BLOCKS; ++j)
        [[unroll]] for (uint i = 0u; i < ELEMENTS; ++i) {
            uint c = j * 16u + column_at(i, direct);
            float given = gs[j][i];
            if (DROPOUT) given = dropped(sizes, query + c, key + row_at(i, direct)) ? 0.0 : given * sizes.kept;
            s[j][i] *= given - stats[c].y;
        }
}
// Take the keys through the queries of one head.
void walk(Sizes sizes, uint key, const bool direct) {
    int64_t b = own_batch, h = own_head;
    uint64_t row = (uint64_t(own_batch) * sizes.heads + own_head) * sizes.queries;
    uint l = gl_LocalInvocationIndex, mine = key + WARP * 16u;
    Lines q = Lines(push.q + (b * sizes.q[0] + h * sizes.q[1]) * 2, sizes.q[2], sizes.queries, sizes.width);
    Lines g = Lines(push.g + (b * sizes.g[0] + h * sizes.g[1]) * 2, sizes.g[2], sizes.queries, sizes.value_width);
    uint query = CAUSAL == 0 ? 0u : uint(max(int(key) - diagonal, 0)) / BC * BC;
    fetch(q, query, next_q);
    fetch(g, query, next_g);
    for (; query < sizes.queries; query += BC) {
        keep(0u, next_q);
        keep(1u, next_g);
        if (l < BC) {
            bool inside = query + l < sizes.queries;
            stats[l] = inside ? vec2(load_f32(push.log_sum + (row + query + l) * 4u) * LOG2E,
                                     load_f32(push.along + (row + query + l) * 4u)) : vec2(INF, 0.0);
        }
        barrier();
        if (query + BC < sizes.queries) {
            fetch(q, query + BC, next_q);
            fetch(g, query + BC, next_g);
        }
        if (!IDLE(mine >= seen_by(query + BC))) {
            SCORES(s, own_k, 0u)
            weigh(sizes, query, mine, all_seen(query, mine + 16u) && query + BC <= sizes.queries, direct);
            if (DROPOUT) {
                drop(sizes, query, mine, direct);
                ACCUMULATE(sums_v, gs, 1u, direct)
            } else {
                ACCUMULATE(sums_v, s, 1u, direct)
            }
            SCORES(gs, own_v, 1u)
            gradients(sizes, query, mine, direct);
            ACCUMULATE(sums_k, s, 0u, direct)
        }
        barrier();
    }
}

void main() {
    Sizes sizes = Sizes(push.sizes);
    uint blocks = (sizes.keys + BR - 1u) / BR, place = group_number() / blocks, batch = place / sizes.groups;
    if (batch >= sizes.batch) return;
    uint key = group_number() % blocks * BR, group = place % sizes.groups, share = sizes.heads / sizes.groups;
    enter_batch(sizes, batch);
    int64_t b = batch, n = group;
    Lines k = Lines(push.k + (b * sizes.k[0] + n * sizes.k[1]) * 2, sizes.k[2], end, sizes.width);
    Lines v = Lines(push.v + (b * sizes.v[0] + n * sizes.v[1]) * 2, sizes.v[2], end, sizes.value_width);
    find_places();
    load_own(k, key, own_k);
    load_own(v, key, own_v);
    [[unroll]] for (uint d = 0u; d < DEPTH; ++d) {
        CLEAR(sums_k[d]);
        CLEAR(sums_v[d]);
    }
    if (key < end)
        for (uint h = 0u; h < share; ++h) {
            enter_head(sizes, group * share + h);
            if (direct_) {
                walk(sizes, key, true);
            } else {
                walk(sizes, key, false);
            }
        }
    uint64_t row = uint64_t(place) * sizes.keys;
    float factor[ELEMENTS];
    [[unroll]] for (uint i = 0u; i < ELEMENTS; ++i) factor[i] = sizes.scale;
    PUT(sums_k, factor, push.to_k + row * sizes.width * SIZE, key, sizes.keys, sizes.width)
    [[unroll]] for (uint i = 0u; i < ELEMENTS; ++i) factor[i] = 1.0;
    PUT(sums_v, factor, push.to_v + row * sizes.value_width * SIZE, key, sizes.keys, sizes.value_width)
}

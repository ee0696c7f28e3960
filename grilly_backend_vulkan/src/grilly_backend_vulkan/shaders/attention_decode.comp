#version 460
// One part of the keys for all rows (queries of all heads) that share them, so that keys and values are read once.
#include "attention_decode.glsl"
layout(constant_id = 4) const bool WIDE = true;      // four neighbours are aligned, and wholly inside a line
layout(constant_id = 5) const uint ROWS = 1;         // at least as many as there are
layout(constant_id = 6) const uint VALUE_QUADS = 16; // a power of two, at least a quarter of the values' width
layout(constant_id = 7) const bool ALONE = true;     // there is one part
layout(constant_id = 8) const uint EACH = 4;         // quads of a line that a lane takes
const uint WIDEST = 256, TOGETHER = PART / VALUE_QUADS;
const uint LANES_ = 8, TURNS = LANES_;  // that share a key, so that they read neighbouring elements
const bool HELD = ROWS * EACH <= 16;    // a lane's share of the queries fits registers: f32 gained 7 % on an H200
const uint AHEAD = 4;                   // values that are read before any is used

shared vec4 queries_[ROWS * WIDEST / 4];
shared float weights[ROWS * PART];
shared vec4 joined_values[PART];
shared float pieces[PART * (LANES_ + 1)];  // of the scores of one row

vec4 four_at(uint64_t at, uint d, uint width) {
    if (WIDE) {
#if SIZE == 4
        return uintBitsToFloat(R_s16(at + uint64_t(d) * 4u).v);
#else
        uvec2 bits = R_s8(at + uint64_t(d) * 2u).v;
#ifdef BRAIN
        return uintBitsToFloat(uvec4(bits.x << 16, bits.x & 0xffff0000u, bits.y << 16, bits.y & 0xffff0000u));
#else
        return vec4(unpackHalf2x16(bits.x), unpackHalf2x16(bits.y));
#endif
#endif
    }
    vec4 found = vec4(0.0);
    [[unroll]] for (uint i = 0u; i < 4u; ++i)
        if (d + i < width) found[i] = LOAD(at, d + i);
    return found;
}
// The head and the query of a row of the present group of heads.
uint head_of(Sizes sizes, uint group, uint row) { return group * (sizes.heads / sizes.groups) + row / sizes.queries; }
uint query_of(Sizes sizes, uint row) { return row % sizes.queries; }

void load_queries(Sizes sizes, uint batch, uint group, uint rows, uint quads) {
    for (uint e = gl_LocalInvocationIndex; e < ROWS * quads; e += PART) {
        uint row = e / quads, d = e % quads * 4u;
        int64_t at = int64_t(batch) * sizes.q[0] + int64_t(head_of(sizes, group, row)) * sizes.q[1]
            + int64_t(query_of(sizes, row)) * sizes.q[2];
        queries_[row * WIDEST / 4 + d / 4u] = row < rows ? four_at(push.q + at * SIZE, d, sizes.width) : vec4(0.0);
    }
}
// The scores of this thread's key: all threads read keys together, a few lanes to each, then join the pieces.
void score_keys(Sizes sizes, uint batch, uint group, uint part, uint quads, out float score[ROWS]) {
    uint l = gl_LocalInvocationIndex, lane = l % LANES_;
    uint64_t keys = push.k + (int64_t(batch) * sizes.k[0] + int64_t(group) * sizes.k[1]) * SIZE;
    vec4 held[HELD ? ROWS : 1][HELD ? EACH : 1];
    if (HELD)
        [[unroll]] for (uint r = 0u; r < ROWS; ++r)
            [[unroll]] for (uint i = 0u; i < EACH; ++i)
                held[r][i] = queries_[r * WIDEST / 4 + min(lane + i * LANES_, quads - 1u)];
    float piece[TURNS][ROWS];
    [[unroll]] for (uint t = 0u; t < TURNS; ++t) {
        uint key = part * PART + t * (PART / LANES_) + l / LANES_;
        uint64_t at = keys + int64_t(key) * sizes.k[2] * SIZE;
        [[unroll]] for (uint r = 0u; r < ROWS; ++r) piece[t][r] = 0.0;
        if (key >= end) continue;
        [[unroll]] for (uint i = 0u; i < EACH; ++i) {
            uint d = lane + i * LANES_;
            if (d >= quads) continue;
            vec4 four = four_at(at, d * 4u, sizes.width);
            [[unroll]] for (uint r = 0u; r < ROWS; ++r)
                piece[t][r] += dot(HELD ? held[HELD ? r : 0u][HELD ? i : 0u] : queries_[r * WIDEST / 4 + d], four);
        }
    }
    [[unroll]] for (uint r = 0u; r < ROWS; ++r) {
        [[unroll]] for (uint t = 0u; t < TURNS; ++t)
            pieces[(t * (PART / LANES_) + l / LANES_) * (LANES_ + 1u) + lane] = piece[t][r];
        barrier();
        score[r] = 0.0;
        [[unroll]] for (uint i = 0u; i < LANES_; ++i) score[r] += pieces[l * (LANES_ + 1u) + i];
        barrier();
    }
}
// Values of the part weighed, four elements of each row; what no row sees may be anything, so it is not multiplied.
void weigh_values(Sizes sizes, uint batch, uint group, uint part, uint d, inout vec4 sum[ROWS]) {
    uint l = gl_LocalInvocationIndex, count = min(end, (part + 1u) * PART) - min(end, part * PART);
    uint64_t at = push.v + (int64_t(batch) * sizes.v[0] + int64_t(group) * sizes.v[1]) * SIZE;
    for (uint first = l / VALUE_QUADS; first < count; first += TOGETHER * AHEAD) {
        vec4 four[AHEAD];
        [[unroll]] for (uint j = 0u; j < AHEAD; ++j) {
            uint i = min(first + j * TOGETHER, count - 1u);
            four[j] = four_at(at + int64_t(part * PART + i) * sizes.v[2] * SIZE, d, sizes.value_width);
        }
        [[unroll]] for (uint j = 0u; j < AHEAD; ++j)
            [[unroll]] for (uint r = 0u; r < ROWS; ++r) {
                uint i = first + j * TOGETHER;
                float weight = i < count ? weights[r * PART + i] : 0.0;
                if (weight != 0.0) sum[r] += weight * four[j];
            }
    }
}
void reduce(uint l, bool largest) {
    barrier();
    for (uint half_ = PART / 2u; half_ > 0u; half_ >>= 1) {
        if (l < half_)
            [[unroll]] for (uint r = 0u; r < ROWS; ++r) {
                float a = weights[r * PART + l], b = weights[r * PART + l + half_];
                weights[r * PART + l] = largest ? max(a, b) : a + b;
            }
        barrier();
    }
}

void main() {
    Sizes sizes = Sizes(push.sizes);
    uint parts = part_count(sizes), number = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
    uint part = number % parts, group = number / parts % sizes.groups, batch = number / parts / sizes.groups;
    if (batch >= sizes.batch) return;
    enter_batch(sizes, batch);
    uint l = gl_LocalInvocationIndex, key = part * PART + l, rows = sizes.heads / sizes.groups * sizes.queries;
    uint quads = (sizes.width + 3u) / 4u;
    load_queries(sizes, batch, group, rows, quads);
    barrier();

    float score[ROWS];
    score_keys(sizes, batch, group, part, quads, score);
    [[unroll]] for (uint r = 0u; r < ROWS; ++r) {
        if (r < rows) enter_head(sizes, head_of(sizes, group, r));
        score[r] = masked(sizes, score[r] * sizes.scale * LOG2E, query_of(sizes, r), key);
        weights[r * PART + l] = score[r];
    }
    reduce(l, true);
    float top[ROWS], total[ROWS];
    [[unroll]] for (uint r = 0u; r < ROWS; ++r) top[r] = weights[r * PART];
    barrier();
    [[unroll]] for (uint r = 0u; r < ROWS; ++r) {
        score[r] = score[r] == -INF ? 0.0 : power(score[r] - top[r]);
        weights[r * PART + l] = score[r];
    }
    reduce(l, false);
    [[unroll]] for (uint r = 0u; r < ROWS; ++r) total[r] = weights[r * PART];
    barrier();
    [[unroll]] for (uint r = 0u; r < ROWS; ++r) weights[r * PART + l] = score[r];
    barrier();

    vec4 sum[ROWS];
    [[unroll]] for (uint r = 0u; r < ROWS; ++r) sum[r] = vec4(0.0);
    uint d = l % VALUE_QUADS * 4u;
    if (d < sizes.value_width) weigh_values(sizes, batch, group, part, d, sum);
    for (uint r = 0u; r < rows; ++r) {
        [[unroll]] for (uint x = 0u; x < ROWS; ++x) if (x == r) joined_values[l] = sum[x];
        barrier();
        for (uint half_ = TOGETHER / 2u; half_ > 0u; half_ >>= 1) {
            if (l / VALUE_QUADS < half_) joined_values[l] += joined_values[l + half_ * VALUE_QUADS];
            barrier();
        }
        uint row = (batch * sizes.heads + head_of(sizes, group, r)) * sizes.queries + query_of(sizes, r);
        float my_top = 0.0, my_total = 0.0;
        [[unroll]] for (uint x = 0u; x < ROWS; ++x)
            if (x == r) {
                my_top = top[x];
                my_total = total[x];
            }
        uint64_t place = uint64_t(row) * parts + part;
        if (l < VALUE_QUADS)
            [[unroll]] for (uint i = 0u; i < 4u; ++i)
                if (d + i < sizes.value_width) {
                    if (ALONE) put_row(sizes, row, d + i, joined_values[l][i], my_total);
                    else store_f32(push.sums + (place * sizes.value_width + d + i) * 4u, joined_values[l][i]);
                }
        if (l == 0u) {
            if (ALONE) {
                put_log_sum(row, my_top, my_total);
            } else {
                store_f32(push.stats + place * 8u, my_top);
                store_f32(push.stats + place * 8u + 4u, my_total);
            }
        }
        barrier();
    }
}

#version 460
// Products of f32 matrices in tiles of BM x BN. Threads hold TM x TN sums; the next STEP terms are fetched into
// registers while the present ones, in shared memory twice over, are multiplied. Rows and columns beyond the edge are
// clamped, as their sums are never stored; terms beyond the end are zero.
// Shared quads are stored with their place exchanged (by `swapped`): neither storing lines along k nor reading
// then meets a bank twice, without padding, so that two tiles of 128 x 128 fit 32 KiB.
#include "matmul.glsl"
const uint THREADS = BM / TM * (BN / TN);
layout(local_size_x = BM / TM * BN / TN) in;
layout(constant_id = 0) const bool A_ALONG_K = true;   // neighbours in memory lie along k
layout(constant_id = 1) const bool B_ALONG_K = false;
layout(constant_id = 2) const bool A_WIDE = true;      // four at a time are aligned, and wholly inside or outside
layout(constant_id = 3) const bool B_WIDE = true;
layout(constant_id = 4) const bool K_TAIL = false;     // the last step of a part may be cut
layout(constant_id = 5) const bool OUT_WIDE = true;
layout(constant_id = 6) const uint ACTIVATION = 0;
layout(constant_id = 7) const bool FINISH = false;     // there is a bias, a residual or an activation

const uint DOWN = BM / TM, ACROSS = BN / TN, A_QUADS = BM * STEP / 4 / THREADS, B_QUADS = BN * STEP / 4 / THREADS;
layout(buffer_reference, std430, buffer_reference_align = 4) readonly buffer Floats { float v[]; };

shared vec4 tile_a[2][STEP][BM / 4];
shared vec4 tile_b[2][STEP][BN / 4];

uint swapped(uint k) { return k / 4u * (32u / STEP); }

vec4 fetched_a[A_QUADS], fetched_b[B_QUADS];
uint64_t at_a, at_b;                               // of the present step
int place_a[A_QUADS], place_b[B_QUADS];            // of what a thread fetches, from `at`, in elements

// Quad `e` of a step of an operand with `side` rows in a tile: its first row and its first term.
#define ROW_OF(e, along_k, side) (along_k ? (e) / (STEP / 4) : (e) % (side / 4) * 4u)
#define TERM_OF(e, along_k, side) (along_k ? (e) % (STEP / 4) * 4u : (e) / (side / 4))

int place_of(uint e, uint side, bool along_k, bool wide, int step_, uint last) {
    uint r = ROW_OF(e, along_k, side), k = TERM_OF(e, along_k, side);
    if (along_k) return int(min(r, last)) * step_ + int(k);
    return int(k) * step_ + int(min(r, wide ? last - 3u : last));
}
vec4 fetch(uint64_t from, int place, uint e, uint side, bool along_k, bool wide, uint last, uint left) {
    uint k = TERM_OF(e, along_k, side);
    if (wide) return K_TAIL && k >= left ? vec4(0.0) : Quads(from + int64_t(place) * 4).v;
    vec4 found = vec4(0.0);
    uint room = last - min(ROW_OF(e, along_k, side), last);  // rows of the quad beyond the first
    [[unroll]] for (uint j = 0u; j < 4u; ++j)
        if (!K_TAIL || (along_k ? k + j : k) < left)
            found[j] = Floats(from + (int64_t(place) + (along_k ? j : min(j, room))) * 4).v[0];
    return found;
}
void find_places() {
    uint l = gl_LocalInvocationIndex;
    [[unroll]] for (uint i = 0u; i < A_QUADS; ++i)
        place_a[i] = place_of(l + i * THREADS, BM, A_ALONG_K, A_WIDE, push.a_step, push.m - 1u - tile_row);
    [[unroll]] for (uint i = 0u; i < B_QUADS; ++i)
        place_b[i] = place_of(l + i * THREADS, BN, B_ALONG_K, B_WIDE, push.b_step, push.n - 1u - tile_column);
}
void fetch_step(uint left) {
    uint l = gl_LocalInvocationIndex, row = push.m - 1u - tile_row, column = push.n - 1u - tile_column;
    [[unroll]] for (uint i = 0u; i < A_QUADS; ++i)
        fetched_a[i] = fetch(at_a, place_a[i], l + i * THREADS, BM, A_ALONG_K, A_WIDE, row, left);
    [[unroll]] for (uint i = 0u; i < B_QUADS; ++i)
        fetched_b[i] = fetch(at_b, place_b[i], l + i * THREADS, BN, B_ALONG_K, B_WIDE, column, left);
    at_a += A_ALONG_K ? int64_t(STEP * 4) : int64_t(push.a_step) * (STEP * 4);
    at_b += B_ALONG_K ? int64_t(STEP * 4) : int64_t(push.b_step) * (STEP * 4);
}
#define KEEP(tile, fetched, count, along_k, side)                                                             \
    [[unroll]] for (uint i = 0u; i < count; ++i) {                                                            \
        uint e = gl_LocalInvocationIndex + i * THREADS;                                                       \
        uint r = ROW_OF(e, along_k, side), k = TERM_OF(e, along_k, side), q = (r / 4u) ^ swapped(k);       \
        if (along_k) [[unroll]] for (uint j = 0u; j < 4u; ++j) tile[buffer_][k + j][q][r % 4u] = fetched[i][j]; \
        else tile[buffer_][k][q] = fetched[i];                                                                \
    }
void keep(uint buffer_) {
    KEEP(tile_a, fetched_a, A_QUADS, A_ALONG_K, BM)
    KEEP(tile_b, fetched_b, B_QUADS, B_ALONG_K, BN)
}

vec4 sums[TM][TN / 4];
// Threads of a subgroup of 32 make 4 x 8 places of 4 x 4: few distinct reads of shared memory.
uint thread_y() { return gl_LocalInvocationIndex / 32u / (ACROSS / 8u) * 4u + gl_LocalInvocationIndex % 32u / 8u; }
uint thread_x() { return gl_LocalInvocationIndex / 32u % (ACROSS / 8u) * 8u + gl_LocalInvocationIndex % 8u; }
void multiply(uint buffer_) {
    uint y = thread_y(), x = thread_x();
    [[unroll]] for (uint k = 0u; k < STEP; ++k) {
        vec4 u[TM / 4], v[TN / 4];
        [[unroll]] for (uint i = 0u; i < TM / 4; ++i) u[i] = tile_a[buffer_][k][(y ^ swapped(k)) + i * DOWN];
        [[unroll]] for (uint j = 0u; j < TN / 4; ++j) v[j] = tile_b[buffer_][k][(x ^ swapped(k)) + j * ACROSS];
        [[unroll]] for (uint i = 0u; i < TM; ++i)
            [[unroll]] for (uint j = 0u; j < TN / 4; ++j) sums[i][j] = fma(vec4(u[i / 4u][i % 4u]), v[j], sums[i][j]);
    }
}
// Multiplies a step and fetches the one after it into the other buffer.
void next_step(uint left, uint buffer_) {
    fetch_step(left);
    multiply(buffer_);
    keep(buffer_ ^ 1u);
    barrier();
}

float finished(float value, uint r, uint c) {
    if (!FINISH) return value;
    if (push.bias != 0) value += load_f32(push.bias + uint64_t(c) * 4u);
    value = activated(value, ACTIVATION);
    if (push.residual != 0) {
        float kept = load_f32(push.residual + (tile_to + uint64_t(r) * push.n + c) * 4u);
        value = with_kept(value, kept, ACTIVATION);
    }
    return value;
}
void put() {
    uint row = tile_row + thread_y() * 4u, column = tile_column + thread_x() * 4u;
    [[unroll]] for (uint i = 0u; i < TM; ++i) {
        uint r = row + i / 4u * DOWN * 4u + i % 4u;
        if (r >= push.m) continue;
        [[unroll]] for (uint j = 0u; j < TN / 4; ++j) {
            uint c = column + j * ACROSS * 4u;
            uint64_t there = push.to + (tile_to + uint64_t(r) * push.n + c) * 4u;
            vec4 value;
            [[unroll]] for (uint x = 0u; x < 4u; ++x)
                if (c + x < push.n) value[x] = finished(sums[i][j][x], r, c + x);
            if (OUT_WIDE) {
                if (c < push.n) QuadsOut(there).v = value;
            } else {
                [[unroll]] for (uint x = 0u; x < 4u; ++x) if (c + x < push.n) store_f32(there + x * 4u, value[x]);
            }
        }
    }
}

void main() {
    if (!find_tile(BM, BN)) return;
    [[unroll]] for (uint i = 0u; i < TM; ++i) [[unroll]] for (uint j = 0u; j < TN / 4; ++j) sums[i][j] = vec4(0.0);
    uint k = tile_part * push.chunk, end = min(k + push.chunk, push.k);
    at_a = push.a + (a_start + (A_ALONG_K ? int64_t(tile_row) * push.a_step + k : int64_t(k) * push.a_step + tile_row)) * 4;
    at_b = push.b
        + (b_start + (B_ALONG_K ? int64_t(tile_column) * push.b_step + k : int64_t(k) * push.b_step + tile_column)) * 4;
    find_places();
    fetch_step(end - k);
    keep(0u);
    barrier();
    // Two steps a turn, so that it is known which buffer is read where code is made: 0.89 to 0.93 of cuBLAS on an H200,
    // where one step a turn with the buffer in a variable gives 0.77.
    for (; k + 2u * STEP < end; k += 2u * STEP) {
        next_step(end - k - STEP, 0u);
        next_step(end - k - 2u * STEP, 1u);
    }
    if (k + STEP < end) {
        next_step(end - k - STEP, 0u);
        multiply(1u);
    } else {
        multiply(0u);
    }
    put();
}

#version 460
// Products of batches of matrices of any strides, with an optional bias of the columns. Each of 16 x 16 threads makes
// R x R elements of a tile; tiles are walked in a loop over the grid. Small tiles take more terms at a time, and the
// next terms are fetched while the present ones are multiplied: small products wait for memory more than they compute.
#include "types.glsl"
#if defined(KIND_f) && SIZE <= 4
#define FINISHES
#include "matmul_finish.glsl"
#endif
layout(local_size_x = 256) in;
layout(constant_id = 0) const uint R = 4;
layout(constant_id = 1) const bool A_ROWS = true;   // neighbours in memory lie along k (rows of A are packed)
layout(constant_id = 2) const bool B_ROWS = true;   // neighbours in memory lie along the columns
layout(constant_id = 3) const bool BIAS = false;
layout(constant_id = 4) const bool SUMS = false;     // keep sums of half types in f32, to be joined
layout(constant_id = 5) const uint ACTIVATION = 0;
layout(constant_id = 6) const bool KEPT = false;     // there is a residual
const uint K_TILE = R == 1 ? 64 : R == 2 ? 32 : 16;
const uint TILE = 16 * R;
const uint EACH = K_TILE * TILE / 256;  // elements of an operand that a thread fetches

layout(push_constant, std430) uniform Push {
    uint64_t to, a, b, bias, residual;
    uint m, n, k, batch;
    int a_row, a_column, b_row, b_column;
    uint size[2];                    // of the batch's inner two axes, innermost first
    int a_batch[3], b_batch[3], bias_step;
    uint chunk, chunks;              // parts of k; each has an output of its own
} push;

shared C tile_a[K_TILE][TILE + 1];
shared C tile_b[K_TILE][TILE + 1];

void batch_at(uint i, out uint64_t a, out uint64_t b) {
    uint j = i / push.size[0], x = i - j * push.size[0];
    uint z = j / push.size[1], y = j - z * push.size[1];
    a = push.a + (int64_t(x) * push.a_batch[0] + int64_t(y) * push.a_batch[1] + int64_t(z) * push.a_batch[2]) * SIZE;
    b = push.b + (int64_t(x) * push.b_batch[0] + int64_t(y) * push.b_batch[1] + int64_t(z) * push.b_batch[2]) * SIZE;
}
C next_a[EACH], next_b[EACH];

#define A_ROW(t) (A_ROWS ? (t) / K_TILE : (t) % TILE)
#define A_TERM(t) (A_ROWS ? (t) % K_TILE : (t) / TILE)
#define B_COLUMN(t) (B_ROWS ? (t) % TILE : (t) / K_TILE)
#define B_TERM(t) (B_ROWS ? (t) / TILE : (t) % K_TILE)

void fetch(uint64_t a, uint64_t b, uint row, uint column, uint k0, uint end) {
    [[unroll]] for (uint n = 0; n < EACH; ++n) {
        uint t = gl_LocalInvocationIndex + n * 256u;
        uint i = row + A_ROW(t), k = k0 + A_TERM(t);
        bool inside = i < push.m && k < end;
        next_a[n] = inside ? LOAD(a, int64_t(i) * push.a_row + int64_t(k) * push.a_column) : C(0);
        uint j = column + B_COLUMN(t);
        k = k0 + B_TERM(t);
        inside = j < push.n && k < end;
        next_b[n] = inside ? LOAD(b, int64_t(k) * push.b_row + int64_t(j) * push.b_column) : C(0);
    }
}
void keep() {
    [[unroll]] for (uint n = 0; n < EACH; ++n) {
        uint t = gl_LocalInvocationIndex + n * 256u;
        tile_a[A_TERM(t)][A_ROW(t)] = next_a[n];
        tile_b[B_TERM(t)][B_COLUMN(t)] = next_b[n];
    }
}

void tile(uint64_t a, uint64_t b, uint64_t to, uint row, uint column, uint begin) {
    uint x = gl_LocalInvocationID.x % 16u, y = gl_LocalInvocationID.x / 16u;
    C sums[R][R];
    [[unroll]] for (uint i = 0; i < R; ++i) [[unroll]] for (uint j = 0; j < R; ++j) sums[i][j] = C(0);
    uint end = min(begin + push.chunk, push.k);
    fetch(a, b, row, column, begin, end);
    for (uint k0 = begin; k0 < end; k0 += K_TILE) {
        keep();
        barrier();
        if (k0 + K_TILE < end) fetch(a, b, row, column, k0 + K_TILE, end);
        [[unroll]] for (uint k = 0; k < K_TILE; ++k) {
            C left[R], right[R];
            [[unroll]] for (uint i = 0; i < R; ++i) left[i] = tile_a[k][y + 16u * i];
            [[unroll]] for (uint j = 0; j < R; ++j) right[j] = tile_b[k][x + 16u * j];
            [[unroll]] for (uint i = 0; i < R; ++i)
                [[unroll]] for (uint j = 0; j < R; ++j) sums[i][j] += left[i] * right[j];
        }
        barrier();
    }
    [[unroll]] for (uint i = 0; i < R; ++i) {
        [[unroll]] for (uint j = 0; j < R; ++j) {
            uint r = row + y + 16u * i, c = column + x + 16u * j;
            if (r >= push.m || c >= push.n) continue;
            C value = sums[i][j];
            if (BIAS && begin == 0u) value += LOAD(push.bias, int64_t(c) * push.bias_step);
            int64_t at = int64_t(r) * push.n + c;
#ifdef FINISHES
            if (SUMS) {
                store_f32(to + at * 4, value);
                continue;
            }
            value = activated(value, ACTIVATION);
            if (KEPT) value = with_kept(value, LOAD(push.residual + (to - push.to), at), ACTIVATION);
#endif
            STORE(to, at, value);
        }
    }
}

void main() {
    uint across = (push.n + TILE - 1u) / TILE, down = (push.m + TILE - 1u) / TILE;
    for (uint t = gl_WorkGroupID.x; t < across * down * push.batch * push.chunks; t += gl_NumWorkGroups.x) {
        uint one = t / across, column = t - one * across, place = one / down, row = one - place * down;
        uint part = place / push.batch;
        uint64_t a, b;
        batch_at(place - part * push.batch, a, b);
        tile(a, b, push.to + uint64_t(place) * push.m * push.n * (SUMS ? 4 : SIZE), row * TILE, column * TILE, part * push.chunk);
    }
}

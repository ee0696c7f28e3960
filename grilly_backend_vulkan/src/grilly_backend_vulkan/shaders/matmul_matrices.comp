#version 460
// Products on cooperative matrices, in tiles of BM x BN; subgroups hold WM x WN sums in f32 (or i32). The next STEP
// terms are fetched into registers while the present ones, in shared memory, are multiplied. What made it fast
// on an H200 (250 -> 327 TFLOP/s): the barrier before the last multiplications of a step, so that storing the next step and
// the barrier overlap with them. Two steps in shared memory were slower, as were rotated fragments and larger tiles.
// Lines are read 16 bytes at a time: they are aligned and end in zeros, see matmul_pack.comp. Rows and columns
// beyond the edge are clamped, as their sums are never stored.
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_EXT_shader_explicit_arithmetic_types_int8 : require
#ifdef BRAIN
#extension GL_EXT_bfloat16 : require
#endif
#include "matmul.glsl"
// The factors' type, that of the sums, how one becomes the other, and how many terms subgroups multiply at once.
#if defined(BRAIN)
#define FACTOR bfloat16_t
#define SUM float
#define TERMS 16
#define NARROWED(a, b) (float_to_brain(a) | float_to_brain(b) << 16)
#elif defined(WHOLE)
#define FACTOR int8_t
#define SUM int
#define TERMS 32
#else
#define FACTOR float16_t
#define SUM float
#define TERMS 16
// The device rounds: doing it in integers made everything take twice as long.
#define NARROWED(a, b) packFloat2x16(f16vec2(a, b))
#endif
const uint WARPS = BM / WM * (BN / WN), THREADS = WARPS * 32;
layout(local_size_x = BM / WM * (BN / WN) * 32) in;
layout(constant_id = 0) const bool A_ALONG_K = true;
layout(constant_id = 1) const bool B_ALONG_K = false;
layout(constant_id = 2) const bool K_TAIL = false;     // the last step of a part may be cut
layout(constant_id = 3) const bool NARROW = true;      // the output is of the factors' type, not of that of the sums
layout(constant_id = 4) const bool OUT_WIDE = true;    // 16 bytes of a line of the output are aligned, and all inside
layout(constant_id = 5) const bool DIRECT = true;      // nothing is done to the sums, and they are not converted
layout(constant_id = 6) const uint ACTIVATION = 0;
layout(constant_id = 7) const bool FINISH = false;     // there is a bias, a residual or an activation

const uint EACH = 16 / SIZE, LINE = STEP / EACH;       // elements of 16 bytes; these in a line along k of a tile
const uint A_LINE = A_ALONG_K ? LINE + 1 : BM / EACH + 1, A_LINES = A_ALONG_K ? BM : STEP;
const uint B_LINE = B_ALONG_K ? LINE + 1 : BN / EACH + 1, B_LINES = B_ALONG_K ? BN : STEP;
const uint A_LOADS = BM * LINE / THREADS, B_LOADS = BN * LINE / THREADS, SLICES = STEP / TERMS;
layout(buffer_reference, std430, buffer_reference_align = 16) readonly buffer Words { uvec4 v; };
layout(buffer_reference, std430, buffer_reference_align = 16) writeonly buffer WordsOut { uvec4 v; };
layout(buffer_reference, std430, buffer_reference_align = 16) writeonly buffer Sums { SUM v[]; };

shared uvec4 tile_a[A_LINES * A_LINE];
shared uvec4 tile_b[B_LINES * B_LINE];
shared uvec4 staged[WARPS * 64];                       // 16 x 16 sums of each subgroup

uvec4 fetched_a[A_LOADS], fetched_b[B_LOADS];
uint64_t at_a, at_b;
int place_a[A_LOADS], place_b[B_LOADS];                // of what a thread fetches, from `at`, in elements
uint k, end;

// Load `e` of a step: its line within the tile, and its place within the line.
#define LINE_OF(e, along_k, side) (along_k ? (e) / LINE : (e) / (side / EACH))
#define PLACE_OF(e, along_k, side) (along_k ? (e) % LINE : (e) % (side / EACH))
#define TERM_OF(e, along_k, side) (along_k ? PLACE_OF(e, along_k, side) * EACH : LINE_OF(e, along_k, side))

int place_of(uint e, uint side, bool along_k, int step_, uint first, uint rows) {
    uint line = LINE_OF(e, along_k, side), at = PLACE_OF(e, along_k, side) * EACH;
    if (along_k) return int(min(line, rows - 1u - first)) * step_ + int(at);
    return int(line) * step_ + int(min(at, (rows - 1u - first) / EACH * EACH));
}
void fetch() {
    uint l = gl_LocalInvocationIndex;
    [[unroll]] for (uint i = 0u; i < A_LOADS; ++i)
        fetched_a[i] = K_TAIL && k + TERM_OF(l + i * THREADS, A_ALONG_K, BM) >= end
            ? uvec4(0u) : Words(at_a + int64_t(place_a[i]) * SIZE).v;
    [[unroll]] for (uint i = 0u; i < B_LOADS; ++i)
        fetched_b[i] = K_TAIL && k + TERM_OF(l + i * THREADS, B_ALONG_K, BN) >= end
            ? uvec4(0u) : Words(at_b + int64_t(place_b[i]) * SIZE).v;
}
void advance() {  // the last step is fetched twice, and not used
    if (k + STEP < end) {
        k += STEP;
        at_a += A_ALONG_K ? int64_t(STEP * SIZE) : int64_t(push.a_step) * (STEP * SIZE);
        at_b += B_ALONG_K ? int64_t(STEP * SIZE) : int64_t(push.b_step) * (STEP * SIZE);
    }
}
void keep() {
    uint l = gl_LocalInvocationIndex;
    [[unroll]] for (uint i = 0u; i < A_LOADS; ++i) {
        uint e = l + i * THREADS;
        tile_a[LINE_OF(e, A_ALONG_K, BM) * A_LINE + PLACE_OF(e, A_ALONG_K, BM)] = fetched_a[i];
    }
    [[unroll]] for (uint i = 0u; i < B_LOADS; ++i) {
        uint e = l + i * THREADS;
        tile_b[LINE_OF(e, B_ALONG_K, BN) * B_LINE + PLACE_OF(e, B_ALONG_K, BN)] = fetched_b[i];
    }
}

#define MATRIX(type, rows, columns, use) coopmat<type, gl_ScopeSubgroup, rows, columns, use>
const uint DOWN = WM / 16, ACROSS = WN / 16;
MATRIX(SUM, 16, 16, gl_MatrixUseAccumulator) sums[DOWN][ACROSS];
MATRIX(FACTOR, 16, TERMS, gl_MatrixUseA) left[DOWN];
MATRIX(FACTOR, TERMS, 16, gl_MatrixUseB) right[ACROSS];
uint warp_row() { return gl_SubgroupID / (BN / WN) * WM; }
uint warp_column() { return gl_SubgroupID % (BN / WN) * WN; }

void load_slice(uint s) {
    [[unroll]] for (uint i = 0u; i < DOWN; ++i) {
        uint r = warp_row() + i * 16u;
        if (A_ALONG_K)
            coopMatLoad(left[i], tile_a, r * A_LINE + s * TERMS / EACH, A_LINE, gl_CooperativeMatrixLayoutRowMajor);
        else
            coopMatLoad(left[i], tile_a, s * TERMS * A_LINE + r / EACH, A_LINE, gl_CooperativeMatrixLayoutColumnMajor);
    }
    [[unroll]] for (uint j = 0u; j < ACROSS; ++j) {
        uint c = warp_column() + j * 16u;
        if (B_ALONG_K)
            coopMatLoad(right[j], tile_b, c * B_LINE + s * TERMS / EACH, B_LINE, gl_CooperativeMatrixLayoutColumnMajor);
        else
            coopMatLoad(right[j], tile_b, s * TERMS * B_LINE + c / EACH, B_LINE, gl_CooperativeMatrixLayoutRowMajor);
    }
}
void multiply_slice() {
    [[unroll]] for (uint i = 0u; i < DOWN; ++i)
        [[unroll]] for (uint j = 0u; j < ACROSS; ++j) sums[i][j] = coopMatMulAdd(left[i], right[j], sums[i][j]);
}

#ifndef WHOLE
float given(uint64_t from, uint64_t i) { return NARROW ? LOAD(from, i) : load_f32(from + i * 4u); }
#endif
// Eight neighbours of a line of the output.
void put_eight(uint r, uint c, uvec4 low, uvec4 high) {
    if (r >= push.m || c >= push.n) return;
    uint64_t first = tile_to + uint64_t(r) * push.n + c;
    uint have = min(8u, push.n - c), word[8];
    [[unroll]] for (uint j = 0u; j < 8u; ++j) word[j] = j < 4u ? low[j % 4u] : high[j % 4u];
#ifndef WHOLE
    if (FINISH)
        [[unroll]] for (uint j = 0u; j < 8u; ++j) {
            if (j >= have) continue;
            float value = uintBitsToFloat(word[j]);
            if (push.bias != 0) value += given(push.bias, c + j);
            value = activated(value, ACTIVATION);
            if (push.residual != 0) value = with_kept(value, given(push.residual, first + j), ACTIVATION);
            word[j] = floatBitsToUint(value);
        }
    if (NARROW) {
        uvec4 packed;
        [[unroll]] for (uint j = 0u; j < 4u; ++j)
            packed[j] = NARROWED(uintBitsToFloat(word[2u * j]), uintBitsToFloat(word[2u * j + 1u]));
        if (OUT_WIDE) {
            WordsOut(push.to + first * 2u).v = packed;
        } else {
            [[unroll]] for (uint j = 0u; j < 8u; ++j) if (j < have) store_u16(push.to + (first + j) * 2u, packed[j / 2u] >> (16u * (j % 2u)));
        }
        return;
    }
#endif
    if (OUT_WIDE) {
        WordsOut(push.to + first * 4u).v = uvec4(word[0], word[1], word[2], word[3]);
        WordsOut(push.to + first * 4u + 16u).v = uvec4(word[4], word[5], word[6], word[7]);
    } else {
        [[unroll]] for (uint j = 0u; j < 8u; ++j) if (j < have) store_u32(push.to + (first + j) * 4u, word[j]);
    }
}
void put() {
    bool inside = tile_row + BM <= push.m && tile_column + BN <= push.n;
    uint lane = gl_SubgroupInvocationID, at = gl_SubgroupID * 64u;
    [[unroll]] for (uint i = 0u; i < DOWN; ++i) {
        [[unroll]] for (uint j = 0u; j < ACROSS; ++j) {
            uint r = tile_row + warp_row() + i * 16u, c = tile_column + warp_column() + j * 16u;
            if (DIRECT && inside) {
                Sums there = Sums(push.to + (tile_to + uint64_t(r) * push.n + c) * 4u);
                coopMatStore(sums[i][j], there.v, 0, push.n, gl_CooperativeMatrixLayoutRowMajor);
                continue;
            }
            subgroupBarrier();
            coopMatStore(sums[i][j], staged, at, 4, gl_CooperativeMatrixLayoutRowMajor);
            subgroupBarrier();
            uint from = at + lane / 2u * 4u + lane % 2u * 2u;
            put_eight(r + lane / 2u, c + lane % 2u * 8u, staged[from], staged[from + 1u]);
        }
    }
}

void main() {
    if (!find_tile(BM, BN)) return;
    [[unroll]] for (uint i = 0u; i < DOWN; ++i)
        [[unroll]] for (uint j = 0u; j < ACROSS; ++j) sums[i][j] = MATRIX(SUM, 16, 16, gl_MatrixUseAccumulator)(SUM(0));
    uint l = gl_LocalInvocationIndex;
    [[unroll]] for (uint i = 0u; i < A_LOADS; ++i)
        place_a[i] = place_of(l + i * THREADS, BM, A_ALONG_K, push.a_step, tile_row, push.m);
    [[unroll]] for (uint i = 0u; i < B_LOADS; ++i)
        place_b[i] = place_of(l + i * THREADS, BN, B_ALONG_K, push.b_step, tile_column, push.n);
    k = tile_part * push.chunk;
    end = min(k + push.chunk, push.k);
    at_a = push.a
        + (a_start + (A_ALONG_K ? int64_t(tile_row) * push.a_step + k : int64_t(k) * push.a_step + tile_row)) * SIZE;
    at_b = push.b
        + (b_start + (B_ALONG_K ? int64_t(tile_column) * push.b_step + k : int64_t(k) * push.b_step + tile_column)) * SIZE;
    uint steps = (end - k + STEP - 1u) / STEP;
    fetch();
    keep();
    barrier();
    advance();
    fetch();
    for (uint step_ = 0u; step_ < steps; ++step_) {
        [[unroll]] for (uint s = 0u; s + 1u < SLICES; ++s) {
            load_slice(s);
            multiply_slice();
        }
        load_slice(SLICES - 1u);
        barrier();
        keep();
        advance();
        fetch();
        multiply_slice();
        barrier();
    }
    put();
}

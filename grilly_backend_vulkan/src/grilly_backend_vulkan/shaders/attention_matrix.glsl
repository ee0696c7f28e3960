// Attention in 16-bit floats on cooperative matrices, with sums in f32. Each subgroup holds 16 lines of the scores, over BC
// columns, in registers; lines of the other operand are shared by the work group.
//
// Which element of a matrix lies where among the lanes is the driver's affair, so a matrix of numbers is loaded
// once, and tells each lane the rows and columns of its elements. That is enough to mask, to scale rows and to weigh
// in registers; only maxima and sums of rows, and weights that become factors, go through shared memory.
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_vote : require
#ifndef SUMS
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#ifdef BRAIN
#extension GL_EXT_bfloat16 : require
#endif
#endif
#include "attention.glsl"
layout(local_size_x = WARPS * 32) in;
const uint BR = WARPS * 16, THREADS = WARPS * 32, EIGHTS = D / 8, LINE = EIGHTS + 1, BLOCKS = BC / 16, DEPTH = D / 16;
const uint TILE = BC * LINE, LOADS = BC * EIGHTS / THREADS;
const uint ELEMENTS = 8;                               // of a lane, of 16 x 16
const uint ROW = 5;                                    // quads of a staged row of 16 floats, and one against bank conflicts
const uint STAGE = 16 * ROW;                           // quads of a subgroup
const uint WEIGHTS = BC / 8 + 1;                       // of a line of weights, 8 at a time

layout(buffer_reference, std430, buffer_reference_align = 16) readonly buffer Words { uvec4 v; };
layout(buffer_reference, std430, buffer_reference_align = 16) writeonly buffer WordsOut { uvec4 v; };

shared uvec4 tiles[2 * TILE > BR * LINE ? 2 * TILE : BR * LINE];
shared uvec4 staged[WARPS * (16 * WEIGHTS > STAGE ? 16 * WEIGHTS : STAGE)];

#ifndef SUMS  // tests put other matrices in place of these
#ifdef BRAIN
#define FACTOR bfloat16_t
#else
#define FACTOR float16_t
#endif
#define SUMS coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>
#define LEFT coopmat<FACTOR, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA>
#define RIGHT coopmat<FACTOR, gl_ScopeSubgroup, 16, 16, gl_MatrixUseB>
#define CLEAR(m) m = SUMS(0.0)
#define LOAD_SUMS(m, at) coopMatLoad(m, staged, at, ROW - 1, gl_CooperativeMatrixLayoutRowMajor)
#define STORE_SUMS(m, at) coopMatStore(m, staged, at, ROW, gl_CooperativeMatrixLayoutRowMajor)
#define LOAD_LEFT(m, from, at, line) coopMatLoad(m, from, at, line, gl_CooperativeMatrixLayoutRowMajor)
#define LOAD_LINES(m, at) coopMatLoad(m, tiles, at, LINE, gl_CooperativeMatrixLayoutRowMajor)
#define LOAD_TURNED(m, at) coopMatLoad(m, tiles, at, LINE, gl_CooperativeMatrixLayoutColumnMajor)
#define MULTIPLY(a, b, c) c = coopMatMulAdd(a, b, c)
#define LANE_ gl_SubgroupInvocationID
#define WARP gl_SubgroupID
#define TOGETHER() subgroupBarrier()
#define ALL(x) subgroupAll(x)
#define IDLE(x) (x)
#endif

uint stage() { return WARP * (16 * WEIGHTS > STAGE ? 16 * WEIGHTS : STAGE); }
// Where a lane finds eight neighbours of a staged matrix: half of row `LANE_ / 2`.
uint staged_half() { return stage() + LANE_ / 2u * ROW + LANE_ % 2u * 2u; }

// Rows and columns of a lane's elements, and whether they are pairs of neighbours.
uint row_of[ELEMENTS], column_of[ELEMENTS];
bool paired;
void find_places() {
    uint at = stage();
    TOGETHER();
    [[unroll]] for (uint j = 0u; j < 2u; ++j) {
        uint quad = LANE_ * 2u + j;
        staged[at + quad] = floatBitsToUint(vec4(quad * 4u) + vec4(0.0, 1.0, 2.0, 3.0));
    }
    TOGETHER();
    SUMS numbers;
    LOAD_SUMS(numbers, at);
    paired = true;
    [[unroll]] for (uint i = 0u; i < ELEMENTS; ++i) {
        uint number = uint(numbers[i]);
        row_of[i] = number / 16u;
        column_of[i] = number % 16u;
        if (i % 2u == 1u) paired = paired && row_of[i] == row_of[i - 1u] && column_of[i] == column_of[i - 1u] + 1u;
    }
    paired = ALL(paired);
    TOGETHER();
}

// Lines of one batch and head.
struct Lines {
    uint64_t at;
    int step_;
    uint count, width;
};
uvec4 eight_of(Lines x, uint line, uint d) {
    if (line >= x.count || d >= x.width) return uvec4(0u);
    return Words(x.at + int64_t(int(line) * x.step_ + int(d)) * 2).v;
}
void fetch(Lines lines, uint first, out uvec4 fetched[LOADS]) {
    [[unroll]] for (uint i = 0u; i < LOADS; ++i) {
        uint e = gl_LocalInvocationIndex + i * THREADS;
        fetched[i] = eight_of(lines, first + e / EIGHTS, e % EIGHTS * 8u);
    }
}
void keep(uint tile, uvec4 fetched[LOADS]) {
    [[unroll]] for (uint i = 0u; i < LOADS; ++i) {
        uint e = gl_LocalInvocationIndex + i * THREADS;
        tiles[tile * TILE + e / EIGHTS * LINE + e % EIGHTS] = fetched[i];
    }
}
// The subgroup's own 16 lines as factors, through the tiles' memory.
void load_own(Lines lines, uint first, out LEFT own[DEPTH]) {
    barrier();
    for (uint e = gl_LocalInvocationIndex; e < BR * EIGHTS; e += THREADS)
        tiles[e / EIGHTS * LINE + e % EIGHTS] = eight_of(lines, first + e / EIGHTS, e % EIGHTS * 8u);
    barrier();
    [[unroll]] for (uint d = 0u; d < DEPTH; ++d) LOAD_LEFT(own[d], tiles, WARP * 16u * LINE + d * 2u, LINE);
    barrier();
}

// s = own . lines of a tile.
#define SCORES(s, own, tile)                                                     \
    [[unroll]] for (uint j = 0u; j < BLOCKS; ++j) {                              \
        CLEAR(s[j]);                                                             \
        [[unroll]] for (uint d = 0u; d < DEPTH; ++d) {                           \
            RIGHT b;                                                             \
            LOAD_TURNED(b, (tile) * TILE + j * 16u * LINE + d * 2u);             \
            MULTIPLY(own[d], b, s[j]);                                           \
        }                                                                        \
    }

uint pair_of(float a, float b) {
#ifdef BRAIN
    uvec2 bits = floatBitsToUint(vec2(a, b));
    bits += 0x7fffu + (bits >> 16 & 1u);
    return bits.x >> 16 | (bits.y & 0xffff0000u);
#else
    return packHalf2x16(vec2(a, b));
#endif
}
// Eight staged numbers, rounded to the type of the output.
uvec4 rounded(uvec4 low, uvec4 high) {
    uint bits[8];
    [[unroll]] for (uint j = 0u; j < 8u; ++j) {
        float value = uintBitsToFloat(j < 4u ? low[j % 4u] : high[j % 4u]);
#ifdef BRAIN
        bits[j] = float_to_brain(value);
#else
        bits[j] = float_to_half(value);
#endif
    }
    return uvec4(bits[0] | bits[1] << 16, bits[2] | bits[3] << 16, bits[4] | bits[5] << 16, bits[6] | bits[7] << 16);
}
// Weights to shared memory, as factors: a pair at a time where pairs are neighbours, else through staged matrices.
#define STAGE_WEIGHTS(s)                                                                                        \
    TOGETHER();                                                                                                 \
    if (paired) {                                                                                               \
        [[unroll]] for (uint j = 0u; j < BLOCKS; ++j)                                                           \
            [[unroll]] for (uint i = 0u; i < ELEMENTS; i += 2u) {                                               \
                uint column = j * 16u + column_of[i];                                                           \
                staged[stage() + row_of[i] * WEIGHTS + column / 8u][column / 2u % 4u] = pair_of(s[j][i], s[j][i + 1u]); \
            }                                                                                                   \
    } else {                                                                                                    \
        uvec4 eights[BLOCKS];                                                                                   \
        [[unroll]] for (uint j = 0u; j < BLOCKS; ++j) {                                                         \
            STORE_SUMS(s[j], stage());                                                                          \
            TOGETHER();                                                                                         \
            eights[j] = rounded(staged[staged_half()], staged[staged_half() + 1u]);                             \
            TOGETHER();                                                                                         \
        }                                                                                                       \
        [[unroll]] for (uint j = 0u; j < BLOCKS; ++j)                                                           \
            staged[stage() + LANE_ / 2u * WEIGHTS + j * 2u + LANE_ % 2u] = eights[j];                           \
    }                                                                                                           \
    TOGETHER();

// sums += weights . lines of a tile.
#define ACCUMULATE(sums, tile)                                                   \
    [[unroll]] for (uint j = 0u; j < BLOCKS; ++j) {                              \
        LEFT a;                                                                  \
        LOAD_LEFT(a, staged, stage() + j * 2u, WEIGHTS);                         \
        [[unroll]] for (uint d = 0u; d < DEPTH; ++d) {                           \
            RIGHT b;                                                             \
            LOAD_LINES(b, (tile) * TILE + j * 16u * LINE + d * 2u);              \
            MULTIPLY(a, b, sums[d]);                                             \
        }                                                                        \
    }

// Sums times a factor for each row of a lane's elements, as packed lines of `width`.
#define PUT(sums, factors, to, first, count, width_)                                                            \
    [[unroll]] for (uint d = 0u; d < DEPTH; ++d) {                                                              \
        [[unroll]] for (uint i = 0u; i < ELEMENTS; ++i) sums[d][i] *= factors[i];                               \
        TOGETHER();                                                                                             \
        STORE_SUMS(sums[d], stage());                                                                           \
        TOGETHER();                                                                                             \
        uint line = (first) + WARP * 16u + LANE_ / 2u, column = d * 16u + LANE_ % 2u * 8u;                      \
        if (line < (count) && column < (width_))                                                                \
            WordsOut((to) + (uint64_t(line) * (width_) + column) * 2u).v =                                      \
                rounded(staged[staged_half()], staged[staged_half() + 1u]);                                     \
    }

uint group_number() { return gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x; }

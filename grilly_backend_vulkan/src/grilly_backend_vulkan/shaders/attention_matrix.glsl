// Attention on cooperative matrices of 16-bit floats, with sums in f32. Each subgroup holds 16 lines of the scores, over BC
// columns, in registers; lines of the other operand are shared by the work group.
//
// Which element of a matrix lies where among the lanes is the driver's affair, so a matrix of numbers is loaded
// once, and tells each lane the rows and columns of its elements: enough to mask, to scale rows and to weigh in
// registers. Where sums and factors lie alike, and rows among four neighbouring lanes (`direct`: NVIDIA), weights become
// factors, and maxima and sums of rows are found, without leaving the registers; elsewhere through shared memory.
//
// Operands in f32 come as sums of PARTS factors of bf16, see attention_split.comp. Products of parts that are too small to
// matter are left out: of 2 parts, 3 products are made.
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_vote : require
#extension GL_KHR_shader_subgroup_shuffle : require
#ifndef PARTS
#define PARTS 1
#endif
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
const uint WEIGHTS = 3;                                // of a line of staged weights, 8 at a time

layout(buffer_reference, std430, buffer_reference_align = 16) readonly buffer Words { uvec4 v; };
layout(buffer_reference, std430, buffer_reference_align = 16) writeonly buffer WordsOut { uvec4 v; };

shared uvec4 tiles[2 * PARTS * TILE > BR * LINE ? 2 * PARTS * TILE : BR * LINE];
shared uvec4 staged[WARPS * STAGE];

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
#define FROM_LANE(x, apart) subgroupShuffleXor(x, apart)
#define AS_FACTOR(x) FACTOR(x)
#define AS_FLOAT(x) float(x)
#define IDLE(x) (x)
#endif

uint stage() { return WARP * STAGE; }
// Where a lane finds eight neighbours of a staged matrix: half of row `LANE_ / 2`.
uint staged_half() { return stage() + LANE_ / 2u * ROW + LANE_ % 2u * 2u; }

uint pair_of(float a, float b) {
#ifdef BRAIN
    uvec2 bits = floatBitsToUint(vec2(a, b));
    bits += 0x7fffu + (bits >> 16 & 1u);
    return bits.x >> 16 | (bits.y & 0xffff0000u);
#else
    return packHalf2x16(vec2(a, b));
#endif
}
// Rows and columns of a lane's elements, whether they are pairs of neighbours, and whether all lie as `direct` has it.
uint row_of[ELEMENTS], column_of[ELEMENTS];
bool paired, direct_;
uint direct_row(uint i) { return LANE_ / 4u + i / 4u * 8u; }
uint direct_column(uint i) { return LANE_ % 4u * 2u + i % 2u + i / 2u % 2u * 8u; }
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
    TOGETHER();
    vec4 first = vec4(LANE_ * 8u) + vec4(0.0, 1.0, 2.0, 3.0);
    staged[at + LANE_] = uvec4(pair_of(first.x, first.y), pair_of(first.z, first.w), pair_of(first.x + 4.0, first.y + 4.0),
                               pair_of(first.z + 4.0, first.w + 4.0));
    TOGETHER();
    LEFT factors;
    LOAD_LEFT(factors, staged, at, 2u);
    paired = true;
    direct_ = true;
    [[unroll]] for (uint i = 0u; i < ELEMENTS; ++i) {
        uint number = uint(numbers[i]);
        row_of[i] = number / 16u;
        column_of[i] = number % 16u;
        direct_ = direct_ && number == direct_row(i) * 16u + direct_column(i) && AS_FLOAT(factors[i]) == numbers[i];
        if (i % 2u == 1u) paired = paired && row_of[i] == row_of[i - 1u] && column_of[i] == column_of[i - 1u] + 1u;
    }
    paired = ALL(paired);
    direct_ = ALL(direct_);
    TOGETHER();
}
uint row_at(uint i, const bool direct) { return direct ? direct_row(i) : row_of[i]; }
uint column_at(uint i, const bool direct) { return direct ? direct_column(i) : column_of[i]; }

// Lines of one batch and head.
struct Lines {
    uint64_t at;
    int step_;
    uint count, width;
};
// Eight neighbours of a line; its parts lie one behind the other.
struct Eight { uvec4 part[PARTS]; };
Eight eight_of(Lines x, uint line, uint d) {
    Eight found;
    bool inside = line < x.count && d < x.width;
    uint64_t at = x.at + int64_t(int(line) * x.step_ + int(d)) * 2;
    [[unroll]] for (uint p = 0u; p < PARTS; ++p) found.part[p] = inside ? Words(at + p * x.width * 2u).v : uvec4(0u);
    return found;
}
void fetch(Lines lines, uint first, out Eight fetched[LOADS]) {
    [[unroll]] for (uint i = 0u; i < LOADS; ++i) {
        uint e = gl_LocalInvocationIndex + i * THREADS;
        fetched[i] = eight_of(lines, first + e / EIGHTS, e % EIGHTS * 8u);
    }
}
void keep(uint tile, Eight fetched[LOADS]) {
    [[unroll]] for (uint i = 0u; i < LOADS; ++i) {
        uint e = gl_LocalInvocationIndex + i * THREADS;
        [[unroll]] for (uint p = 0u; p < PARTS; ++p)
            tiles[(tile * PARTS + p) * TILE + e / EIGHTS * LINE + e % EIGHTS] = fetched[i].part[p];
    }
}
// The subgroup's own 16 lines as factors, through the tiles' memory.
void load_own(Lines lines, uint first, out LEFT own[PARTS][DEPTH]) {
    [[unroll]] for (uint p = 0u; p < PARTS; ++p) {
        barrier();
        for (uint e = gl_LocalInvocationIndex; e < BR * EIGHTS; e += THREADS)
            tiles[e / EIGHTS * LINE + e % EIGHTS] = eight_of(lines, first + e / EIGHTS, e % EIGHTS * 8u).part[p];
        barrier();
        [[unroll]] for (uint d = 0u; d < DEPTH; ++d) LOAD_LEFT(own[p][d], tiles, WARP * 16u * LINE + d * 2u, LINE);
    }
    barrier();
}

// s = own . lines of a tile.
#define SCORES(s, own, tile)                                                                                    \
    [[unroll]] for (uint j = 0u; j < BLOCKS; ++j) {                                                             \
        CLEAR(s[j]);                                                                                            \
        [[unroll]] for (uint d = 0u; d < DEPTH; ++d)                                                            \
            [[unroll]] for (uint t = 0u; t < PARTS; ++t) {                                                      \
                RIGHT b;                                                                                        \
                LOAD_TURNED(b, ((tile) * PARTS + t) * TILE + j * 16u * LINE + d * 2u);                          \
                [[unroll]] for (uint p = 0u; p < PARTS - t; ++p) MULTIPLY(own[p][d], b, s[j]);                  \
            }                                                                                                   \
    }

// Eight staged numbers, rounded to the type of the factors.
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
// What is left of a weight after its first parts.
float rest(float x, uint parts) {
    [[unroll]] for (uint p = 0u; p < parts; ++p) x -= uintBitsToFloat(float_to_brain(x) << 16);
    return x;
}
// Sixteen columns of weights to shared memory, as factors: a pair at a time where pairs are neighbours.
#define STAGE_WEIGHTS(m, part)                                                                                  \
    TOGETHER();                                                                                                 \
    if (paired) {                                                                                               \
        [[unroll]] for (uint i = 0u; i < ELEMENTS; i += 2u)                                                     \
            staged[stage() + row_of[i] * WEIGHTS + column_of[i] / 8u][column_of[i] / 2u % 4u] =                 \
                pair_of(rest(m[i], part), rest(m[i + 1u], part));                                               \
    } else {                                                                                                    \
        SUMS left;                                                                                              \
        [[unroll]] for (uint i = 0u; i < ELEMENTS; ++i) left[i] = rest(m[i], part);                             \
        STORE_SUMS(left, stage());                                                                              \
        TOGETHER();                                                                                             \
        uvec4 eight = rounded(staged[staged_half()], staged[staged_half() + 1u]);                               \
        TOGETHER();                                                                                             \
        staged[stage() + LANE_ / 2u * WEIGHTS + LANE_ % 2u] = eight;                                            \
    }                                                                                                           \
    TOGETHER();

// Weights as factors, part by part.
#define FACTORS(a, m, direct)                                                                                   \
    if (direct) {                                                                                               \
        [[unroll]] for (uint i = 0u; i < ELEMENTS; ++i) {                                                       \
            float x = m[i];                                                                                     \
            [[unroll]] for (uint p = 0u; p < PARTS; ++p) {                                                      \
                a[p][i] = AS_FACTOR(x);                                                                         \
                x -= AS_FLOAT(a[p][i]);                                                                         \
            }                                                                                                   \
        }                                                                                                       \
    } else {                                                                                                    \
        [[unroll]] for (uint p = 0u; p < PARTS; ++p) {                                                          \
            STAGE_WEIGHTS(m, p)                                                                                 \
            LOAD_LEFT(a[p], staged, stage(), WEIGHTS);                                                          \
        }                                                                                                       \
    }
// sums += weights . lines of a tile.
#define ACCUMULATE(sums, s, tile, direct)                                                                       \
    [[unroll]] for (uint j = 0u; j < BLOCKS; ++j) {                                                             \
        LEFT a[PARTS];                                                                                          \
        FACTORS(a, s[j], direct)                                                                                \
        [[unroll]] for (uint d = 0u; d < DEPTH; ++d)                                                            \
            [[unroll]] for (uint t = 0u; t < PARTS; ++t) {                                                      \
                RIGHT b;                                                                                        \
                LOAD_LINES(b, ((tile) * PARTS + t) * TILE + j * 16u * LINE + d * 2u);                           \
                [[unroll]] for (uint p = 0u; p < PARTS - t; ++p) MULTIPLY(a[p], b, sums[d]);                    \
            }                                                                                                   \
    }

// Eight numbers of the output's type.
void put_eight(uint64_t at, uvec4 low, uvec4 high) {
#if SIZE == 2
    WordsOut(at).v = rounded(low, high);
#else
    WordsOut(at).v = low;
    WordsOut(at + 16u).v = high;
#endif
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
            put_eight((to) + (uint64_t(line) * (width_) + column) * SIZE, staged[staged_half()], staged[staged_half() + 1u]); \
    }

uint group_number() { return gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x; }

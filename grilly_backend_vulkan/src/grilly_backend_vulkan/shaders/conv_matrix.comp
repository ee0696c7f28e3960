#version 460
// Convolution and its gradients in 16-bit floats with sums in f32, on cooperative matrices of 16 x 16 x 16.
// The products and the walk over taps are those of conv_tiles.comp. Eight subgroups of 32 share a tile of 128 x 128, each
// with 64 x 32 of it. MODE 0: output; 1: gradient of the input; 2 (WEIGHT): parts of the gradient of the weight, in f32.
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_EXT_shader_explicit_arithmetic_types_int16 : require
#ifdef BRAIN
#extension GL_EXT_bfloat16 : require
#define FACTOR bfloat16_t
#else
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#define FACTOR float16_t
#endif
#include "types.glsl"
layout(local_size_x = 256) in;
layout(constant_id = 0) const uint MODE = 0;
layout(constant_id = 1) const uint AXES = 2;

const uint SIDE = 128, STEP = 32, LOADS = 16;

layout(push_constant, std430) uniform Push {
    uint64_t to, a, b, bias;
    int size[3], count[3];
    uint kernel_dilation[3], stride_low[3];
    uint batch, groups, outs, ins;  // channels in a group
    uint chunk, chunks;             // steps of a part of the sum
} push;

layout(buffer_reference, std430, buffer_reference_align = 2) readonly buffer Halves { uint16_t v[]; };
layout(buffer_reference, std430, buffer_reference_align = 16) readonly buffer Eights { uvec4 v[]; };

#include "conv.glsl"
#include "conv_walk.glsl"

#ifdef WEIGHT
const uint PITCH = STEP + 8;  // both by rows, the places they are summed over side by side
shared uint16_t tile_a[SIDE * PITCH];
shared uint16_t tile_b[SIDE * PITCH];
uint16_t fetched_a[LOADS];
#else
const uint PITCH = SIDE + 8;  // both by terms of the sum
shared uvec4 tile_a[STEP * PITCH / 8];
shared uint16_t tile_b[STEP * PITCH];
uvec4 fetched_a[2];
#endif
shared float stage[8][256];
uint16_t fetched_b[LOADS];

#ifdef WEIGHT
void fetch_places(uint k, uint end) {
    uint l = gl_LocalInvocationIndex, r = l / STEP;
    uint places = output_plane(), plane = input_plane();
    k += l % STEP;
    uint n = k / places, p = k - n * places;
    int origin[3], shift[3];
    uint at;
    origin_of(p, origin);
    shift_of(tap_of_tile, shift);
    bool meets = position(origin, shift, at) && k < end;
    uint from_a = (plane_of(n, push.outs) + row + r) * places + p;
    uint from_b = (plane_of(n, push.ins) + column + r) * plane + at;
    const uint down = 256u / STEP;
    [[unroll]] for (uint i = 0u; i < LOADS; ++i)
        fetched_a[i] = k < end && row + r + i * down < push.outs ? Halves(push.a).v[from_a + i * down * places] : uint16_t(0);
    [[unroll]] for (uint i = 0u; i < LOADS; ++i)
        fetched_b[i] = meets && column + r + i * down < push.ins ? Halves(push.b).v[from_b + i * down * plane] : uint16_t(0);
}
void keep() {
    uint l = gl_LocalInvocationIndex, at = l / STEP * PITCH + l % STEP;
    [[unroll]] for (uint i = 0u; i < LOADS; ++i) {
        tile_a[at + i * (256u / STEP) * PITCH] = fetched_a[i];
        tile_b[at + i * (256u / STEP) * PITCH] = fetched_b[i];
    }
}
#else
void fetch_step(uint channels, uint rows, uint plane) {
    uint l = gl_LocalInvocationIndex, from = ((group * taps() + tap) * channels + channel) * rows + row;
    [[unroll]] for (uint i = 0u; i < 2u; ++i) {
        uint e = l + i * 256u, k = e / (SIDE / 8u), m = e % (SIDE / 8u) * 8u;
        bool there = channel + k < channels && row + m < rows;
        fetched_a[i] = there ? Eights(push.a).v[(from + k * rows + m) / 8u] : uvec4(0u);
    }
    uint k = l / SIDE, left = inside && channel + k < channels ? channels - channel - k : 0u;
    from = read_at + (channel + k) * plane;
    [[unroll]] for (uint i = 0u; i < LOADS; ++i)
        fetched_b[i] = i * 2u < left ? Halves(push.b).v[from + i * 2u * plane] : uint16_t(0);
}
void keep() {
    uint l = gl_LocalInvocationIndex;
    [[unroll]] for (uint i = 0u; i < 2u; ++i) {
        uint e = l + i * 256u;
        tile_a[e / (SIDE / 8u) * (PITCH / 8u) + e % (SIDE / 8u)] = fetched_a[i];
    }
    [[unroll]] for (uint i = 0u; i < LOADS; ++i) tile_b[(l / SIDE + i * 2u) * PITCH + l % SIDE] = fetched_b[i];
}
#endif

#define SUMS coopmat<float, gl_ScopeSubgroup, 16, 16, gl_MatrixUseAccumulator>
SUMS sums[4][2];
uint tile_row() { return gl_SubgroupID / 4u * 64u; }
uint tile_column() { return gl_SubgroupID % 4u * 32u; }
void multiply() {
    [[unroll]] for (uint k = 0u; k < STEP; k += 16u) {
        coopmat<FACTOR, gl_ScopeSubgroup, 16, 16, gl_MatrixUseA> u[4];
        coopmat<FACTOR, gl_ScopeSubgroup, 16, 16, gl_MatrixUseB> v[2];
#ifdef WEIGHT
        [[unroll]] for (uint i = 0u; i < 4u; ++i)
            coopMatLoad(u[i], tile_a, (tile_row() + i * 16u) * PITCH + k, PITCH, gl_CooperativeMatrixLayoutRowMajor);
        [[unroll]] for (uint j = 0u; j < 2u; ++j)
            coopMatLoad(v[j], tile_b, (tile_column() + j * 16u) * PITCH + k, PITCH, gl_CooperativeMatrixLayoutColumnMajor);
#else
        [[unroll]] for (uint i = 0u; i < 4u; ++i)
            coopMatLoad(u[i], tile_a, (k * PITCH + tile_row() + i * 16u) / 8u, PITCH / 8u, gl_CooperativeMatrixLayoutColumnMajor);
        [[unroll]] for (uint j = 0u; j < 2u; ++j)
            coopMatLoad(v[j], tile_b, k * PITCH + tile_column() + j * 16u, PITCH, gl_CooperativeMatrixLayoutRowMajor);
#endif
        [[unroll]] for (uint i = 0u; i < 4u; ++i)
            [[unroll]] for (uint j = 0u; j < 2u; ++j) sums[i][j] = coopMatMulAdd(u[i], v[j], sums[i][j]);
    }
}

// Writes 16 x 16 sums by way of shared memory, as how a subgroup holds a matrix is its own affair.
void put(uint i, uint j) {
    uint s = gl_SubgroupID, lane = gl_SubgroupInvocationID, c = lane % 16u;
    coopMatStore(sums[i][j], stage[s], 0u, 16u, gl_CooperativeMatrixLayoutRowMajor);
    subgroupBarrier();
    uint m = row + tile_row() + i * 16u, n = column + tile_column() + j * 16u + c;
#ifdef WEIGHT
    uint64_t to = push.to + ((uint64_t(part) * push.groups + group) * taps() + tap_of_tile) * push.outs * push.ins * 4u;
    [[unroll]] for (uint q = 0u; q < 8u; ++q) {
        uint r = lane / 16u + q * 2u;
        if (m + r < push.outs && n < push.ins) store_f32(to + ((m + r) * push.ins + n) * 4u, stage[s][r * 16u + c]);
    }
#else
    uint rows = MODE == 0 ? push.outs : push.ins, plane = (MODE == 0 ? output_plane() : input_plane());
    uint per_image = max(places_of_image(), 1u), image = n / per_image;
    int unused[3];
    uint at = plane_of(image, rows) * plane + origin_of(n - image * per_image, unused);
    [[unroll]] for (uint q = 0u; q < 8u; ++q) {
        uint r = lane / 16u + q * 2u;
        if (m + r >= rows || n >= push.batch * per_image) continue;
        float x = stage[s][r * 16u + c];
        if (push.bias != 0) x += LOAD(push.bias, group * rows + m + r);
        STORE(push.to, at + (m + r) * plane, x);
    }
#endif
    subgroupBarrier();
}

void main() {
    if (!find_tile(SIDE, SIDE)) return;
    [[unroll]] for (uint i = 0u; i < 4u; ++i) [[unroll]] for (uint j = 0u; j < 2u; ++j) sums[i][j] = SUMS(0.0);
#ifdef WEIGHT
    uint k = part * push.chunk * STEP, end = min(k + push.chunk * STEP, push.batch * output_plane());
    fetch_places(k, end);
    keep();
    barrier();
    for (; k < end; k += STEP) {
        bool more = k + STEP < end;
        if (more) fetch_places(k + STEP, end);
#else
    uint channels = MODE == 0 ? push.ins : push.outs, rows = MODE == 0 ? push.outs : push.ins;
    uint plane = (MODE == 0 ? input_plane() : output_plane()), blocks = (channels + STEP - 1u) / STEP;
    uint step = 0u, end = blocks * taps();
    begin_walk(column + gl_LocalInvocationIndex % SIDE, channels, plane, 0u, STEP);
    fetch_step(channels, rows, plane);
    keep();
    barrier();
    for (; step < end; ++step) {
        bool more = step + 1u < end;
        if (more) {
            walk_on(channels, STEP);
            fetch_step(channels, rows, plane);
        }
#endif
        multiply();
        barrier();
        if (more) keep();
        barrier();
    }
    [[unroll]] for (uint i = 0u; i < 4u; ++i) [[unroll]] for (uint j = 0u; j < 2u; ++j) put(i, j);
}

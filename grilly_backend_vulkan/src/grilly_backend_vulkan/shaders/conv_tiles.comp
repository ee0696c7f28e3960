#version 460
// Convolution and its gradients as products of matrices that never exist (implicit GEMM), with sums over steps of 16.
// MODE 0: out[outs, places] = weight[taps x ins, outs]^T * x; MODE 1: the same with outs and ins exchanged, for the
// input's gradient; MODE 2: the weight's gradient[outs, taps x ins], summed over places.
// A step never leaves its tap: whether a thread's place lies in the padding is asked once for 16 loads that are
// a constant stride apart. Threads hold 8 x 8 outputs; the next step is fetched while the present one is multiplied.
#include "types.glsl"
layout(local_size_x = BM * BN / 64) in;
layout(constant_id = 0) const uint MODE = 0;
layout(constant_id = 1) const uint AXES = 2;
layout(constant_id = 2) const bool WIDE_A = false;    // the rows of the packed weight are multiples of 4 long
layout(constant_id = 3) const bool WIDE_OUT = false;  // so are the planes of the output, and the columns are in order
layout(constant_id = 4) const bool FULL = false;      // channels are whole tiles and steps
layout(constant_id = 5) const int SIZE_0 = 0;         // 0: see the push constants
layout(constant_id = 6) const int SIZE_1 = 0;
layout(constant_id = 7) const int SIZE_2 = 0;
layout(constant_id = 8) const int COUNT_0 = 0;
layout(constant_id = 9) const int COUNT_1 = 0;
layout(constant_id = 10) const int COUNT_2 = 0;
#define FIXED

const uint STEP = 16, THREADS = BM * BN / 64, ACROSS = BN / 8, DOWN = BM / 8;
const uint A_LOADS = 1024 / BN, B_LOADS = 1024 / BM, PAD = PADDED;

layout(push_constant, std430) uniform Push {
    uint64_t to, a, b, bias;
    int size[3], count[3];          // spatial sizes of input and output
    uint kernel_dilation[3];        // kernel | dilation << 16
    uint stride_low[3];             // stride | low padding << 16
    uint batch, groups, outs, ins;  // channels in a group
    uint chunk, chunks;             // steps of a part of the sum
} push;

layout(buffer_reference, std430, buffer_reference_align = 4) readonly buffer Floats { float v[]; };
layout(buffer_reference, std430, buffer_reference_align = 16) readonly buffer Quads { vec4 v[]; };
layout(buffer_reference, std430, buffer_reference_align = 16) writeonly buffer QuadsOut { vec4 v[]; };

shared vec4 tile_a[2][STEP][BM / 4 + PAD];
shared vec4 tile_b[2][STEP][BN / 4 + PAD];

#include "conv.glsl"
#include "conv_walk.glsl"

float fetched_a[A_LOADS], fetched_b[B_LOADS];

void fetch_weight(uint channels, uint rows) {
    uint l = gl_LocalInvocationIndex;
    uint from = ((group * taps() + tap) * channels + channel) * rows + row;
    if (WIDE_A) {
        [[unroll]] for (uint i = 0u; i < A_LOADS / 4u; ++i) {
            uint e = l + i * THREADS, k = e / (BM / 4), m = e % (BM / 4) * 4u;
            vec4 v = vec4(0.0);
            if (FULL || (channel + k < channels && row + m < rows)) v = Quads(push.a).v[(from + k * rows + m) / 4u];
            [[unroll]] for (uint j = 0u; j < 4u; ++j) fetched_a[i * 4u + j] = v[j];
        }
    } else {
        [[unroll]] for (uint i = 0u; i < A_LOADS; ++i) {
            uint e = l + i * THREADS, k = e / BM, m = e % BM;
            fetched_a[i] = channel + k < channels && row + m < rows ? Floats(push.a).v[from + k * rows + m] : 0.0;
        }
    }
}
void fetch_windows(uint channels, uint plane) {
    uint k = gl_LocalInvocationIndex / BN;
    uint left = FULL ? STEP : channel + k < channels ? channels - channel - k : 0u;
    Floats from = Floats(push.b + uint64_t(read_at + (channel + k) * plane) * 4u);
    // constant distances from one address: no arithmetic for each load
    [[unroll]] for (uint i = 0u; i < B_LOADS; ++i)
        fetched_b[i] = inside && i * (BM / 64) < left ? from.v[i * (BM / 64) * plane] : 0.0;
}
// MODE 2: 16 places of the gradient and of the input they meet.
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
    Floats from_a = Floats(push.a + uint64_t((plane_of(n, push.outs) + row + r) * places + p) * 4u);
    Floats from_b = Floats(push.b + uint64_t((plane_of(n, push.ins) + column + r) * plane + at) * 4u);
    const uint down = THREADS / STEP;
    [[unroll]] for (uint i = 0u; i < A_LOADS; ++i)
        fetched_a[i] = k < end && (FULL || row + r + i * down < push.outs) ? from_a.v[i * down * places] : 0.0;
    [[unroll]] for (uint i = 0u; i < B_LOADS; ++i)
        fetched_b[i] = meets && (FULL || column + r + i * down < push.ins) ? from_b.v[i * down * plane] : 0.0;
}
void keep(uint buffer_) {
    uint l = gl_LocalInvocationIndex;
    if (MODE == 2) {
        uint k = l % STEP, r = l / STEP;
        [[unroll]] for (uint i = 0u; i < A_LOADS; ++i) {
            uint m = r + i * (THREADS / STEP);
            tile_a[buffer_][k][m / 4u][m % 4u] = fetched_a[i];
        }
        [[unroll]] for (uint i = 0u; i < B_LOADS; ++i) {
            uint n = r + i * (THREADS / STEP);
            tile_b[buffer_][k][n / 4u][n % 4u] = fetched_b[i];
        }
        return;
    }
    if (WIDE_A) {
        [[unroll]] for (uint i = 0u; i < A_LOADS / 4u; ++i) {
            uint e = l + i * THREADS;
            tile_a[buffer_][e / (BM / 4)][e % (BM / 4)] =
                vec4(fetched_a[i * 4u], fetched_a[i * 4u + 1u], fetched_a[i * 4u + 2u], fetched_a[i * 4u + 3u]);
        }
    } else {
        [[unroll]] for (uint i = 0u; i < A_LOADS; ++i) {
            uint e = l + i * THREADS;
            tile_a[buffer_][e / BM][e % BM / 4u][e % 4u] = fetched_a[i];
        }
    }
    uint k = l / BN, n = l % BN;
    [[unroll]] for (uint i = 0u; i < B_LOADS; ++i)
        tile_b[buffer_][k + i * (BM / 64)][n / 4u][n % 4u] = fetched_b[i];
}

vec4 sums[8][2];
// Threads of a subgroup of 32 make 4 x 8 places of 4 x 4: few distinct reads of shared memory.
uint thread_y() { return gl_LocalInvocationIndex / 32u / (ACROSS / 8u) * 4u + gl_LocalInvocationIndex % 32u / 8u; }
uint thread_x() { return gl_LocalInvocationIndex / 32u % (ACROSS / 8u) * 8u + gl_LocalInvocationIndex % 8u; }
void multiply(uint buffer_) {
    uint y = thread_y(), x = thread_x();
    [[unroll]] for (uint k = 0u; k < STEP; ++k) {
        vec4 u[2], v[2];
        [[unroll]] for (uint i = 0u; i < 2u; ++i) {
            u[i] = tile_a[buffer_][k][y + i * DOWN];
            v[i] = tile_b[buffer_][k][x + i * ACROSS];
        }
        [[unroll]] for (uint i = 0u; i < 8u; ++i)
            [[unroll]] for (uint j = 0u; j < 2u; ++j) sums[i][j] = fma(vec4(u[i / 4u][i % 4u]), v[j], sums[i][j]);
    }
}

void put_outputs() {  // MODE 0 and 1
    uint rows = MODE == 0 ? push.outs : push.ins, plane = (MODE == 0 ? output_plane() : input_plane());
    uint per_image = places_of_image();
    uint64_t to = push.to + uint64_t(part) * push.batch * push.groups * rows * plane * 4u;
    [[unroll]] for (uint j = 0u; j < 8u; ++j) {
        uint c = column + thread_x() * 4u + j / 4u * ACROSS * 4u + j % 4u;
        if ((WIDE_OUT && j % 4u != 0u) || c >= push.batch * per_image) continue;
        uint n = c / per_image, r = row + thread_y() * 4u;
        int unused[3];
        uint at = plane_of(n, rows) * plane + origin_of(c - n * per_image, unused);
        [[unroll]] for (uint i = 0u; i < 8u; ++i) {
            uint m = r + i / 4u * DOWN * 4u + i % 4u;
            if (m >= rows) continue;
            float bias = push.bias != 0 && part == 0u ? Floats(push.bias).v[group * rows + m] : 0.0;
            uint64_t there = to + uint64_t(at + m * plane) * 4u;
            if (WIDE_OUT) QuadsOut(there).v[0] = sums[i][j / 4u] + bias;
            else store_f32(there, sums[i][j / 4u][j % 4u] + bias);
        }
    }
}
void put_weight() {  // to [part, group, tap, outs, ins]
    uint64_t to = push.to + ((uint64_t(part) * push.groups + group) * taps() + tap_of_tile) * push.outs * push.ins * 4u;
    [[unroll]] for (uint i = 0u; i < 8u; ++i)
        [[unroll]] for (uint j = 0u; j < 8u; ++j) {
            uint m = row + thread_y() * 4u + i / 4u * DOWN * 4u + i % 4u;
            uint n = column + thread_x() * 4u + j / 4u * ACROSS * 4u + j % 4u;
            if (m < push.outs && n < push.ins) store_f32(to + (m * push.ins + n) * 4u, sums[i][j / 4u][j % 4u]);
        }
}

void sum_over_channels() {
    uint channels = MODE == 0 ? push.ins : push.outs, rows = MODE == 0 ? push.outs : push.ins;
    uint plane = (MODE == 0 ? input_plane() : output_plane());
    uint blocks = (channels + STEP - 1u) / STEP;
    uint step = part * push.chunk, end = min(step + push.chunk, blocks * taps()), now = 0u;
    begin_walk(column + gl_LocalInvocationIndex % BN, channels, plane, step, STEP);
    fetch_weight(channels, rows);
    fetch_windows(channels, plane);
    keep(0u);
    barrier();
    for (; step < end; ++step) {
        bool more = step + 1u < end;
        if (more) {
            walk_on(channels, STEP);
            fetch_weight(channels, rows);
            fetch_windows(channels, plane);
        }
        multiply(now);
        if (more) {
            now ^= 1u;
            keep(now);
            barrier();
        }
    }
}
void sum_over_places() {
    uint k = part * push.chunk * STEP, now = 0u;
    uint end = min(k + push.chunk * STEP, push.batch * output_plane());
    fetch_places(k, end);
    keep(0u);
    barrier();
    for (; k < end; k += STEP) {
        bool more = k + STEP < end;
        if (more) fetch_places(k + STEP, end);
        multiply(now);
        if (more) {
            now ^= 1u;
            keep(now);
            barrier();
        }
    }
}

void main() {
    if (!find_tile(BM, BN)) return;
    [[unroll]] for (uint i = 0u; i < 8u; ++i) [[unroll]] for (uint j = 0u; j < 2u; ++j) sums[i][j] = vec4(0.0);
    if (MODE == 2) {
        sum_over_places();
        put_weight();
    } else {
        sum_over_channels();
        put_outputs();
    }
}

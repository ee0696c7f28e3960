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

// What a tile knows: its group, and the phase of its places under the stride (MODE 1, else 0).
uint group, row, column, part, tap_of_tile;
int phase[3];
int extent(uint d) { return MODE == 1 ? push.count[d] : push.size[d]; }
// Places of the tile's phase along axis d.
int places_along(uint d) {
    return MODE == 1 ? (push.size[d] - phase[d] + stride(d) - 1) / stride(d) : push.count[d];
}
uint places_of_image() {
    uint n = 1u;
    [[unroll]] for (uint d = FIRST; d < 3u; ++d) n *= uint(places_along(d));
    return n;
}
// How far tap `t` moves a place along each axis of what is read; false if it meets nothing in this phase.
bool shift_of(uint t, out int shift[3]) {
    bool met = true;
    [[unroll]] for (uint j = 0u; j < AXES; ++j) {
        uint d = 2u - j;
        int moved = coordinate(t, d, kernel(d)) * dilation(d);
        if (MODE == 1) {
            int from = phase[d] + low(d) - moved, s = stride(d);
            int q = from >= 0 ? from / s : -((s - 1 - from) / s);
            met = met && q * s == from;
            shift[d] = q;
        } else {
            shift[d] = moved;
        }
    }
    return met;
}
// Place `p` of the phase: where its window starts along each axis of what is read, and where it is written.
uint origin_of(uint p, out int origin[3]) {
    uint at = 0u, step = 1u;
    [[unroll]] for (uint j = 0u; j < AXES; ++j) {
        uint d = 2u - j;
        int c = coordinate(p, d, places_along(d));
        origin[d] = MODE == 1 ? c : c * stride(d) - low(d);
        int written = MODE == 1 ? c * stride(d) + phase[d] : c;
        at += uint(written) * step;
        step *= uint(MODE == 1 ? push.size[d] : push.count[d]);
    }
    return at;
}
// Flat position of an origin moved by a shift; false outside.
bool position(int origin[3], int shift[3], out uint at) {
    int found = 0, step = 1;
    bool inside = true;
    [[unroll]] for (uint j = 0u; j < AXES; ++j) {
        uint d = 2u - j;
        int x = origin[d] + shift[d];
        inside = inside && uint(x) < uint(extent(d));
        found += x * step;
        step *= extent(d);
    }
    at = uint(found);
    return inside;
}
uint plane_of(uint batch, uint per_group) { return (batch * push.groups + group) * per_group; }

float fetched_a[A_LOADS], fetched_b[B_LOADS];

// The walk of MODE 0 and 1 over taps and blocks of channels.
uint tap, channel;
bool inside;
uint read_at;
int place_origin[3];
uint base_b;

void enter_tap(bool column_exists) {
    int shift[3];
    uint at;
    bool met = shift_of(tap, shift);
    inside = position(place_origin, shift, at) && met && column_exists;
    read_at = base_b + at;
}
void fetch_weight(uint channels, uint rows) {
    uint l = gl_LocalInvocationIndex;
    uint from = ((group * taps() + tap) * channels + channel) * rows + row;
    if (WIDE_A) {
        [[unroll]] for (uint i = 0u; i < A_LOADS / 4u; ++i) {
            uint e = l + i * THREADS, k = e / (BM / 4), m = e % (BM / 4) * 4u;
            vec4 v = vec4(0.0);
            if (channel + k < channels && row + m < rows) v = Quads(push.a).v[(from + k * rows + m) / 4u];
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
    uint left = inside && channel + k < channels ? channels - channel - k : 0u;
    uint from = read_at + (channel + k) * plane;
    [[unroll]] for (uint i = 0u; i < B_LOADS; ++i)
        fetched_b[i] = i * (BM / 64) < left ? Floats(push.b).v[from + i * (BM / 64) * plane] : 0.0;
}
// MODE 2: 16 places of the gradient and of the input they meet.
void fetch_places(uint k, uint end) {
    uint l = gl_LocalInvocationIndex, r = l / STEP;
    uint places = product(push.count), plane = product(push.size);
    k += l % STEP;
    uint n = k / places, p = k - n * places;
    int origin[3], shift[3];
    uint at;
    origin_of(p, origin);
    shift_of(tap_of_tile, shift);
    bool meets = position(origin, shift, at) && k < end;
    uint from_a = (plane_of(n, push.outs) + row + r) * places + p;
    uint from_b = (plane_of(n, push.ins) + column + r) * plane + at;
    const uint down = THREADS / STEP;
    [[unroll]] for (uint i = 0u; i < A_LOADS; ++i)
        fetched_a[i] = k < end && row + r + i * down < push.outs ? Floats(push.a).v[from_a + i * down * places] : 0.0;
    [[unroll]] for (uint i = 0u; i < B_LOADS; ++i)
        fetched_b[i] = meets && column + r + i * down < push.ins ? Floats(push.b).v[from_b + i * down * plane] : 0.0;
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
    uint rows = MODE == 0 ? push.outs : push.ins, plane = product(MODE == 0 ? push.count : push.size);
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
    uint plane = product(MODE == 0 ? push.size : push.count), per_image = places_of_image();
    uint c = column + gl_LocalInvocationIndex % BN, n = c / max(per_image, 1u);
    bool exists = c < push.batch * per_image;
    origin_of(c - n * per_image, place_origin);
    base_b = plane_of(n, channels) * plane;
    uint blocks = (channels + STEP - 1u) / STEP;
    uint step = part * push.chunk, end = min(step + push.chunk, blocks * taps()), now = 0u;
    tap = step / blocks;
    channel = (step - tap * blocks) * STEP;
    enter_tap(exists);
    fetch_weight(channels, rows);
    fetch_windows(channels, plane);
    keep(0u);
    barrier();
    for (; step < end; ++step) {
        bool more = step + 1u < end;
        if (more) {
            channel += STEP;
            if (channel >= channels) {
                channel = 0u;
                ++tap;
                enter_tap(exists);
            }
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
    uint end = min(k + push.chunk * STEP, push.batch * product(push.count));
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

// Which tile of the product this is; rows go fastest, as neighbours then share what they read of the images.
bool find_tile() {
    uint rows = MODE == 1 ? push.ins : push.outs, down = (rows + BM - 1u) / BM, phases = 1u;
    [[unroll]] for (uint d = FIRST; d < 3u; ++d) {
        phase[d] = 0;
        phases *= MODE == 1 ? uint(stride(d)) : 1u;
    }
    uint columns = MODE == 2 ? push.ins : push.batch * places_of_image(), across = (columns + BN - 1u) / BN;
    uint t = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x, q = t / down;
    row = (t - q * down) * BM;
    t = q / across;
    column = (q - t * across) * BN;
    uint kinds = MODE == 2 ? taps() : phases;
    q = t / kinds;
    tap_of_tile = t - q * kinds;
    uint rest = tap_of_tile;
    if (MODE == 1) [[unroll]] for (uint j = 0u; j < AXES; ++j) phase[2u - j] = coordinate(rest, 2u - j, stride(2u - j));
    part = q / push.groups;
    group = q - part * push.groups;
    return part < push.chunks;
}

void main() {
    if (!find_tile()) return;
    [[unroll]] for (uint i = 0u; i < 8u; ++i) [[unroll]] for (uint j = 0u; j < 2u; ++j) sums[i][j] = vec4(0.0);
    if (MODE == 2) {
        sum_over_places();
        put_weight();
    } else {
        sum_over_channels();
        put_outputs();
    }
}

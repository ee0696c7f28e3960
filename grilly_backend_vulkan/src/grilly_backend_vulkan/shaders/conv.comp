#version 460
// Convolution and its gradients over up to three axes as products of matrices whose elements are looked up where they lie.
// MODE 0: weights times unfolded input; 1: weights times spread gradient; 2: gradient times unfolded input.
#include "types.glsl"
layout(local_size_x = 256) in;
layout(constant_id = 0) const uint MODE = 0;
layout(constant_id = 1) const uint R = 4;
layout(constant_id = 2) const uint AXES = 2;
const uint K_TILE = 16;
const uint TILE = 16 * R;

layout(push_constant, std430) uniform Push {
    uint64_t to, a, b, bias;
    int size[3], count[3];          // spatial sizes of input and output
    uint kernel_dilation[3];        // kernel | dilation << 16
    uint stride_low[3];             // stride | low padding << 16
    uint m, n, k, outs, ins, groups;  // channels in a group
    uint chunk, chunks;             // parts of k
} push;

shared float tile_a[K_TILE][TILE + 1];
shared float tile_b[K_TILE][TILE + 1];

#include "conv.glsl"

float at(uint64_t p, int64_t i) { return load_f32(p + i * 4); }
int64_t channel(uint batch, uint group, uint per_group, uint c) {
    return (int64_t(batch) * push.groups + group) * per_group + c;
}

float left(uint group, uint row, uint k) {
    if (MODE == 0) return at(push.a, (int64_t(group) * push.outs + row) * push.k + k);
    if (MODE == 1) {
        uint o = k / taps();
        return at(push.a, ((int64_t(group) * push.outs + o) * push.ins + row) * taps() + (k - o * taps()));
    }
    uint places = output_plane(), batch = k / places;
    return at(push.a, channel(batch, group, push.outs, row) * places + (k - batch * places));
}
float right(uint group, uint k, uint column) {
    if (MODE == 1) {
        uint places = input_plane(), batch = column / places, o = k / taps();
        int p = met_output(column - batch * places, k - o * taps());
        return p < 0 ? 0.0 : at(push.b, channel(batch, group, push.outs, o) * output_plane() + p);
    }
    uint place = MODE == 0 ? column : k, tap = MODE == 0 ? k : column;
    uint places = output_plane(), batch = place / places, c = tap / taps();
    int x = met_input(place - batch * places, tap - c * taps());
    return x < 0 ? 0.0 : at(push.b, channel(batch, group, push.ins, c) * input_plane() + x);
}
void put(uint group, uint part, uint row, uint column, float value) {
    int64_t i;
    if (MODE == 2) {
        i = ((int64_t(part) * push.groups + group) * push.outs + row) * push.n + column;
    } else {
        uint places = (MODE == 0 ? output_plane() : input_plane()), batch = column / places;
        i = channel(batch, group, MODE == 0 ? push.outs : push.ins, row) * places + (column - batch * places);
    }
    if (push.bias != 0) value += at(push.bias, int64_t(group) * push.outs + row);
    store_f32(push.to + i * 4, value);
}

void tile(uint group, uint part, uint row, uint column) {
    uint x = gl_LocalInvocationID.x % 16u, y = gl_LocalInvocationID.x / 16u;
    float sums[R][R];
    [[unroll]] for (uint i = 0; i < R; ++i) [[unroll]] for (uint j = 0; j < R; ++j) sums[i][j] = 0.0;
    uint end = min((part + 1u) * push.chunk, push.k);
    for (uint k0 = part * push.chunk; k0 < end; k0 += K_TILE) {
        for (uint t = gl_LocalInvocationID.x; t < K_TILE * TILE; t += 256u) {
            uint i = t / K_TILE, k = t % K_TILE;
            tile_a[k][i] = row + i < push.m && k0 + k < end ? left(group, row + i, k0 + k) : 0.0;
            i = MODE == 2 ? t / K_TILE : t % TILE;
            k = MODE == 2 ? t % K_TILE : t / TILE;
            tile_b[k][i] = column + i < push.n && k0 + k < end ? right(group, k0 + k, column + i) : 0.0;
        }
        barrier();
        [[unroll]] for (uint k = 0; k < K_TILE; ++k) {
            float u[R], v[R];
            [[unroll]] for (uint i = 0; i < R; ++i) u[i] = tile_a[k][y + 16u * i];
            [[unroll]] for (uint j = 0; j < R; ++j) v[j] = tile_b[k][x + 16u * j];
            [[unroll]] for (uint i = 0; i < R; ++i) [[unroll]] for (uint j = 0; j < R; ++j) sums[i][j] += u[i] * v[j];
        }
        barrier();
    }
    [[unroll]] for (uint i = 0; i < R; ++i)
        [[unroll]] for (uint j = 0; j < R; ++j) {
            uint r = row + y + 16u * i, c = column + x + 16u * j;
            if (r < push.m && c < push.n) put(group, part, r, c, sums[i][j]);
        }
}

void main() {
    uint across = (push.n + TILE - 1u) / TILE, down = (push.m + TILE - 1u) / TILE;
    uint all = across * down * push.groups * push.chunks;
    for (uint t = gl_WorkGroupID.x; t < all; t += gl_NumWorkGroups.x) {
        uint q = t / across, group = q / down, part = group / push.groups;
        tile(group % push.groups, part, (q % down) * TILE, (t % across) * TILE);
    }
}

#version 460
// Convolution whose groups have one input channel, and its gradients: bound by memory, so each thread makes one element.
// MODE 0: output; 1: gradient of the input; 2: gradient of the weight, of which a work group makes TAPS elements of
// one channel, summed over one of `chunks` parts of all places.
#include "types.glsl"
layout(local_size_x = 256) in;
layout(constant_id = 0) const uint MODE = 0;
layout(constant_id = 1) const uint AXES = 2;
layout(constant_id = 2) const uint TAPS = 9;

layout(push_constant, std430) uniform Push {
    uint64_t to, a, b, bias;
    int size[3], count[3];
    uint kernel_dilation[3], stride_low[3];
    uint batch, groups, outs;  // outputs of a group
    uint chunk, chunks;        // places of a part
} push;
#include "conv.glsl"

float at(uint64_t p, uint i) { return load_f32(p + uint64_t(i) * 4u); }

float output_at(uint i) {
    uint places = output_plane(), plane = input_plane(), n = taps();
    uint image = i / places, p = i - image * places, row = image / (push.groups * push.outs);
    uint channel = image - row * push.groups * push.outs;
    uint from = (row * push.groups + channel / push.outs) * plane;
    float sum = push.bias != 0 ? at(push.bias, channel) : 0.0;
    for (uint t = 0u; t < n; ++t) {
        int x = met_input(p, t);
        if (x >= 0) sum = fma(at(push.a, channel * n + t), at(push.b, from + uint(x)), sum);
    }
    return sum;
}
float input_grad_at(uint i) {
    uint places = output_plane(), plane = input_plane(), n = taps();
    uint image = i / plane, s = i - image * plane, row = image / push.groups, group = image - row * push.groups;
    float sum = 0.0;
    for (uint t = 0u; t < n; ++t) {
        int p = met_output(s, t);
        if (p < 0) continue;
        for (uint o = 0u; o < push.outs; ++o) {
            uint channel = group * push.outs + o;
            uint from = (row * push.groups * push.outs + channel) * places;
            sum = fma(at(push.a, channel * n + t), at(push.b, from + uint(p)), sum);
        }
    }
    return sum;
}

shared float parts[256];
float total(float x) {
    uint l = gl_LocalInvocationIndex;
    parts[l] = x;
    barrier();
    for (uint half_n = 128u; half_n > 0u; half_n /= 2u) {
        if (l < half_n) parts[l] += parts[l + half_n];
        barrier();
    }
    float sum = parts[0];
    barrier();
    return sum;
}
void weight_grad(uint part, uint channel, uint first) {
    uint places = output_plane(), plane = input_plane(), n = taps();
    uint end = min((part + 1u) * push.chunk, push.batch * places);
    float sums[TAPS];
    [[unroll]] for (uint t = 0u; t < TAPS; ++t) sums[t] = 0.0;
    for (uint k = part * push.chunk + gl_LocalInvocationIndex; k < end; k += 256u) {
        uint row = k / places, p = k - row * places;
        float g = at(push.a, (row * push.groups * push.outs + channel) * places + p);
        uint from = (row * push.groups + channel / push.outs) * plane;
        [[unroll]] for (uint t = 0u; t < TAPS; ++t) {
            int x = first + t < n ? met_input(p, first + t) : -1;
            if (x >= 0) sums[t] = fma(g, at(push.b, from + uint(x)), sums[t]);
        }
    }
    [[unroll]] for (uint t = 0u; t < TAPS; ++t) {
        float sum = total(sums[t]);
        uint i = (part * push.groups * push.outs + channel) * n + first + t;
        if (first + t < n && gl_LocalInvocationIndex == 0u) store_f32(push.to + uint64_t(i) * 4u, sum);
    }
}

void main() {
    if (MODE == 2) {
        uint blocks = (taps() + TAPS - 1u) / TAPS, channels = push.groups * push.outs;
        uint all = blocks * channels * push.chunks;
        for (uint w = gl_WorkGroupID.x; w < all; w += gl_NumWorkGroups.x) {
            uint q = w / blocks, part = q / channels;
            weight_grad(part, q - part * channels, (w - q * blocks) * TAPS);
        }
        return;
    }
    uint channels = push.batch * push.groups * (MODE == 0 ? push.outs : 1u);
    uint all = channels * (MODE == 0 ? output_plane() : input_plane()), step = gl_NumWorkGroups.x * 256u;
    for (uint i = gl_GlobalInvocationID.x; i < all; i += step)
        store_f32(push.to + uint64_t(i) * 4u, MODE == 0 ? output_at(i) : input_grad_at(i));
}

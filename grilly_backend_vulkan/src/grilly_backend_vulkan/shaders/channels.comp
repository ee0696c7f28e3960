#version 460
// Batch normalisation of [batch, channels, inner]. OP 0: statistics of a channel; 1: sums for the gradients; a work group
// each. OP 2: output; 3: gradient of the input; 4: output by given statistics; a thread for each element.
#include "lanes.glsl"
layout(push_constant, std430) uniform Push {
    uint64_t to, x, g, weight, bias, mean, rstd, var;  // OP 0 writes mean, rstd, var; 1 writes weight, bias
    uint batch, channels, inner;
    float eps;
} push;

float at(uint64_t p, int64_t i) { return load_f32(p + i * 4); }
int64_t place(uint c, uint i) {
    uint b = i / push.inner;
    return (int64_t(b) * push.channels + c) * push.inner + (i - b * push.inner);
}

void statistics(uint c, uint count) {
    vec2 sum = vec2(0.0);
    for (uint i = LANE; i < count; i += LANES) add_to(sum, at(push.x, place(c, i)));
    float mean = joined_sum(total_of(sum)) / float(count);
    vec2 squares = vec2(0.0);
    for (uint i = LANE; i < count; i += LANES) {
        float centred = at(push.x, place(c, i)) - mean;
        add_to(squares, centred * centred);
    }
    float var = joined_sum(total_of(squares)) / float(count);
    if (LANE != 0u) return;
    store_f32(push.mean + uint64_t(c) * 4, mean);
    store_f32(push.var + uint64_t(c) * 4, var);
    store_f32(push.rstd + uint64_t(c) * 4, 1.0 / own_sqrt(var + push.eps));
}
void sums(uint c, uint count) {
    float mean = at(push.mean, c), rstd = at(push.rstd, c);
    vec2 plain = vec2(0.0), along = vec2(0.0);
    for (uint i = LANE; i < count; i += LANES) {
        int64_t p = place(c, i);
        float g = at(push.g, p);
        add_to(plain, g);
        add_to(along, g * (at(push.x, p) - mean) * rstd);
    }
    float total = joined_sum(total_of(plain)), slope = joined_sum(total_of(along));
    if (LANE != 0u) return;
    store_f32(push.weight + uint64_t(c) * 4, slope);
    store_f32(push.bias + uint64_t(c) * 4, total);
}
float output_at(uint64_t i, uint c, float rstd) {
    float y = (at(push.x, int64_t(i)) - at(push.mean, c)) * rstd;
    if (push.weight != 0) y *= at(push.weight, c);
    return push.bias == 0 ? y : y + at(push.bias, c);
}
// weight holds the sums of g * normal and bias those of g; var, if any, the weight
float gradient_at(uint64_t i, uint c, float count) {
    float rstd = at(push.rstd, c), normal = (at(push.x, int64_t(i)) - at(push.mean, c)) * rstd;
    float scale = push.var == 0 ? rstd : rstd * at(push.var, c);
    return scale * (at(push.g, int64_t(i)) - (at(push.bias, c) + normal * at(push.weight, c)) / count);
}

void main() {
    uint count = push.batch * push.inner;
    if (OP <= 1) {
        for (uint c = gl_WorkGroupID.x; c < push.channels; c += gl_NumWorkGroups.x) {
            if (OP == 0) statistics(c, count);
            else sums(c, count);
        }
        return;
    }
    uint64_t all = uint64_t(count) * push.channels;
    for (uint64_t i = gl_GlobalInvocationID.x; i < all; i += gl_NumWorkGroups.x * 256u) {
        uint c = uint(i / push.inner % push.channels);
        float y;
        if (OP == 3) y = gradient_at(i, c, float(count));
        else y = output_at(i, c, OP == 2 ? at(push.rstd, c) : 1.0 / own_sqrt(at(push.var, c) + push.eps));
        store_f32(push.to + i * 4, y);
    }
}

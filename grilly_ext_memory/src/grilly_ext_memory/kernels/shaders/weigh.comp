#version 460
// What a lower bound of scores is made of besides products: of a row what is added to them (inner products and lengths)
// or what they are multiplied by (cosines), of a query the factor of its products. NaN marks a row that is never near,
// infinity what cannot be bounded: sums may vanish or overflow where coordinates are very small or large.
#include "types.glsl"
layout(local_size_x = 256) in;
layout(constant_id = 0) const uint METRIC = 0;
layout(constant_id = 1) const bool WIDE = true;
layout(constant_id = 2) const bool OF_QUERIES = false;
layout(push_constant, std430) uniform Push { uint64_t to, from; uint rows, width; float slack; } push;
const uint LANES = 32, TOGETHER = 256 / LANES;
shared double sums[256];

float weight_of(double squares) {
    double size = sqrt(squares);
    bool plain = size > 1e-12LF && size < 1e18LF;
    if (is_nan(squares)) return OF_QUERIES ? INF : NAN;
    if (OF_QUERIES && METRIC < 2u) return -2.0;
    if (OF_QUERIES) return plain ? float(-1.0LF / size) : INF;
    if (METRIC == 3u) return squares == 0.0LF ? 0.0 : plain ? float(1.0LF / size) : INF;
    if (METRIC == 2u) return plain || squares == 0.0LF ? float(-double(push.slack) * size) : INF;
    return size < 1e18LF ? float(squares * (1.0LF - double(push.slack))) : INF;
}

void main() {
    uint l = gl_LocalInvocationIndex, lane = l % LANES;
    for (uint first = gl_WorkGroupID.x * TOGETHER; first < push.rows; first += gl_NumWorkGroups.x * TOGETHER) {
        uint row = first + l / LANES;
        double sum = 0.0LF;
        if (row < push.rows) {
            uint64_t at = push.from + uint64_t(row) * push.width * 4u;
            if (WIDE) {
                for (uint d = lane * 4u; d < push.width; d += LANES * 4u) {
                    vec4 four = uintBitsToFloat(R_s16(at + uint64_t(d) * 4u).v);
                    [[unroll]] for (uint c = 0u; c < 4u; ++c) sum += double(four[c]) * double(four[c]);
                }
            } else {
                for (uint d = lane; d < push.width; d += LANES) {
                    double x = double(load_f32(at + uint64_t(d) * 4u));
                    sum += x * x;
                }
            }
        }
        sums[l] = sum;
        barrier();
        for (uint half_ = LANES / 2u; half_ > 0u; half_ >>= 1) {
            if (lane < half_) sums[l] += sums[l + half_];
            barrier();
        }
        if (lane == 0u && row < push.rows) store_f32(push.to + uint64_t(row) * 4u, weight_of(sums[l]));
        barrier();
    }
}

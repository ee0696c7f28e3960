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
const uint LANES = 8, TURNS = 4, TOGETHER = 256 / LANES;  // lanes of a row, and rows of a lane
shared double pieces[TOGETHER * TURNS * (LANES + 1)];

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

vec4 four_at(uint64_t at, uint d) {
    if (WIDE) return uintBitsToFloat(R_s16(at + uint64_t(d) * 4u).v);
    vec4 found = vec4(0.0);
    [[unroll]] for (uint c = 0u; c < 4u; ++c)
        if (d + c < push.width) found[c] = load_f32(at + uint64_t(d + c) * 4u);
    return found;
}

void main() {
    uint l = gl_LocalInvocationIndex, lane = l % LANES;
    const uint each = TOGETHER * TURNS;
    for (uint first = gl_WorkGroupID.x * each; first < push.rows; first += gl_NumWorkGroups.x * each) {
        double sums[TURNS];
        [[unroll]] for (uint t = 0u; t < TURNS; ++t) sums[t] = 0.0LF;
        for (uint d = lane * 4u; d < push.width; d += LANES * 4u) {
            vec4 x[TURNS];
            [[unroll]] for (uint t = 0u; t < TURNS; ++t) {
                uint row = min(first + t * TOGETHER + l / LANES, push.rows - 1u);
                x[t] = four_at(push.from + uint64_t(row) * push.width * 4u, d);
            }
            [[unroll]] for (uint t = 0u; t < TURNS; ++t)
                [[unroll]] for (uint c = 0u; c < 4u; ++c) sums[t] += double(x[t][c]) * double(x[t][c]);
        }
        [[unroll]] for (uint t = 0u; t < TURNS; ++t) pieces[(t * TOGETHER + l / LANES) * (LANES + 1u) + lane] = sums[t];
        barrier();
        if (l < each && first + l < push.rows) {
            double sum = 0.0LF;
            [[unroll]] for (uint i = 0u; i < LANES; ++i) sum += pieces[l * (LANES + 1u) + i];
            store_f32(push.to + uint64_t(first + l) * 4u, weight_of(sum));
        }
        barrier();
    }
}

// Attention of few queries, as in decoding: what its two shaders are told.
// The keys are cut into parts of 256, one thread to a key; a part leaves its largest exponent, the sum of its weights, and
// the values weighed, which the second shader joins.
#include "attention.glsl"
const uint PART = 256u;
layout(local_size_x = PART) in;
layout(push_constant, std430) uniform Push { uint64_t out_, log_sum, sums, stats, q, k, v, sizes; } push;

uint part_count(Sizes sizes) { return (sizes.keys + PART - 1u) / PART; }
void put_row(Sizes sizes, uint row, uint d, float value, float total) {
    STORE(push.out_, uint64_t(row) * sizes.value_width + d, total == 0.0 ? 0.0 : value / total);
}
void put_log_sum(uint row, float top, float total) {
    if (push.log_sum != 0)
        store_f32(push.log_sum + uint64_t(row) * 4u, total == 0.0 ? INF : top * LN2 + own_log(total));
}

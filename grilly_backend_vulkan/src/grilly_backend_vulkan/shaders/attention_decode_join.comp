#version 460
// Joins the parts of a row: each work group makes one row.
#include "attention_decode.glsl"

void main() {
    Sizes sizes = Sizes(push.sizes);
    uint row = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x, parts = part_count(sizes);
    if (row >= sizes.batch * sizes.heads * sizes.queries) return;
    uint64_t first = uint64_t(row) * parts;
    float top = -INF, total = 0.0;
    for (uint p = 0u; p < parts; ++p) top = max(top, load_f32(push.stats + (first + p) * 8u));
    for (uint p = 0u; p < parts; ++p) {
        float own = load_f32(push.stats + (first + p) * 8u);
        if (own != -INF) total += power(own - top) * load_f32(push.stats + (first + p) * 8u + 4u);
    }
    for (uint d = gl_LocalInvocationIndex; d < sizes.value_width; d += PART) {
        float value = 0.0;
        for (uint p = 0u; p < parts; ++p) {
            float own = load_f32(push.stats + (first + p) * 8u);
            if (own != -INF) value += power(own - top) * load_f32(push.sums + ((first + p) * sizes.value_width + d) * 4u);
        }
        put_row(sizes, row, d, value, total);
    }
    if (gl_LocalInvocationIndex == 0u) put_log_sum(row, top, total);
}

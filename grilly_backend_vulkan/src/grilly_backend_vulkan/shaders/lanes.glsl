// Rows shared by LANES threads each, 256 / LANES rows at a time. The whole work group must call these functions.
#include "maths.glsl"
layout(local_size_x = 256) in;
layout(constant_id = 0) const uint OP = 0;
layout(constant_id = 1) const uint LANES = 256;  // a power of two

shared float lane_values[256];

float larger(float a, float b) { return is_nan(a) || a > b ? a : b; }

float joined(float value, bool largest) {
    if (LANES == 1) return value;
    uint l = gl_LocalInvocationID.x, lane = l % LANES;
    lane_values[l] = value;
    barrier();
    for (uint half_ = LANES / 2; half_ > 0u; half_ >>= 1) {
        if (lane < half_) {
            float a = lane_values[l], b = lane_values[l + half_];
            lane_values[l] = largest ? larger(a, b) : a + b;
        }
        barrier();
    }
    float result = lane_values[l - lane];
    barrier();
    return result;
}
float joined_sum(float value) { return joined(value, false); }
float joined_max(float value) { return joined(value, true); }

// A running sum with what rounding lost of it.
void add_to(inout vec2 sum, float x) {
    precise float total = sum.x + x;
    precise float rest = abs(sum.x) >= abs(x) ? (sum.x - total) + x : (x - total) + sum.x;
    sum = vec2(total, sum.y + rest);
}
float total_of(vec2 sum) { return is_nan(sum.x) || is_inf(sum.x) ? sum.x : sum.x + sum.y; }

#define EACH_ROW(row, rows)                                                                                      \
    for (uint row = gl_WorkGroupID.x * (256u / LANES) + gl_LocalInvocationID.x / LANES, block_ = gl_WorkGroupID.x; \
         block_ * (256u / LANES) < (rows);                                                                        \
         row += gl_NumWorkGroups.x * (256u / LANES), block_ += gl_NumWorkGroups.x)
#define LANE (gl_LocalInvocationID.x % LANES)

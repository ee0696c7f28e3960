#version 460
// Elementwise tests of two operands: OP 0 is ==, 1 is <.
#include "map.glsl"
layout(constant_id = 1) const uint OP = 0;

void main() {
    EACH(i) {
        ivec4 at = locate(i);
        C x = LOAD(push.p[1], at.y), y = LOAD(push.p[2], at.z);
        bool ordered = !is_nan(x) && !is_nan(y);
        store_b1(push.p[0] + int64_t(at.x), ordered && (OP == 0 ? x == y : x < y));
    }
}

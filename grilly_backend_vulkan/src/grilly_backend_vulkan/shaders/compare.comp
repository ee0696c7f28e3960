#version 460
// Elementwise tests of two operands: OP 0 is ==, 1 is <.
#include "map.glsl"
layout(constant_id = 1) const uint OP = 0;

bool test(C x, C y) { return !is_nan(x) && !is_nan(y) && (OP == 0 ? x == y : x < y); }

void main() {
#if SIZE <= 4
    if (RANK == FOURS) {
        EACH_FOUR(i) {
            C x[4], y[4];
            load_four(1, i, x);
            load_four(2, i, y);
            uvec4 bits;
            [[unroll]] for (uint k = 0; k < 4; ++k) bits[k] = test(x[k], y[k]) ? 1u : 0u;
            if (WHOLE(i)) store_four_bits(push.p[0] + uint64_t(i) * 4, 1, bits);
            else for (uint k = 0; 4u * i + k < push.n; ++k) store_b1(push.p[0] + 4u * i + k, bits[k]);
        }
        return;
    }
#endif
    EACH(i) {
        ivec4 at = locate(i);
        store_b1(push.p[0] + int64_t(at.x), test(LOAD(push.p[1], at.y), LOAD(push.p[2], at.z)));
    }
}

#version 460
#include "map.glsl"
void main() {
#if SIZE <= 4
    if (RANK == FOURS) {
        EACH_FOUR(i) {
            C x[4], y[4];
            load_four(2, i, x);
            load_four(3, i, y);
            bool one = push.strides[0].y == 0;
            uvec4 chosen = one || !WHOLE(i) ? uvec4(0) : load_four_bits(push.p[1] + uint64_t(i) * 4, 1);
            [[unroll]] for (uint k = 0; k < 4; ++k) {
                uint at = one ? 0u : min(4u * i + k, push.n - 1u);
                if (one || !WHOLE(i)) chosen[k] = load_b1(push.p[1] + at);
                if (chosen[k] == 0u) x[k] = y[k];
            }
            store_four(i, x);
        }
        return;
    }
#endif
    EACH(i) {
        ivec4 at = locate(i);
        bool chosen = load_b1(push.p[1] + int64_t(at.y)) != 0u;
        STORE(push.p[0], at.x, LOAD(chosen ? push.p[2] : push.p[3], chosen ? at.z : at.w));
    }
}

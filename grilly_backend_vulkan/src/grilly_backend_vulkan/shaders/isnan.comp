#version 460
#include "map.glsl"
void main() {
    EACH(i) {
        ivec4 at = locate(i);
        store_b1(push.p[0] + int64_t(at.x), is_nan(LOAD(push.p[1], at.y)));
    }
}

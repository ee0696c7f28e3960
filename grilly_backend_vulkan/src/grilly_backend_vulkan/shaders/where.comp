#version 460
#include "map.glsl"
void main() {
    EACH(i) {
        ivec4 at = locate(i);
        bool chosen = load_b1(push.p[1] + int64_t(at.y)) != 0u;
        STORE(push.p[0], at.x, LOAD(chosen ? push.p[2] : push.p[3], chosen ? at.z : at.w));
    }
}

#version 460
#include "map.glsl"
void main() {
    EACH(i) {
        ivec4 at = locate(i);
        STORE(push.p[0], at.x, LOAD(push.p[1], at.y));
    }
}

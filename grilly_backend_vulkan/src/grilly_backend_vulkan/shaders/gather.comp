#version 460
// Operands: output, x (stride 0 along the axis), index. An index out of range is clamped: nothing outside x is read.
#include "map.glsl"
#include "index.glsl"

void main() {
    int64_t step = int64_t(packUint2x32(push.k.xy)), size = int64_t(push.k.z);
    EACH(i) {
        ivec4 at = locate(i);
        int64_t j = clamp(from_front(index_at(push.p[2], int64_t(at.z)), size), int64_t(0), size - 1);
        STORE(push.p[0], at.x, LOAD(push.p[1], int64_t(at.y) + j * step));
    }
}

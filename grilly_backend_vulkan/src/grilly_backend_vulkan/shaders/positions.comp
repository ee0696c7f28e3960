#version 460
// An index of any integer type as u32 from the front; 0xffffffff where it is out of range or push.k.y.
#include "map.glsl"
#include "index.glsl"
void main() {
    int64_t size = int64_t(push.k.x);
    EACH(i) {
        ivec4 at = locate(i);
        int64_t j = from_front(index_at(push.p[1], int64_t(at.y)), size);
        bool inside = uint64_t(j) < uint64_t(size) && uint(j) != push.k.y;
        store_u32(push.p[0] + int64_t(at.x) * 4, inside ? uint(j) : 0xffffffffu);
    }
}

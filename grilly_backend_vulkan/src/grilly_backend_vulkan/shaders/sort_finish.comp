#version 460
// Values and places in the layout of the output [outer, terms, inner].
#include "sort.glsl"
void main() {
    uint64_t all = uint64_t(push.outer) * push.inner * push.terms;
    for (uint64_t w = gl_GlobalInvocationID.x; w < all; w += gl_NumWorkGroups.x * 256u) {
        uint64_t line = w / push.inner, o = line / push.terms;
        uint i = uint(w - line * push.inner), j = uint(line - o * push.terms);
        uint place = load_u32(push.places + ((o * push.inner + i) * push.terms + j) * 4);
        STORE(push.values, w, LOAD(push.from, (o * push.terms + place) * push.inner + i));
        store_u32(push.keys_to + w * 4, place);
    }
}

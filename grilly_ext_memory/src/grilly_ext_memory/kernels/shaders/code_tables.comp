#version 460
// What each codeword adds to a score: sums over the columns of a part, in order. A thread makes a number.
#include "types.glsl"
layout(local_size_x = 256) in;
layout(constant_id = 0) const uint METRIC = 0;
const uint INNER = 2, CITY = 4;
layout(push_constant, std430) uniform Push { uint64_t tables, from, books; uint queries, pieces, codes, width; } push;

void main() {
    uint64_t count = uint64_t(push.queries) * push.pieces * push.codes;
    for (uint64_t i = gl_GlobalInvocationID.x; i < count; i += gl_NumWorkGroups.x * 256u) {
        uint64_t line = i / push.codes;  // of a query and a piece
        uint code = uint(i % push.codes), piece = uint(line % push.pieces);
        uint64_t q = push.from + line * push.width * 4u;
        uint64_t x = push.books + (uint64_t(piece) * push.codes + code) * push.width * 4u;
        precise float total = 0.0;
        for (uint d = 0u; d < push.width; ++d) {
            float a = load_f32(q + uint64_t(d) * 4u), b = load_f32(x + uint64_t(d) * 4u);
            precise float apart = a - b;
            precise float term = METRIC == INNER ? a * b : METRIC == CITY ? abs(apart) : apart * apart;
            total += term;
        }
        store_f32(push.tables + i * 4u, total);
    }
}

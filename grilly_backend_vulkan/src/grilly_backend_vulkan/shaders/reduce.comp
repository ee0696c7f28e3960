#version 460
// Sums and maxima over some axes of a tensor of any layout. A thread (GROUPED false) or a work group makes one
// output, or one of `chunks` parts of it, always in the same order.
#include "accumulate.glsl"
layout(local_size_x = 256) in;
layout(constant_id = 1) const bool GROUPED = true;
layout(constant_id = 2) const uint KEPT = 1;     // axes kept
layout(constant_id = 3) const uint REDUCED = 1;  // axes reduced
layout(constant_id = 4) const bool CHOSEN = false;  // the terms are those at the places in `chosen`

layout(push_constant, std430) uniform Push {
    uint64_t to, from, chosen;
    uint outputs, terms, chunks, chunk;  // chunk: terms of a part
    int kept_stride[4];                  // innermost first
    uint kept_size[3];
    int stride[4];
    uint size[3];
} push;

int64_t kept_at(uint i) {
    int64_t at = 0;
    [[unroll]] for (uint d = 0; d + 1 < KEPT; ++d) {
        uint rest = i / push.kept_size[d];
        at += int64_t(i - rest * push.kept_size[d]) * push.kept_stride[d];
        i = rest;
    }
    return at + int64_t(i) * push.kept_stride[KEPT - 1];
}
int64_t term_at(uint i) {
    int64_t at = 0;
    [[unroll]] for (uint d = 0; d + 1 < REDUCED; ++d) {
        uint rest = i / push.size[d];
        at += int64_t(i - rest * push.size[d]) * push.stride[d];
        i = rest;
    }
    return at + int64_t(i) * push.stride[REDUCED - 1];
}

Acc part(uint64_t from, uint64_t chosen, uint begin, uint end, uint step) {
    Acc a = identity();
    for (uint r = begin; r < end; r += step) {
        uint place = CHOSEN ? load_u32(chosen + uint64_t(r) * 4) : r;
        take(a, LOAD(from, term_at(place)), place);
    }
    return a;
}
void put(uint output_, uint c, Acc a) {
    uint64_t at = uint64_t(output_) * push.chunks + c;
    if (OP == 2) store_u32(push.to + at * 4, a.place);
    else STORE(push.to, at, result(a));
}

shared Acc parts[GROUPED ? 256 : 1];

void main() {
    uint all = push.outputs * push.chunks, l = gl_LocalInvocationID.x;
    uint first = GROUPED ? gl_WorkGroupID.x : gl_GlobalInvocationID.x;
    uint step = gl_NumWorkGroups.x * (GROUPED ? 1u : 256u);
    for (uint w = first; w < all; w += step) {
        uint c = w / push.outputs, o = w - c * push.outputs;
        uint begin = c * push.chunk, end = min(begin + push.chunk, push.terms);
        uint64_t from = push.from + kept_at(o) * SIZE, chosen = push.chosen + uint64_t(o) * push.terms * 4;
        if (!GROUPED) {
            put(o, c, part(from, chosen, begin, end, 1u));
            continue;
        }
        parts[l] = part(from, chosen, begin + l, end, 256u);
        barrier();
        for (uint half_ = 128u; half_ > 0u; half_ >>= 1) {
            if (l < half_) {
                Acc a = parts[l];
                join_acc(a, parts[l + half_]);
                parts[l] = a;
            }
            barrier();
        }
        if (l == 0u) put(o, c, parts[0]);
        barrier();
    }
}

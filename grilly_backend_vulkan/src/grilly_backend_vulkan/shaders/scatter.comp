#version 460
// Put updates [outer, count, inner] at positions of the middle axis of the output [outer, size, inner], which already
// holds x. Sorted: the positions are sorted, `order` says where each came from, and the thread at place `first` of a run
// of equal ones does `most` of them in order. Else a thread goes through all positions. Positions out of range are skipped.
#include "types.glsl"
layout(local_size_x = 256) in;
layout(constant_id = 0) const uint OP = 0;  // 0 set, 1 add, 2 min, 3 max
layout(constant_id = 1) const bool SORTED = false;
layout(push_constant, std430) uniform Push {
    uint64_t to, positions, order, updates;
    uint outer, count, inner, size;
    uint first, most;  // the part of each run that this launch does
} push;

C combined(C old, C update) {
#ifdef PATTERN
    return update;
#else
    if (OP == 0) return update;
    if (OP == 1) return old + update;
    if (is_nan(old)) return old;
    if (is_nan(update)) return update;
    return (OP == 2) == (update < old) ? update : old;
#endif
}
void put(int64_t target, int64_t source) {
    C update = LOAD(push.updates, source);
    STORE(push.to, target, OP == 0 ? update : combined(LOAD(push.to, target), update));
}
uint position(uint j) { return load_u32(push.positions + uint64_t(j) * 4); }

void by_slice(uint slice) {
    uint o = slice / push.inner, i = slice - o * push.inner;
    for (uint j = 0; j < push.count; ++j) {
        uint p = position(j);
        if (p >= push.size) continue;
        put((int64_t(o) * push.size + p) * push.inner + i, (int64_t(o) * push.count + j) * push.inner + i);
    }
}
void by_run(uint slice, uint j) {
    uint p = position(j), o = slice / push.inner, i = slice - o * push.inner;
    if (p >= push.size) return;
    int64_t target = (int64_t(o) * push.size + p) * push.inner + i;
#ifdef PATTERN
    if (j + 1u < push.count && position(j + 1u) == p) return;
    put(target, (int64_t(o) * push.count + load_u32(push.order + uint64_t(j) * 4)) * push.inner + i);
#else
    if (OP == 0) {
        if (j + 1u < push.count && position(j + 1u) == p) return;
    } else {
        if (j < push.first || position(j - push.first) != p) return;
        if (j > push.first && position(j - push.first - 1u) == p) return;
    }
    C value = LOAD(push.to, target);
    uint end = min(j + push.most, push.count);
    do {
        uint from = load_u32(push.order + uint64_t(j) * 4);
        value = combined(value, LOAD(push.updates, (int64_t(o) * push.count + from) * push.inner + i));
        ++j;
    } while (OP != 0 && j < end && position(j) == p);
    STORE(push.to, target, value);
#endif
}

void main() {
    uint slices = push.outer * push.inner;
    uint64_t all = uint64_t(slices) * (SORTED ? push.count : 1u);
    for (uint64_t w = gl_GlobalInvocationID.x; w < all; w += gl_NumWorkGroups.x * 256u) {
        if (!SORTED) {
            by_slice(uint(w));
            continue;
        }
        uint64_t block = w / push.inner;
        uint j = uint(block % push.count);
        by_run(uint(block / push.count) * push.inner + uint(w - block * push.inner), j);
    }
}

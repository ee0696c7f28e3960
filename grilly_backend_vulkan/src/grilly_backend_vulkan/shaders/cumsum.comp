#version 460
// Running sums of [outer, terms, inner] along the middle axis, in parts of `chunk` terms: a work group for each part, or a
// thread if GROUPED is off. With several parts their totals are written too; a second launch (BEFORE) adds to each
// element the running sum of the totals before its part.
#include "accumulate.glsl"
layout(local_size_x = 256) in;
layout(constant_id = 1) const bool GROUPED = true;
layout(constant_id = 2) const bool BEFORE = false;
layout(push_constant, std430) uniform Push {
    uint64_t to, from, totals;
    uint rows, terms, inner, parts, chunk;
} push;

shared Acc sums[GROUPED ? 256 : 1];

int64_t row_at(uint row) {
    uint o = row / push.inner;
    return int64_t(o) * push.terms * push.inner + (row - o * push.inner);
}
void by_thread(int64_t base) {
    Acc a = identity();
    for (uint j = 0; j < push.terms; ++j) {
        int64_t at = base + int64_t(j) * push.inner;
        add_to(a, LOAD(push.from, at));
        STORE(push.to, at, result(a));
    }
}
void by_group(int64_t base, uint begin, uint end, uint64_t total_at) {
    uint l = gl_LocalInvocationID.x;
    Acc carry = identity();
    for (uint start = begin; start < end; start += 256u) {
        uint j = start + l;
        int64_t at = base + int64_t(j) * push.inner;
        Acc mine = identity();
        if (j < end) mine.value = LOAD(push.from, at);
        sums[l] = mine;
        barrier();
        [[unroll]] for (uint d = 1u; d < 256u; d <<= 1) {
            if (l >= d) join_acc(mine, sums[l - d]);
            barrier();
            sums[l] = mine;
            barrier();
        }
        Acc total = sums[255];
        join_acc(mine, carry);
        if (j < end) STORE(push.to, at, result(mine));
        join_acc(carry, total);
        barrier();
    }
    if (push.totals != 0 && l == 0u) STORE(push.totals, total_at, result(carry));
}
void add_before() {
    uint64_t all = uint64_t(push.rows) * push.terms;
    for (uint64_t w = gl_GlobalInvocationID.x; w < all; w += gl_NumWorkGroups.x * 256u) {
        uint64_t line = w / push.inner, o = line / push.terms;
        uint part = uint(line - o * push.terms) / push.chunk;
        uint64_t row = o * push.inner + (w - line * push.inner);
        if (part > 0u) STORE(push.to, w, LOAD(push.to, w) + LOAD(push.totals, row * push.parts + part - 1u));
    }
}

void main() {
    if (BEFORE) {
        add_before();
        return;
    }
    uint first = GROUPED ? gl_WorkGroupID.x : gl_GlobalInvocationID.x;
    uint step = gl_NumWorkGroups.x * (GROUPED ? 1u : 256u);
    for (uint w = first; w < push.rows * push.parts; w += step) {
        uint row = w / push.parts, begin = (w - row * push.parts) * push.chunk;
        if (GROUPED) by_group(row_at(row), begin, min(begin + push.chunk, push.terms), uint64_t(w));
        else by_thread(row_at(row));
    }
}

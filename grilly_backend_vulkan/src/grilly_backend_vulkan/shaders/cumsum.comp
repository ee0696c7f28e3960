#version 460
// Running sums of [outer, terms, inner] along the middle axis: a work group for each row, or a thread if GROUPED is off.
#include "accumulate.glsl"
layout(local_size_x = 256) in;
layout(constant_id = 1) const bool GROUPED = true;
layout(push_constant, std430) uniform Push {
    uint64_t to, from;
    uint rows, terms, inner;
} push;

shared Acc sums[GROUPED ? 256 : 1];

void by_thread(int64_t base) {
    Acc a = identity();
    for (uint j = 0; j < push.terms; ++j) {
        int64_t at = base + int64_t(j) * push.inner;
        add_to(a, LOAD(push.from, at));
        STORE(push.to, at, result(a));
    }
}
void by_group(int64_t base) {
    uint l = gl_LocalInvocationID.x;
    Acc carry = identity();
    for (uint start = 0; start < push.terms; start += 256u) {
        uint j = start + l;
        int64_t at = base + int64_t(j) * push.inner;
        Acc mine = identity();
        if (j < push.terms) mine.value = LOAD(push.from, at);
        sums[l] = mine;
        barrier();
        for (uint d = 1u; d < 256u; d <<= 1) {
            if (l >= d) join_acc(mine, sums[l - d]);
            barrier();
            sums[l] = mine;
            barrier();
        }
        Acc total = sums[255];
        join_acc(mine, carry);
        if (j < push.terms) STORE(push.to, at, result(mine));
        join_acc(carry, total);
        barrier();
    }
}

void main() {
    uint first = GROUPED ? gl_WorkGroupID.x : gl_GlobalInvocationID.x;
    uint step = gl_NumWorkGroups.x * (GROUPED ? 1u : 256u);
    for (uint row = first; row < push.rows; row += step) {
        uint o = row / push.inner;
        int64_t base = int64_t(o) * push.terms * push.inner + (row - o * push.inner);
        if (GROUPED) by_group(base);
        else by_thread(base);
    }
}

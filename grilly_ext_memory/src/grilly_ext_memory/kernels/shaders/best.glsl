// The best of a stream. A work group holds KEEP entries in rising order, and behind them those that wait to be sorted
// in; what is not better than the last wanted one does not enter. An entry is a score in sorting order above a
// position, so of equal scores the lower position comes first, in whatever order they come.
// The push constants of who includes this begin with the addresses of values and positions, both [queries, wanted], and
// of entries, [queries, parts, wanted], and with these numbers.
layout(local_size_x = THREADS) in;
layout(constant_id = 0) const uint KEEP = 16;       // a power of two, at least as many as wanted
layout(constant_id = 1) const uint SPACE = 512;     // a power of two, at least 2 KEEP
layout(constant_id = 2) const bool NEGATE = false;  // scores were turned around, so that small ones are near
layout(constant_id = 3) const bool COUNTS = false;  // scores are whole numbers
layout(constant_id = 4) const bool LAST = true;     // results are written, not entries to be merged

const uint64_t NOTHING = 0xffffffffffffffffUL;
shared uint64_t held[SPACE];
shared uint64_t worst;  // an entry that may enter is below it
shared uint waiting;

uint number_of(float score) {  // rising; both zeros are one
    uint bits = floatBitsToUint(score), size = bits & 0x7fffffffu;
    if (size == 0u) return 0x80000000u;
    return bits == size ? bits | 0x80000000u : ~bits;
}
float score_of(uint number) {
    return uintBitsToFloat((number & 0x80000000u) != 0u ? number & 0x7fffffffu : ~number);
}
uint64_t entry_of(uint number, uint place) { return uint64_t(number) << 32 | uint64_t(place); }
uint number_in(uint64_t entry) { return uint(entry >> 32); }
uint place_in(uint64_t entry) { return uint(entry & 0xffffffffUL); }

// Work groups lie in a grid of two axes, as there may be many.
uint group_index() { return gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x; }

// Everything below must be called by the whole work group.
void sort_held(uint n) {
    for (uint size = 2u; size <= n; size <<= 1) {
        for (uint stride = size >> 1; stride > 0u; stride >>= 1) {
            barrier();
            for (uint i = gl_LocalInvocationIndex; i < n / 2u; i += THREADS) {
                uint a = 2u * i - (i & (stride - 1u)), b = a + stride;
                uint64_t x = held[a], y = held[b];
                if ((x > y) == ((a & size) == 0u)) {
                    held[a] = y;
                    held[b] = x;
                }
            }
        }
    }
    barrier();
}
void begin_best() {
    for (uint i = gl_LocalInvocationIndex; i < SPACE; i += THREADS) held[i] = NOTHING;
    if (gl_LocalInvocationIndex == 0u) {
        worst = NOTHING;
        waiting = 0u;
    }
    barrier();
}
// Sort in what waits. What was pushed out stays behind the best: it is worse, and is there but once.
void settle() {
    uint n = KEEP, used = KEEP + min(waiting, SPACE - KEEP);
    while (n < used) n <<= 1;
    sort_held(n);
    if (gl_LocalInvocationIndex == 0u) {
        worst = held[push.wanted - 1u];
        waiting = 0u;
    }
    barrier();
}
void offer(inout uint64_t given[EACH]) {
    while (true) {
        [[unroll]] for (uint e = 0u; e < EACH; ++e) {
            if (given[e] >= worst) continue;
            uint slot = KEEP + atomicAdd(waiting, 1u);
            if (slot >= SPACE) continue;
            held[slot] = given[e];
            given[e] = NOTHING;
        }
        barrier();
        bool full = KEEP + waiting > SPACE;
        barrier();
        if (!full) break;
        settle();
    }
}

// The first of a stream: as many as are wanted are not worse than the worst of the best of each thread, so most of the
// others need not enter.
void offer_first(inout uint64_t given[EACH]) {
    uint64_t least[EACH];
    [[unroll]] for (uint e = 0u; e < EACH; ++e) least[e] = NOTHING;
    [[unroll]] for (uint e = 0u; e < EACH; ++e) {
        if (given[e] >= least[0]) continue;
        uint64_t other = least[0];
        least[0] = given[e];
        given[e] = other;
    }
    offer(least);
    settle();
    offer(given);
}

uint64_t entry_at(uint query, uint part, uint i) {
    return push.entries + ((uint64_t(query) * push.parts + part) * push.wanted + i) * 8u;
}
void write_best(uint query, uint part) {
    for (uint i = gl_LocalInvocationIndex; i < push.wanted; i += THREADS) {
        uint64_t entry = held[i], at = (uint64_t(query) * push.wanted + i) * 4u;
        if (!LAST) {
            store_u64(entry_at(query, part, i), entry);
            continue;
        }
        bool none = entry == NOTHING;
        store_i32(push.positions + at, none ? -1 : int(place_in(entry)));
        uint number = number_in(entry);
        uint bits = none ? 0x7f7fffffu : floatBitsToUint(score_of(number));
        if (NEGATE && bits != 0u) bits ^= 0x80000000u;
        store_u32(push.values + at, COUNTS ? (none ? 0x7fffffffu : number) : bits);
    }
}
void end_best(uint query, uint part) {
    settle();
    write_best(query, part);
}

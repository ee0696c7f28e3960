#version 460
// First pass: blocks of 512 of each row [outer, terms, inner], sorted by key and place, which makes it stable.
#include "sort.glsl"
layout(constant_id = 0) const bool DESCENDING = false;

K key_of(uint64_t p) {
#ifdef USE_F64
    uint64_t bits = load_u64(p), size = bits & 0x7fffffffffffffffUL;
    if (size > 0x7ff0000000000000UL) return LAST;
    if (size == 0UL) return 0x8000000000000000UL;
    return bits == size ? bits | 0x8000000000000000UL : ~bits;
#elif defined(KIND_f)
    uint bits = floatBitsToUint(JOIN(load_, T)(p)), size = bits & 0x7fffffffu;
    if (size > 0x7f800000u) return LAST;
    if (size == 0u) return 0x80000000u;
    return bits == size ? bits | 0x80000000u : ~bits;
#elif defined(KIND_i)
    return K(JOIN(load_, T)(p)) ^ (K(1) << (8 * KEY_SIZE - 1));
#else
    return K(JOIN(load_, T)(p));
#endif
}

shared K keys[512];
shared uint places[512];

bool after(uint a, uint b) { return keys[a] > keys[b] || (keys[a] == keys[b] && places[a] > places[b]); }
void order(uint a, uint b, bool ascending) {
    if (after(a, b) != ascending) return;
    K key = keys[a];
    uint place = places[a];
    keys[a] = keys[b];
    places[a] = places[b];
    keys[b] = key;
    places[b] = place;
}

void block(uint row, uint start) {
    uint l = gl_LocalInvocationID.x, o = row / push.inner;
    int64_t base = int64_t(o) * push.terms * push.inner + (row - o * push.inner);
    for (uint t = l; t < 512u; t += 256u) {
        uint j = start + t;
        keys[t] = LAST;
        if (j < push.terms) {
            K key = key_of(push.from + (base + int64_t(j) * push.inner) * SIZE);
            keys[t] = DESCENDING ? ~key : key;
        }
        places[t] = j;
    }
    barrier();
    for (uint size = 2u; size <= 512u; size <<= 1) {
        for (uint stride = size >> 1; stride > 0u; stride >>= 1) {
            uint a = 2u * l - (l & (stride - 1u));
            order(a, a + stride, (a & size) == 0u);
            barrier();
        }
    }
    for (uint t = l; t < 512u && start + t < push.terms; t += 256u) {
        uint64_t at = uint64_t(row) * push.terms + start + t;
        store_key(push.keys_to + at * KEY_SIZE, keys[t]);
        store_u32(push.places_to + at * 4, places[t]);
    }
    barrier();
}

void main() {
    uint across = (push.terms + 511u) / 512u, rows = push.outer * push.inner;
    for (uint b = gl_WorkGroupID.x; b < across * rows; b += gl_NumWorkGroups.x)
        block(b / across, (b % across) * 512u);
}

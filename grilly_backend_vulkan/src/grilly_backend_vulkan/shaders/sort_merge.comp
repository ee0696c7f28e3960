#version 460
// One pass: runs of `width` are merged in pairs. Each element finds its place by a search in the other run.
#include "sort.glsl"

uint smaller(uint64_t row, uint begin, uint end, K key, bool or_equal) {
    uint first = begin;
    while (begin < end) {
        uint middle = (begin + end) / 2u;
        K other = load_key(push.keys + (row + middle) * KEY_SIZE);
        if (other < key || (or_equal && other == key)) begin = middle + 1u;
        else end = middle;
    }
    return begin - first;
}

void main() {
    uint64_t all = uint64_t(push.outer) * push.inner * push.terms;
    for (uint64_t w = gl_GlobalInvocationID.x; w < all; w += gl_NumWorkGroups.x * 256u) {
        uint64_t row = w / push.terms * push.terms;
        uint j = uint(w - row), run = j / push.width;
        bool right = (run & 1u) == 1u;
        uint begin = min((right ? run - 1u : run + 1u) * push.width, push.terms);
        uint end = min(begin + push.width, push.terms);
        K key = load_key(push.keys + w * KEY_SIZE);
        uint at = (right ? j - push.width : j) + smaller(row, begin, end, key, right);
        store_key(push.keys_to + (row + at) * KEY_SIZE, key);
        store_u32(push.places_to + (row + at) * 4, load_u32(push.places + w * 4));
    }
}

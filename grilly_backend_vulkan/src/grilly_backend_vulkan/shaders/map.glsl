// Elementwise kernels: up to four operands of any layout, one output element for each thread and turn.
#include "types.glsl"

layout(local_size_x = 256) in;
layout(constant_id = 0) const uint RANK = 1;  // axes after merging; 0: read them from memory; FOURS: see below
#define FOURS 5

layout(push_constant, std430) uniform Push {
    uint64_t p[4];     // addresses of output and inputs
    ivec4 strides[4];  // of each axis, innermost first, in elements
    uint shape[3];     // of each axis but the outermost
    uint n;            // elements
    uvec4 k;           // scalars of the kernel
} push;

layout(buffer_reference, std430, buffer_reference_align = 16) readonly buffer Axis { ivec4 strides; uint size; };

// Offsets of element i in the four operands.
ivec4 locate(uint i) {
    if (RANK == 1) return int(i) * push.strides[0];
    ivec4 at = ivec4(0);
    if (RANK == 0) {
        uint64_t axis = packUint2x32(uvec2(push.shape[0], push.shape[1]));
        for (uint d = 0; d < push.shape[2]; ++d, axis += 32) {
            uint size = Axis(axis).size, rest = i / size;
            at += int(i - rest * size) * Axis(axis).strides;
            i = rest;
        }
        return at;
    }
    [[unroll]] for (uint d = 0; d + 1 < RANK; ++d) {
        uint rest = i / push.shape[d];
        at += int(i - rest * push.shape[d]) * push.strides[d];
        i = rest;
    }
    return at + int(i) * push.strides[RANK - 1];
}

#define EACH(i) for (uint i = gl_GlobalInvocationID.x; i < push.n; i += gl_NumWorkGroups.x * 256u)

// Four elements a thread (RANK is FOURS): operands are packed and aligned, or one number for all. A memory-bound
// kernel reaches 0.65 of the H200's bandwidth with one element a thread, and all of it with four.
#define EACH_FOUR(i) for (uint i = gl_GlobalInvocationID.x; i < (push.n + 3u) / 4u; i += gl_NumWorkGroups.x * 256u)
#define WHOLE(i) (4u * (i) + 4u <= push.n)
#if defined(SIZE) && SIZE <= 4
void load_four(uint operand, uint i, out C x[4]) {
    uint64_t p = push.p[operand];
    if (push.strides[0][operand] == 0) {
        C value = LOAD(p, 0);
        [[unroll]] for (uint k = 0; k < 4; ++k) x[k] = value;
    } else if (WHOLE(i)) {
        uvec4 bits = load_four_bits(p + uint64_t(i) * (4 * SIZE), SIZE);
        [[unroll]] for (uint k = 0; k < 4; ++k) x[k] = JOIN(value_, T)(bits[k]);
    } else {
        [[unroll]] for (uint k = 0; k < 4; ++k) x[k] = LOAD(p, min(4u * i + k, push.n - 1u));
    }
}
void store_four(uint i, C x[4]) {
    if (WHOLE(i)) {
        uvec4 bits;
        [[unroll]] for (uint k = 0; k < 4; ++k) bits[k] = JOIN(bits_, T)(x[k]);
        store_four_bits(push.p[0] + uint64_t(i) * (4 * SIZE), SIZE, bits);
        return;
    }
    [[unroll]] for (uint k = 0; k < 4; ++k) if (4u * i + k < push.n) STORE(push.p[0], 4u * i + k, x[k]);
}
#endif

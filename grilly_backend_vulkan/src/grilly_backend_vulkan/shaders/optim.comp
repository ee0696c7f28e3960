#version 460
// A step of an optimiser over many tensors at once: a table in memory says where each lies. OP 0 SGD, 1 Adam.
#include "maths.glsl"
layout(local_size_x = 256) in;
layout(constant_id = 0) const uint OP = 0;
layout(constant_id = 1) const bool EXTRA = false;      // SGD: momenta; Adam: largest second moments
layout(constant_id = 2) const bool VARIANT = false;    // SGD: Nesterov; Adam: decoupled weight decay
layout(constant_id = 3) const bool FIRST = false;      // SGD: momenta start from the gradients
layout(constant_id = 4) const bool MAXIMIZE = false;
const uint BLOCK = 1024;  // elements of a work group's turn

layout(buffer_reference, std430, buffer_reference_align = 8) readonly buffer Entry {
    uint64_t param, grad, a, b, c;              // read; a, b, c: the state
    uint64_t new_param, new_a, new_b, new_c;    // written
    uint size, first_block;
};
layout(push_constant, std430) uniform Push {
    uint64_t table, lr, step, skip;  // skip: where it is not 0, everything stays
    uint count, blocks;
    float decay;
    float k[6];  // SGD: momentum, 1 - dampening; Adam: beta1, beta2, eps, log(beta1), log(beta2), unused
} push;
const uint64_t ENTRY = 80;

float larger_of(float a, float b) { return is_nan(a) || a > b ? a : b; }
float at(uint64_t p, uint64_t i) { return load_f32(p + i * 4); }
void put(uint64_t p, uint64_t i, float v) { store_f32(p + i * 4, v); }

void sgd(Entry e, uint64_t i, float lr) {
    float p = at(e.param, i), g = at(e.grad, i);
    if (MAXIMIZE) g = -g;
    g += push.decay * p;
    if (EXTRA) {
        float m = FIRST ? g : push.k[0] * at(e.a, i) + push.k[1] * g;
        put(e.new_a, i, m);
        g = VARIANT ? g + push.k[0] * m : m;
    }
    put(e.new_param, i, p - lr * g);
}
void adam(Entry e, uint64_t i, float lr, float rate, float root) {
    float p = at(e.param, i), g = at(e.grad, i);
    if (MAXIMIZE) g = -g;
    if (VARIANT) p *= 1.0 - lr * push.decay;
    else g += push.decay * p;
    float m = at(e.a, i), v = at(e.b, i);
    m += (1.0 - push.k[0]) * (g - m);
    v = push.k[1] * v + (1.0 - push.k[1]) * (g * g);
    put(e.new_a, i, m);
    put(e.new_b, i, v);
    if (EXTRA) {
        v = larger_of(at(e.c, i), v);
        put(e.new_c, i, v);
    }
    put(e.new_param, i, p - rate * (m / (sqrt(v) / root + push.k[2])));
}
Entry owner(uint block) {  // the last entry that starts at or before the block
    uint low = 0u, high = push.count - 1u;
    while (low < high) {
        uint middle = (low + high + 1u) / 2u;
        if (Entry(push.table + ENTRY * middle).first_block <= block) low = middle;
        else high = middle - 1u;
    }
    return Entry(push.table + ENTRY * low);
}

void keep(Entry e, uint64_t i) {
    put(e.new_param, i, at(e.param, i));
    if (e.new_a != 0) put(e.new_a, i, at(e.a, i));
    if (e.new_b != 0) put(e.new_b, i, at(e.b, i));
    if (e.new_c != 0) put(e.new_c, i, at(e.c, i));
}

void main() {
    bool skipped = push.skip != 0 && load_f32(push.skip) != 0.0;
    float lr = load_f32(push.lr), rate = 0.0, root = 1.0;
    if (OP == 1) {
        float step = load_f32(push.step);
        rate = lr / (push.k[0] == 0.0 ? 1.0 : -own_expm1(step * push.k[3]));
        root = push.k[1] == 0.0 ? 1.0 : own_sqrt(-own_expm1(step * push.k[4]));
    }
    for (uint block = gl_WorkGroupID.x; block < push.blocks; block += gl_NumWorkGroups.x) {
        Entry e = owner(block);
        uint start = (block - e.first_block) * BLOCK, end = min(start + BLOCK, e.size);
        for (uint i = start + gl_LocalInvocationID.x; i < end; i += 256u) {
            if (skipped) keep(e, uint64_t(i));
            else if (OP == 0) sgd(e, uint64_t(i), lr);
            else adam(e, uint64_t(i), lr, rate, root);
        }
    }
}

#version 460
// The same as rows.comp for packed rows that fit into registers, and sums and maxima of them: every row is read once,
// four elements at a time. Softmax over rows of 1024 reads three times otherwise, and reaches a third of the speed.
#include "lanes.glsl"
layout(constant_id = 2) const uint HELD = 4;  // groups of four elements that a thread holds

layout(push_constant, std430) uniform Push {
    uint64_t to, x, y, weight, bias, mean, rstd;  // as in rows.comp
    uint rows, terms, inner;                      // terms: a multiple of 4; inner: 1
    float eps;
} push;

layout(buffer_reference, std430, buffer_reference_align = 16) buffer Quad { vec4 v; };
vec4 quad(uint64_t p, uint64_t i) { return Quad(p + i * 16).v; }

#define EACH_HELD(k) [[unroll]] for (uint k = 0; k < HELD; ++k)
#define PLACE(k) (LANE + (k) * LANES)
#define HAS(k) (inside && PLACE(k) < push.terms / 4u)

void hold(bool inside, uint64_t p, uint64_t base, float neutral, out vec4 x[HELD]) {
    EACH_HELD(k) x[k] = HAS(k) ? quad(p, base + PLACE(k)) : vec4(neutral);
}
void scale(bool inside, inout vec4 x[HELD]) {
    if (push.weight == 0) return;
    EACH_HELD(k) if (HAS(k)) x[k] *= quad(push.weight, PLACE(k));
}
void put(bool inside, uint64_t base, vec4 x[HELD]) {
    EACH_HELD(k) if (HAS(k)) Quad(push.to + (base + PLACE(k)) * 16).v = x[k];
}
float sum(vec4 x[HELD]) {
    vec4 total = x[0];
    [[unroll]] for (uint k = 1; k < HELD; ++k) total += x[k];
    return joined_sum((total.x + total.y) + (total.z + total.w));
}
float sum_of_products(vec4 x[HELD], vec4 y[HELD]) {
    vec4 total = x[0] * y[0];
    [[unroll]] for (uint k = 1; k < HELD; ++k) total += x[k] * y[k];
    return joined_sum((total.x + total.y) + (total.z + total.w));
}
float largest(vec4 x[HELD]) {
    float top = -INF;
    EACH_HELD(k) [[unroll]] for (uint c = 0; c < 4; ++c) top = larger(x[k][c], top);
    return joined_max(top);
}
vec4 exp4(vec4 x) { return vec4(own_exp(x.x), own_exp(x.y), own_exp(x.z), own_exp(x.w)); }

void softmax(bool inside, uint64_t base) {
    vec4 x[HELD], e[HELD];
    hold(inside, push.x, base, -INF, x);
    float top = largest(x);
    EACH_HELD(k) {
        x[k] -= top;
        e[k] = exp4(x[k]);
        if (!HAS(k)) e[k] = vec4(0.0);
    }
    float total = sum(e);
    if (OP == 0) {
        EACH_HELD(k) e[k] /= total;
        put(inside, base, e);
    } else {
        float lost = own_log(total);
        EACH_HELD(k) x[k] -= lost;
        put(inside, base, x);
    }
}
void softmax_gradient(bool inside, uint64_t base) {
    vec4 g[HELD], y[HELD];
    hold(inside, push.x, base, 0.0, g);
    hold(inside, push.y, base, 0.0, y);
    float total = OP == 2 ? sum_of_products(g, y) : sum(g);
    EACH_HELD(k) g[k] = OP == 2 ? y[k] * (g[k] - total) : g[k] - exp4(y[k]) * total;
    put(inside, base, g);
}
void norm(bool inside, uint row, uint64_t base) {
    vec4 x[HELD];
    hold(inside, push.x, base, 0.0, x);
    float n = float(push.terms), mean = OP == 4 ? sum(x) / n : 0.0;
    EACH_HELD(k) x[k] = HAS(k) ? x[k] - mean : vec4(0.0);
    float rstd = 1.0 / own_sqrt(sum_of_products(x, x) / n + push.eps);
    EACH_HELD(k) x[k] *= rstd;
    scale(inside, x);
    if (push.bias != 0) EACH_HELD(k) if (HAS(k)) x[k] += quad(push.bias, PLACE(k));
    put(inside, base, x);
    if (!inside || LANE != 0u) return;
    if (push.mean != 0) store_f32(push.mean + uint64_t(row) * 4, mean);
    if (push.rstd != 0) store_f32(push.rstd + uint64_t(row) * 4, rstd);
}
void norm_gradient(bool inside, uint row, uint64_t base) {
    vec4 g[HELD], x[HELD];
    hold(inside, push.x, base, 0.0, g);
    hold(inside, push.y, base, 0.0, x);
    scale(inside, g);
    float n = float(push.terms), rstd = inside ? load_f32(push.rstd + uint64_t(row) * 4) : 0.0;
    float mean = inside && OP == 6 ? load_f32(push.mean + uint64_t(row) * 4) : 0.0;
    EACH_HELD(k) x[k] = HAS(k) ? (x[k] - mean) * rstd : vec4(0.0);
    float a = OP == 6 ? sum(g) : 0.0, b = sum_of_products(g, x);
    EACH_HELD(k) g[k] = rstd * (g[k] - (a + x[k] * b) / n);
    put(inside, base, g);
}
void reduction(bool inside, uint row, uint64_t base) {
    vec4 x[HELD];
    hold(inside, push.x, base, OP == 8 ? 0.0 : -INF, x);
    float result = OP == 8 ? sum(x) : largest(x);
    if (inside && LANE == 0u) store_f32(push.to + uint64_t(row) * 4, result);
}

void main() {
    EACH_ROW(row, push.rows) {
        bool inside = row < push.rows;
        uint64_t base = uint64_t(row) * (push.terms / 4u);
        if (OP <= 1) softmax(inside, base);
        else if (OP <= 3) softmax_gradient(inside, base);
        else if (OP <= 5) norm(inside, row, base);
        else if (OP <= 7) norm_gradient(inside, row, base);
        else reduction(inside, row, base);
    }
}

#version 460
// Softmax, layer and RMS normalisation, and the gradients of their input, on rows of [outer, terms, inner].
#include "lanes.glsl"

layout(push_constant, std430) uniform Push {
    uint64_t to, x, y, weight, bias, mean, rstd;  // the gradients have g as x; no weight, bias or statistics: 0
    uint rows, terms, inner;
    float eps;
} push;

float at(uint64_t p, int64_t i) { return load_f32(p + i * 4); }
float scaled(float v, uint j) { return push.weight == 0 ? v : v * at(push.weight, j); }

void softmax(bool inside, int64_t base) {
    float top = -INF;
    for (uint j = LANE; inside && j < push.terms; j += LANES) top = larger(at(push.x, base + int64_t(j) * push.inner), top);
    top = joined_max(top);
    vec2 sum = vec2(0.0);
    for (uint j = LANE; inside && j < push.terms; j += LANES)
        add_to(sum, own_exp(at(push.x, base + int64_t(j) * push.inner) - top));
    float total = joined_sum(total_of(sum));
    float lost = OP == 1 ? own_log(total) : 0.0;
    for (uint j = LANE; inside && j < push.terms; j += LANES) {
        int64_t i = base + int64_t(j) * push.inner;
        float shifted = at(push.x, i) - top;
        store_f32(push.to + i * 4, OP == 0 ? own_exp(shifted) / total : shifted - lost);
    }
}
void softmax_gradient(bool inside, int64_t base) {
    vec2 sum = vec2(0.0);
    for (uint j = LANE; inside && j < push.terms; j += LANES) {
        int64_t i = base + int64_t(j) * push.inner;
        add_to(sum, OP == 2 ? at(push.x, i) * at(push.y, i) : at(push.x, i));
    }
    float total = joined_sum(total_of(sum));
    for (uint j = LANE; inside && j < push.terms; j += LANES) {
        int64_t i = base + int64_t(j) * push.inner;
        float g = at(push.x, i), y = at(push.y, i);
        store_f32(push.to + i * 4, OP == 2 ? y * (g - total) : g - own_exp(y) * total);
    }
}
void norm(bool inside, uint row, int64_t base) {
    float n = float(push.terms), mean = 0.0;
    if (OP == 4) {
        vec2 sum = vec2(0.0);
        for (uint j = LANE; inside && j < push.terms; j += LANES) add_to(sum, at(push.x, base + j));
        mean = joined_sum(total_of(sum)) / n;
    }
    vec2 squares = vec2(0.0);
    for (uint j = LANE; inside && j < push.terms; j += LANES) {
        float centred = at(push.x, base + j) - mean;
        add_to(squares, centred * centred);
    }
    float rstd = 1.0 / own_sqrt(joined_sum(total_of(squares)) / n + push.eps);
    for (uint j = LANE; inside && j < push.terms; j += LANES) {
        float y = scaled((at(push.x, base + j) - mean) * rstd, j);
        store_f32(push.to + (base + j) * 4, push.bias == 0 ? y : y + at(push.bias, j));
    }
    if (!inside || LANE != 0u) return;
    if (push.mean != 0) store_f32(push.mean + uint64_t(row) * 4, mean);
    if (push.rstd != 0) store_f32(push.rstd + uint64_t(row) * 4, rstd);
}
void norm_gradient(bool inside, uint row, int64_t base) {
    float n = float(push.terms);
    float mean = inside && OP == 6 ? at(push.mean, row) : 0.0, rstd = inside ? at(push.rstd, row) : 0.0;
    vec2 plain = vec2(0.0), along = vec2(0.0);
    for (uint j = LANE; inside && j < push.terms; j += LANES) {
        float g = scaled(at(push.x, base + j), j);
        if (OP == 6) add_to(plain, g);
        add_to(along, g * (at(push.y, base + j) - mean) * rstd);
    }
    float a = OP == 6 ? joined_sum(total_of(plain)) : 0.0, b = joined_sum(total_of(along));
    for (uint j = LANE; inside && j < push.terms; j += LANES) {
        float g = scaled(at(push.x, base + j), j), normal = (at(push.y, base + j) - mean) * rstd;
        store_f32(push.to + (base + j) * 4, rstd * (g - (a + normal * b) / n));
    }
}

void main() {
    EACH_ROW(row, push.rows) {
        bool inside = row < push.rows;
        uint o = row / push.inner;
        int64_t base = int64_t(o) * push.terms * push.inner + (row - o * push.inner);
        if (OP <= 1) softmax(inside, base);
        else if (OP <= 3) softmax_gradient(inside, base);
        else if (OP <= 5) norm(inside, row, base);
        else norm_gradient(inside, row, base);
    }
}

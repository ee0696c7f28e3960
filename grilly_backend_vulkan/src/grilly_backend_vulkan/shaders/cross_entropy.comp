#version 460
// Cross-entropy of rows of logits. OP 0: loss, weight and log-sum-exp of each row; 1: the rows' losses (or, without
// losses, their weights) joined by one work group; 2: gradient of the logits.
#include "lanes.glsl"
layout(constant_id = 2) const uint INDEX = 4;
layout(constant_id = 3) const bool SIGNED = true;
#define OWN_CONSTANTS
#include "index.glsl"

layout(push_constant, std430) uniform Push {
    uint64_t to, logits, target, weight, lse, losses, weights, g;
    int64_t ignored;
    uint rows, classes;
    float smoothing;
    uint reduction;  // 0 none, 1 sum, 2 mean
} push;

float at(uint64_t p, int64_t i) { return load_f32(p + i * 4); }

// The class of a row (clamped, so that nothing foreign is read) and its weight, 0 if the row is ignored.
uint class_of(uint row, out float weight) {
    int64_t c = index_at(push.target, int64_t(row));
    uint known = uint(clamp(c, int64_t(0), int64_t(push.classes) - 1));
    weight = c == push.ignored ? 0.0 : push.weight == 0 ? 1.0 : at(push.weight, int64_t(known));
    return known;
}
bool kept(uint row) { return index_at(push.target, int64_t(row)) != push.ignored; }

void row_loss(bool inside, uint row) {
    int64_t base = int64_t(row) * push.classes;
    float top = -INF;
    for (uint j = LANE; inside && j < push.classes; j += LANES) top = larger(at(push.logits, base + j), top);
    top = joined_max(top);
    vec2 sum = vec2(0.0);
    for (uint j = LANE; inside && j < push.classes; j += LANES) add_to(sum, own_exp(at(push.logits, base + j) - top));
    float lse = top + own_log(joined_sum(total_of(sum)));
    float smooth_ = 0.0;
    if (push.smoothing != 0.0) {
        vec2 spread = vec2(0.0);
        for (uint j = LANE; inside && j < push.classes; j += LANES) {
            float d = lse - at(push.logits, base + j);
            add_to(spread, push.weight == 0 ? d : d * at(push.weight, j));
        }
        smooth_ = joined_sum(total_of(spread));
    }
    if (!inside || LANE != 0u) return;
    float weight;
    uint c = class_of(row, weight);
    float loss = weight * (lse - at(push.logits, base + c));
    if (push.smoothing != 0.0) loss = (1.0 - push.smoothing) * loss + push.smoothing / float(push.classes) * smooth_;
    store_f32(push.losses + uint64_t(row) * 4, kept(row) ? loss : 0.0);
    if (push.weights != 0) store_f32(push.weights + uint64_t(row) * 4, weight);
    if (push.lse != 0) store_f32(push.lse + uint64_t(row) * 4, lse);
}
void join_rows() {
    vec2 losses = vec2(0.0), weights = vec2(0.0);
    for (uint r = LANE; r < push.rows; r += LANES) {
        float weight;
        class_of(r, weight);
        add_to(weights, weight);
        if (push.losses != 0) add_to(losses, at(push.losses, r));
    }
    float loss = joined_sum(total_of(losses)), weight = joined_sum(total_of(weights));
    if (LANE == 0u) store_f32(push.to, push.losses == 0 ? weight : push.reduction == 2 ? loss / weight : loss);
}
void row_gradient(bool inside, uint row) {
    int64_t base = int64_t(row) * push.classes;
    float weight = 0.0, all = 0.0;
    if (push.smoothing != 0.0 && push.weight != 0) {
        vec2 sum = vec2(0.0);
        for (uint j = LANE; j < push.classes; j += LANES) add_to(sum, at(push.weight, j));
        all = joined_sum(total_of(sum));
    }
    if (!inside) return;
    uint c = class_of(row, weight);
    bool used = kept(row);
    float lse = at(push.lse, row), share = at(push.g, push.reduction == 0 ? int64_t(row) : 0);
    if (push.reduction == 2) share /= at(push.weights, 0);
    for (uint j = LANE; j < push.classes; j += LANES) {
        float p = own_exp(at(push.logits, base + j) - lse), slope = weight * (p - (j == c ? 1.0 : 0.0));
        if (push.smoothing != 0.0) {
            float smooth_ = push.weight == 0 ? float(push.classes) * p - 1.0 : all * p - at(push.weight, j);
            slope = (1.0 - push.smoothing) * slope + push.smoothing / float(push.classes) * smooth_;
        }
        store_f32(push.to + (base + j) * 4, used ? share * slope : 0.0);
    }
}

void main() {
    if (OP == 1) {
        join_rows();
        return;
    }
    EACH_ROW(row, push.rows) {
        if (OP == 0) row_loss(row < push.rows, row);
        else row_gradient(row < push.rows, row);
    }
}

#version 460
// Activations and their gradients: OP chooses. The gradients take g and then what the forward pass kept.
#include "map.glsl"
#include "activations.glsl"
layout(constant_id = 1) const uint OP = 0;

float forward(float x) {
    float a = uintBitsToFloat(push.k.x), b = uintBitsToFloat(push.k.y);
    if (OP == 0) return relu(x);
    if (OP == 2) return sigmoid(x);
    if (OP == 5) return gelu(x);
    if (OP == 7) return gelu_tanh(x);
    if (OP == 9) return silu(x);
    if (OP == 11) {
        float scaled = x * a;
        return scaled > b ? x : (own_log1p(own_exp(-abs(scaled))) + (scaled > 0.0 ? scaled : 0.0)) / a;
    }
    if (OP == 13) return x > 0.0 ? x : x * a;
    return x > 0.0 ? x : a * own_expm1(x);
}
float backward(float g, float y) {
    float a = uintBitsToFloat(push.k.x), b = uintBitsToFloat(push.k.y);
    if (OP == 1) return y > 0.0 ? g : 0.0;
    if (OP == 3) return g * y * (1.0 - y);
    if (OP == 4) return g * (1.0 - y * y);
    if (OP == 6) {
        float density = own_exp(-0.5 * y * y) * 0.398942280;
        return g * (0.5 * (1.0 + smooth_erf(y * 0.707106781)) + y * density);
    }
    if (OP == 8) {
        float t = own_tanh(bent(y)), slope = 0.797884561 * (1.0 + 0.134145 * y * y);
        return g * (0.5 * (1.0 + t) + 0.5 * y * (1.0 - t * t) * slope);
    }
    if (OP == 10) {
        float s = sigmoid(y);
        return g * s * (1.0 + y * (1.0 - s));
    }
    float scaled = y * a;
    return scaled > b ? g : g * sigmoid(scaled);
}

void main() {
    const bool gradient = OP == 1 || OP == 3 || OP == 4 || OP == 6 || OP == 8 || OP == 10 || OP == 12;
    if (RANK == FOURS) {
        EACH_FOUR(i) {
            C x[4], y[4];
            load_four(1, i, x);
            if (gradient) load_four(2, i, y);
            [[unroll]] for (uint k = 0; k < 4; ++k) x[k] = gradient ? backward(x[k], y[k]) : forward(x[k]);
            store_four(i, x);
        }
        return;
    }
    EACH(i) {
        ivec4 at = locate(i);
        float x = LOAD(push.p[1], at.y);
        STORE(push.p[0], at.x, gradient ? backward(x, LOAD(push.p[2], at.z)) : forward(x));
    }
}

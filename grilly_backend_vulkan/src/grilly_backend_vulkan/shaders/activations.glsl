// Activations that more than one shader applies; precise, so that all of them get the same bits.
#include "maths.glsl"

float sigmoid(float x) {
    float e = own_exp(-abs(x));
    precise float r = (x >= 0.0 || is_nan(x) ? 1.0 : e) / (e + 1.0);
    return r;
}
float bent(float x) {
    precise float r = 0.797884561 * (x + 0.044715 * x * x * x);
    return r;
}
float relu(float x) { return x > 0.0 || is_nan(x) ? x : 0.0; }
float gelu(float x) {
    precise float r = 0.5 * x * (1.0 + own_erf(x * 0.707106781));
    return r;
}
float gelu_tanh(float x) {
    precise float r = 0.5 * x * (1.0 + own_tanh(bent(x)));
    return r;
}
float silu(float x) {
    precise float r = x * sigmoid(x);
    return r;
}

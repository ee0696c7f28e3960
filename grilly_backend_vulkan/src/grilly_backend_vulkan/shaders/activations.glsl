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
// erf for activations: one rational for all x, x P(x^2) / Q(x^2), whose greatest relative error was made least over
// |x| <= 3.92, where erf rounds to 1. It is good to 3e-7, where own_erf is to 2e-7, but neighbours of different size
// take one path: GELU reaches 0.92 of an H200's memory instead of 0.60.
float smooth_erf(float x) {
    float held = clamp(x, -3.92, 3.92), z = held * held;
    float p = 2.05008701e-6;
    p = fma(p, z, 2.84883543e-4);
    p = fma(p, z, 3.76564078e-3);
    p = fma(p, z, 5.27487956e-2);
    p = fma(p, z, 1.90406978e-1);
    p = fma(p, z, 1.12837911);
    float q = 3.80917554e-5;
    q = fma(q, z, 1.1625418e-3);
    q = fma(q, z, 1.49692642e-2);
    q = fma(q, z, 1.1410933e-1);
    q = fma(q, z, 5.02076507e-1);
    q = fma(q, z, 1.0);
    return is_nan(x) ? x : clamp(held * p / q, -1.0, 1.0);
}
float gelu(float x) {
    precise float r = 0.5 * x * (1.0 + smooth_erf(x * 0.707106781));
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

#version 460
// Made from the description of the neuron by python -m grilly_ext_snn.kernels.emit; not to be edited.
#include "maths.glsl"
#define STATES 2
#define TENSORS 0
#define CONSTANTS 11
layout(constant_id = 0) const bool is_soft = false;
layout(constant_id = 1) const bool is_free = false;
layout(constant_id = 2) const bool is_detach = false;
layout(constant_id = 15) const bool SIGMOID = false;
layout(constant_id = 16) const bool KEPT = false;
float constants[CONSTANTS], slope[4];
#include "surrogate.glsl"

#ifdef BACKWARD
float pull(float v_g_spike, float v_x, float state[STATES], float given[TENSORS + 1], inout float g_state[STATES], inout float g_given[TENSORS + 1]) {
    float v_speed = constants[0];
    float v_leak = constants[1];
    float v_rest = constants[2];
    float v_knee = constants[3];
    float v_slope = constants[4];
    float v_peak = constants[5];
    float v_recovery = constants[6];
    float v_a = constants[7];
    float v_b = constants[8];
    float v_threshold = constants[9];
    float v_reset = constants[10];
    float v_v = state[0];
    float v_w = state[1];
    float v_g_v = g_state[0];
    float v_g_w = g_state[1];
    precise float e0 = v_v - v_knee;
    precise float e1 = divide(e0, v_slope);
    precise float e2 = min(e1, v_peak);
    precise float e3 = own_exp(e2);
    precise float e4 = v_slope * e3;
    precise float e5 = v_v - v_rest;
    precise float e6 = e4 - e5;
    precise float e7 = v_leak * e6;
    precise float e8 = e7 - v_w;
    precise float e9 = e8 + v_x;
    precise float e10 = v_speed * e9;
    precise float e11 = v_v + e10;
    precise float e12 = e11 - v_threshold;
    precise float e13 = e12 >= 0.0 ? 1.0 : 0.0;
    precise float e14 = e13 > 0.0 ? 0.0 : v_g_v;
    precise float e15 = v_g_w * v_b;
    precise float e16 = v_reset - e11;
    precise float e17 = v_g_v * e16;
    precise float e18 = e15 + e17;
    precise float e19 = is_detach ? 0.0 : e18;
    precise float e20 = v_g_spike + e19;
    precise float e21 = surrogate(e12);
    precise float e22 = e20 * e21;
    precise float e23 = e14 + e22;
    precise float e24 = e23 * v_speed;
    precise float e25 = v_g_w * v_recovery;
    precise float e26 = e25 * v_a;
    precise float e27 = e24 * v_leak;
    precise float e28 = -e27;
    precise float e29 = e26 + e28;
    precise float e30 = e23 + e29;
    precise float e31 = v_peak > e1 ? 1.0 : 0.0;
    precise float e32 = e27 * v_slope;
    precise float e33 = e32 * e3;
    precise float e34 = e31 > 0.0 ? e33 : 0.0;
    precise float e35 = divide(e34, v_slope);
    precise float e36 = e30 + e35;
    precise float e37 = -e25;
    precise float e38 = v_g_w + e37;
    precise float e39 = -e24;
    precise float e40 = e38 + e39;
    g_state[0] = e36;
    g_state[1] = e40;
    return e24;
}
#else
float push_on(float v_x, inout float state[STATES], float given[TENSORS + 1]) {
    float v_speed = constants[0];
    float v_leak = constants[1];
    float v_rest = constants[2];
    float v_knee = constants[3];
    float v_slope = constants[4];
    float v_peak = constants[5];
    float v_recovery = constants[6];
    float v_a = constants[7];
    float v_b = constants[8];
    float v_threshold = constants[9];
    float v_reset = constants[10];
    float v_v = state[0];
    float v_w = state[1];
    precise float e0 = v_v - v_knee;
    precise float e1 = divide(e0, v_slope);
    precise float e2 = min(e1, v_peak);
    precise float e3 = own_exp(e2);
    precise float e4 = v_slope * e3;
    precise float e5 = v_v - v_rest;
    precise float e6 = e4 - e5;
    precise float e7 = v_leak * e6;
    precise float e8 = e7 - v_w;
    precise float e9 = e8 + v_x;
    precise float e10 = v_speed * e9;
    precise float e11 = v_v + e10;
    precise float e12 = e11 - v_threshold;
    precise float e13 = e12 >= 0.0 ? 1.0 : 0.0;
    precise float e14 = e13 > 0.0 ? v_reset : e11;
    precise float e15 = v_a * e5;
    precise float e16 = e15 - v_w;
    precise float e17 = v_recovery * e16;
    precise float e18 = v_w + e17;
    precise float e19 = v_b * e13;
    precise float e20 = e18 + e19;
    state[0] = e14;
    state[1] = e20;
    return e13;
}
#endif
#include "scan.glsl"

#version 460
// Made from the description of the neuron by python -m grilly_ext_snn.kernels.emit; not to be edited.
#include "maths.glsl"
#define STATES 2
#define TENSORS 0
#define CONSTANTS 7
layout(constant_id = 0) const bool is_soft = false;
layout(constant_id = 1) const bool is_free = false;
layout(constant_id = 2) const bool is_detach = false;
layout(constant_id = 15) const bool SIGMOID = false;
layout(constant_id = 16) const bool KEPT = false;
float constants[CONSTANTS], slope[4];
#include "surrogate.glsl"

#ifdef BACKWARD
float pull(float v_g_spike, float v_x, float state[STATES], float given[TENSORS + 1], inout float g_state[STATES], inout float g_given[TENSORS + 1]) {
    float v_rate = constants[0];
    float v_rest = constants[1];
    float v_r = constants[2];
    float v_dt = constants[3];
    float v_period = constants[4];
    float v_threshold = constants[5];
    float v_reset = constants[6];
    float v_v = state[0];
    float v_wait = state[1];
    float v_g_v = g_state[0];
    float v_g_wait = g_state[1];
    precise float e0 = v_dt * 0.015625;
    precise float e1 = v_wait > e0 ? 1.0 : 0.0;
    precise float e2 = is_free ? v_g_v : 0.0;
    precise float e3 = v_r * v_x;
    precise float e4 = v_v - v_rest;
    precise float e5 = e3 - e4;
    precise float e6 = e5 * v_rate;
    precise float e7 = v_v + e6;
    precise float e8 = e1 > 0.0 ? v_reset : e7;
    precise float e9 = e8 - v_threshold;
    precise float e10 = e9 >= 0.0 ? 1.0 : 0.0;
    precise float e11 = e1 > 0.0 ? 0.0 : e10;
    precise float e12 = is_free ? 0.0 : v_g_v;
    precise float e13 = e11 > 0.0 ? 0.0 : e12;
    precise float e14 = e2 + e13;
    precise float e15 = e11 > 0.0 ? e12 : 0.0;
    precise float e16 = is_soft ? e15 : 0.0;
    precise float e17 = is_soft ? e9 : v_reset;
    precise float e18 = e17 - e8;
    precise float e19 = e12 * e18;
    precise float e20 = is_detach ? 0.0 : e19;
    precise float e21 = v_g_spike + e20;
    precise float e22 = e1 > 0.0 ? 0.0 : e21;
    precise float e23 = surrogate(e9);
    precise float e24 = e22 * e23;
    precise float e25 = e16 + e24;
    precise float e26 = e14 + e25;
    precise float e27 = e1 > 0.0 ? 0.0 : e26;
    precise float e28 = e27 * v_rate;
    precise float e29 = e28 * v_r;
    precise float e30 = -e28;
    precise float e31 = e27 + e30;
    precise float e32 = v_wait - v_dt;
    precise float e33 = e32 > 0.0 ? 1.0 : 0.0;
    precise float e34 = e11 > 0.0 ? 0.0 : v_g_wait;
    precise float e35 = e33 > 0.0 ? e34 : 0.0;
    g_state[0] = e31;
    g_state[1] = e35;
    return e29;
}
#else
float push_on(float v_x, inout float state[STATES], float given[TENSORS + 1]) {
    float v_rate = constants[0];
    float v_rest = constants[1];
    float v_r = constants[2];
    float v_dt = constants[3];
    float v_period = constants[4];
    float v_threshold = constants[5];
    float v_reset = constants[6];
    float v_v = state[0];
    float v_wait = state[1];
    precise float e0 = v_dt * 0.015625;
    precise float e1 = v_wait > e0 ? 1.0 : 0.0;
    precise float e2 = v_r * v_x;
    precise float e3 = v_v - v_rest;
    precise float e4 = e2 - e3;
    precise float e5 = e4 * v_rate;
    precise float e6 = v_v + e5;
    precise float e7 = e1 > 0.0 ? v_reset : e6;
    precise float e8 = e7 - v_threshold;
    precise float e9 = e8 >= 0.0 ? 1.0 : 0.0;
    precise float e10 = e1 > 0.0 ? 0.0 : e9;
    precise float e11 = is_soft ? e8 : v_reset;
    precise float e12 = e10 > 0.0 ? e11 : e7;
    precise float e13 = is_free ? e7 : e12;
    precise float e14 = v_wait - v_dt;
    precise float e15 = max(e14, 0.0);
    precise float e16 = e10 > 0.0 ? v_period : e15;
    state[0] = e13;
    state[1] = e16;
    return e10;
}
#endif
#include "scan.glsl"

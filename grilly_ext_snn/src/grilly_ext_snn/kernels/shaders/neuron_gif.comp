#version 460
// Made from the description of the neuron by python -m grilly_ext_snn.kernels.emit; not to be edited.
#include "maths.glsl"
#define STATES 3
#define TENSORS 0
#define CONSTANTS 10
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
    float v_keep = constants[5];
    float v_jump = constants[6];
    float v_coupling = constants[7];
    float v_threshold = constants[8];
    float v_reset = constants[9];
    float v_v = state[0];
    float v_a = state[1];
    float v_wait = state[2];
    float v_g_v = g_state[0];
    float v_g_a = g_state[1];
    float v_g_wait = g_state[2];
    precise float e0 = v_dt * 0.015625;
    precise float e1 = v_wait > e0 ? 1.0 : 0.0;
    precise float e2 = is_free ? v_g_v : 0.0;
    precise float e3 = v_r * v_x;
    precise float e4 = v_v - v_rest;
    precise float e5 = e3 - e4;
    precise float e6 = e5 * v_rate;
    precise float e7 = v_v + e6;
    precise float e8 = v_coupling * v_a;
    precise float e9 = e7 - e8;
    precise float e10 = e1 > 0.0 ? v_reset : e9;
    precise float e11 = e10 - v_threshold;
    precise float e12 = e11 >= 0.0 ? 1.0 : 0.0;
    precise float e13 = e1 > 0.0 ? 0.0 : e12;
    precise float e14 = is_free ? 0.0 : v_g_v;
    precise float e15 = e13 > 0.0 ? 0.0 : e14;
    precise float e16 = e2 + e15;
    precise float e17 = e13 > 0.0 ? e14 : 0.0;
    precise float e18 = is_soft ? e17 : 0.0;
    precise float e19 = v_g_a * v_jump;
    precise float e20 = is_soft ? e11 : v_reset;
    precise float e21 = e20 - e10;
    precise float e22 = e14 * e21;
    precise float e23 = e19 + e22;
    precise float e24 = is_detach ? 0.0 : e23;
    precise float e25 = v_g_spike + e24;
    precise float e26 = e1 > 0.0 ? 0.0 : e25;
    precise float e27 = surrogate(e11);
    precise float e28 = e26 * e27;
    precise float e29 = e18 + e28;
    precise float e30 = e16 + e29;
    precise float e31 = e1 > 0.0 ? 0.0 : e30;
    precise float e32 = e31 * v_rate;
    precise float e33 = e32 * v_r;
    precise float e34 = -e32;
    precise float e35 = e31 + e34;
    precise float e36 = v_g_a * v_keep;
    precise float e37 = -e31;
    precise float e38 = e37 * v_coupling;
    precise float e39 = e36 + e38;
    precise float e40 = v_wait - v_dt;
    precise float e41 = e40 > 0.0 ? 1.0 : 0.0;
    precise float e42 = e13 > 0.0 ? 0.0 : v_g_wait;
    precise float e43 = e41 > 0.0 ? e42 : 0.0;
    g_state[0] = e35;
    g_state[1] = e39;
    g_state[2] = e43;
    return e33;
}
#else
float push_on(float v_x, inout float state[STATES], float given[TENSORS + 1]) {
    float v_rate = constants[0];
    float v_rest = constants[1];
    float v_r = constants[2];
    float v_dt = constants[3];
    float v_period = constants[4];
    float v_keep = constants[5];
    float v_jump = constants[6];
    float v_coupling = constants[7];
    float v_threshold = constants[8];
    float v_reset = constants[9];
    float v_v = state[0];
    float v_a = state[1];
    float v_wait = state[2];
    precise float e0 = v_dt * 0.015625;
    precise float e1 = v_wait > e0 ? 1.0 : 0.0;
    precise float e2 = v_r * v_x;
    precise float e3 = v_v - v_rest;
    precise float e4 = e2 - e3;
    precise float e5 = e4 * v_rate;
    precise float e6 = v_v + e5;
    precise float e7 = v_coupling * v_a;
    precise float e8 = e6 - e7;
    precise float e9 = e1 > 0.0 ? v_reset : e8;
    precise float e10 = e9 - v_threshold;
    precise float e11 = e10 >= 0.0 ? 1.0 : 0.0;
    precise float e12 = e1 > 0.0 ? 0.0 : e11;
    precise float e13 = is_soft ? e10 : v_reset;
    precise float e14 = e12 > 0.0 ? e13 : e9;
    precise float e15 = is_free ? e9 : e14;
    precise float e16 = v_keep * v_a;
    precise float e17 = v_jump * e12;
    precise float e18 = e16 + e17;
    precise float e19 = v_wait - v_dt;
    precise float e20 = max(e19, 0.0);
    precise float e21 = e12 > 0.0 ? v_period : e20;
    state[0] = e15;
    state[1] = e18;
    state[2] = e21;
    return e12;
}
#endif
#include "scan.glsl"

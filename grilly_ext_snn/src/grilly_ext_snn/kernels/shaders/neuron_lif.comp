#version 460
// Made from the description of the neuron by python -m grilly_ext_snn.kernels.emit; not to be edited.
#include "maths.glsl"
#define STATES 1
#define TENSORS 0
#define CONSTANTS 4
layout(constant_id = 0) const bool is_decay_input = false;
layout(constant_id = 1) const bool is_soft = false;
layout(constant_id = 2) const bool is_free = false;
layout(constant_id = 3) const bool is_detach = false;
layout(constant_id = 15) const bool SIGMOID = false;
layout(constant_id = 16) const bool KEPT = false;
float constants[CONSTANTS], slope[4];
#include "surrogate.glsl"

#ifdef BACKWARD
float pull(float v_g_spike, float v_x, float state[STATES], float given[TENSORS + 1], inout float g_state[STATES], inout float g_given[TENSORS + 1]) {
    float v_rate = constants[0];
    float v_rest = constants[1];
    float v_threshold = constants[2];
    float v_reset = constants[3];
    float v_v = state[0];
    float v_g_v = g_state[0];
    precise float e0 = is_free ? v_g_v : 0.0;
    precise float e1 = v_v - v_rest;
    precise float e2 = v_x - e1;
    precise float e3 = e2 * v_rate;
    precise float e4 = v_v + e3;
    precise float e5 = e1 * v_rate;
    precise float e6 = v_v - e5;
    precise float e7 = e6 + v_x;
    precise float e8 = is_decay_input ? e4 : e7;
    precise float e9 = e8 - v_threshold;
    precise float e10 = e9 >= 0.0 ? 1.0 : 0.0;
    precise float e11 = is_free ? 0.0 : v_g_v;
    precise float e12 = e10 > 0.0 ? 0.0 : e11;
    precise float e13 = e0 + e12;
    precise float e14 = e10 > 0.0 ? e11 : 0.0;
    precise float e15 = is_soft ? e14 : 0.0;
    precise float e16 = is_soft ? e9 : v_reset;
    precise float e17 = e16 - e8;
    precise float e18 = e11 * e17;
    precise float e19 = is_detach ? 0.0 : e18;
    precise float e20 = v_g_spike + e19;
    precise float e21 = surrogate(e9);
    precise float e22 = e20 * e21;
    precise float e23 = e15 + e22;
    precise float e24 = e13 + e23;
    precise float e25 = is_decay_input ? 0.0 : e24;
    precise float e26 = is_decay_input ? e24 : 0.0;
    precise float e27 = e26 * v_rate;
    precise float e28 = e25 + e27;
    precise float e29 = e25 + e26;
    precise float e30 = -e25;
    precise float e31 = e30 * v_rate;
    precise float e32 = -e27;
    precise float e33 = e31 + e32;
    precise float e34 = e29 + e33;
    g_state[0] = e34;
    return e28;
}
#else
float push_on(float v_x, inout float state[STATES], float given[TENSORS + 1]) {
    float v_rate = constants[0];
    float v_rest = constants[1];
    float v_threshold = constants[2];
    float v_reset = constants[3];
    float v_v = state[0];
    precise float e0 = v_v - v_rest;
    precise float e1 = v_x - e0;
    precise float e2 = e1 * v_rate;
    precise float e3 = v_v + e2;
    precise float e4 = e0 * v_rate;
    precise float e5 = v_v - e4;
    precise float e6 = e5 + v_x;
    precise float e7 = is_decay_input ? e3 : e6;
    precise float e8 = e7 - v_threshold;
    precise float e9 = e8 >= 0.0 ? 1.0 : 0.0;
    precise float e10 = is_soft ? e8 : v_reset;
    precise float e11 = e9 > 0.0 ? e10 : e7;
    precise float e12 = is_free ? e7 : e11;
    state[0] = e12;
    return e9;
}
#endif
#include "scan.glsl"

#version 460
// Made from the description of the neuron by python -m grilly_ext_snn.kernels.emit; not to be edited.
#include "maths.glsl"
#define STATES 2
#define TENSORS 0
#define CONSTANTS 6
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
    float v_keep = constants[2];
    float v_strength = constants[3];
    float v_threshold = constants[4];
    float v_reset = constants[5];
    float v_v = state[0];
    float v_a = state[1];
    float v_g_v = g_state[0];
    float v_g_a = g_state[1];
    precise float e0 = is_free ? v_g_v : 0.0;
    precise float e1 = v_v - v_rest;
    precise float e2 = v_x - e1;
    precise float e3 = e2 * v_rate;
    precise float e4 = v_v + e3;
    precise float e5 = e1 * v_rate;
    precise float e6 = v_v - e5;
    precise float e7 = e6 + v_x;
    precise float e8 = is_decay_input ? e4 : e7;
    precise float e9 = v_strength * v_a;
    precise float e10 = v_threshold + e9;
    precise float e11 = e8 - e10;
    precise float e12 = e11 >= 0.0 ? 1.0 : 0.0;
    precise float e13 = is_free ? 0.0 : v_g_v;
    precise float e14 = e12 > 0.0 ? 0.0 : e13;
    precise float e15 = e0 + e14;
    precise float e16 = e12 > 0.0 ? e13 : 0.0;
    precise float e17 = is_soft ? e16 : 0.0;
    precise float e18 = e15 + e17;
    precise float e19 = e8 - v_threshold;
    precise float e20 = is_soft ? e19 : v_reset;
    precise float e21 = e20 - e8;
    precise float e22 = e13 * e21;
    precise float e23 = v_g_a + e22;
    precise float e24 = is_detach ? 0.0 : e23;
    precise float e25 = v_g_spike + e24;
    precise float e26 = surrogate(e11);
    precise float e27 = e25 * e26;
    precise float e28 = e18 + e27;
    precise float e29 = is_decay_input ? 0.0 : e28;
    precise float e30 = is_decay_input ? e28 : 0.0;
    precise float e31 = e30 * v_rate;
    precise float e32 = e29 + e31;
    precise float e33 = e29 + e30;
    precise float e34 = -e29;
    precise float e35 = e34 * v_rate;
    precise float e36 = -e31;
    precise float e37 = e35 + e36;
    precise float e38 = e33 + e37;
    precise float e39 = v_g_a * v_keep;
    precise float e40 = -e27;
    precise float e41 = e40 * v_strength;
    precise float e42 = e39 + e41;
    g_state[0] = e38;
    g_state[1] = e42;
    return e32;
}
#else
float push_on(float v_x, inout float state[STATES], float given[TENSORS + 1]) {
    float v_rate = constants[0];
    float v_rest = constants[1];
    float v_keep = constants[2];
    float v_strength = constants[3];
    float v_threshold = constants[4];
    float v_reset = constants[5];
    float v_v = state[0];
    float v_a = state[1];
    precise float e0 = v_v - v_rest;
    precise float e1 = v_x - e0;
    precise float e2 = e1 * v_rate;
    precise float e3 = v_v + e2;
    precise float e4 = e0 * v_rate;
    precise float e5 = v_v - e4;
    precise float e6 = e5 + v_x;
    precise float e7 = is_decay_input ? e3 : e6;
    precise float e8 = v_strength * v_a;
    precise float e9 = v_threshold + e8;
    precise float e10 = e7 - e9;
    precise float e11 = e10 >= 0.0 ? 1.0 : 0.0;
    precise float e12 = e7 - v_threshold;
    precise float e13 = is_soft ? e12 : v_reset;
    precise float e14 = e11 > 0.0 ? e13 : e7;
    precise float e15 = is_free ? e7 : e14;
    precise float e16 = v_keep * v_a;
    precise float e17 = e16 + e11;
    state[0] = e15;
    state[1] = e17;
    return e11;
}
#endif
#include "scan.glsl"

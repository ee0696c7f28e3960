#version 460
// Made from the description of the neuron by python -m grilly_ext_snn.kernels.emit; not to be edited.
#include "maths.glsl"
#define STATES 3
#define TENSORS 0
#define CONSTANTS 6
layout(constant_id = 0) const bool is_soft = false;
layout(constant_id = 1) const bool is_free = false;
layout(constant_id = 2) const bool is_detach = false;
layout(constant_id = 15) const bool SIGMOID = false;
layout(constant_id = 16) const bool KEPT = false;
float constants[CONSTANTS], slope[4];
#include "surrogate.glsl"

#ifdef BACKWARD
float pull(float v_g_spike, float v_x, float state[STATES], float given[TENSORS + 1], inout float g_state[STATES], inout float g_given[TENSORS + 1]) {
    float v_decay = constants[0];
    float v_fall = constants[1];
    float v_scale = constants[2];
    float v_share = constants[3];
    float v_threshold = constants[4];
    float v_reset = constants[5];
    float v_v = state[0];
    float v_e = state[1];
    float v_i = state[2];
    float v_g_v = g_state[0];
    float v_g_e = g_state[1];
    float v_g_i = g_state[2];
    precise float e0 = v_decay * v_e;
    precise float e1 = e0 + v_x;
    precise float e2 = v_v - v_threshold;
    precise float e3 = e2 > 0.0 ? 1.0 : 0.0;
    precise float e4 = e1 - v_share;
    precise float e5 = is_soft ? e4 : v_reset;
    precise float e6 = e3 > 0.0 ? e5 : e1;
    precise float e7 = is_free ? e1 : e6;
    precise float e8 = v_fall * v_i;
    precise float e9 = e8 - v_x;
    precise float e10 = is_soft ? e9 : 0.0;
    precise float e11 = e3 > 0.0 ? e10 : e9;
    precise float e12 = is_free ? e9 : e11;
    precise float e13 = e7 + e12;
    precise float e14 = v_scale * e13;
    precise float e15 = e14 - v_threshold;
    precise float e16 = surrogate(e15);
    precise float e17 = v_g_spike * e16;
    precise float e18 = v_g_v + e17;
    precise float e19 = e18 * v_scale;
    precise float e20 = v_g_i + e19;
    precise float e21 = is_free ? e20 : 0.0;
    precise float e22 = is_free ? 0.0 : e20;
    precise float e23 = e3 > 0.0 ? 0.0 : e22;
    precise float e24 = e21 + e23;
    precise float e25 = e3 > 0.0 ? e22 : 0.0;
    precise float e26 = is_soft ? e25 : 0.0;
    precise float e27 = e24 + e26;
    precise float e28 = -e27;
    precise float e29 = v_g_e + e19;
    precise float e30 = is_free ? e29 : 0.0;
    precise float e31 = is_free ? 0.0 : e29;
    precise float e32 = e3 > 0.0 ? 0.0 : e31;
    precise float e33 = e30 + e32;
    precise float e34 = e3 > 0.0 ? e31 : 0.0;
    precise float e35 = is_soft ? e34 : 0.0;
    precise float e36 = e33 + e35;
    precise float e37 = e28 + e36;
    precise float e38 = e36 * v_decay;
    precise float e39 = e27 * v_fall;
    g_state[0] = 0.0;
    g_state[1] = e38;
    g_state[2] = e39;
    return e37;
}
#else
float push_on(float v_x, inout float state[STATES], float given[TENSORS + 1]) {
    float v_decay = constants[0];
    float v_fall = constants[1];
    float v_scale = constants[2];
    float v_share = constants[3];
    float v_threshold = constants[4];
    float v_reset = constants[5];
    float v_v = state[0];
    float v_e = state[1];
    float v_i = state[2];
    precise float e0 = v_decay * v_e;
    precise float e1 = e0 + v_x;
    precise float e2 = v_v - v_threshold;
    precise float e3 = e2 > 0.0 ? 1.0 : 0.0;
    precise float e4 = e1 - v_share;
    precise float e5 = is_soft ? e4 : v_reset;
    precise float e6 = e3 > 0.0 ? e5 : e1;
    precise float e7 = is_free ? e1 : e6;
    precise float e8 = v_fall * v_i;
    precise float e9 = e8 - v_x;
    precise float e10 = is_soft ? e9 : 0.0;
    precise float e11 = e3 > 0.0 ? e10 : e9;
    precise float e12 = is_free ? e9 : e11;
    precise float e13 = e7 + e12;
    precise float e14 = v_scale * e13;
    precise float e15 = e14 - v_threshold;
    precise float e16 = e15 > 0.0 ? 1.0 : 0.0;
    state[0] = e14;
    state[1] = e7;
    state[2] = e12;
    return e16;
}
#endif
#include "scan.glsl"

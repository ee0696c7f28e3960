#version 460
// Made from the description of the neuron by python -m grilly_ext_snn.kernels.emit; not to be edited.
#include "maths.glsl"
#define STATES 2
#define TENSORS 0
#define CONSTANTS 4
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
    float v_beta = constants[1];
    float v_threshold = constants[2];
    float v_reset = constants[3];
    float v_v = state[0];
    float v_i = state[1];
    float v_g_v = g_state[0];
    float v_g_i = g_state[1];
    precise float e0 = v_beta * v_v;
    precise float e1 = v_decay * v_i;
    precise float e2 = e1 + v_x;
    precise float e3 = e0 + e2;
    precise float e4 = v_v - v_threshold;
    precise float e5 = e4 > 0.0 ? 1.0 : 0.0;
    precise float e6 = e3 - v_threshold;
    precise float e7 = is_soft ? e6 : v_reset;
    precise float e8 = e5 > 0.0 ? e7 : e3;
    precise float e9 = is_free ? e3 : e8;
    precise float e10 = e9 - v_threshold;
    precise float e11 = surrogate(e10);
    precise float e12 = v_g_spike * e11;
    precise float e13 = v_g_v + e12;
    precise float e14 = is_free ? e13 : 0.0;
    precise float e15 = is_free ? 0.0 : e13;
    precise float e16 = e5 > 0.0 ? 0.0 : e15;
    precise float e17 = e14 + e16;
    precise float e18 = e5 > 0.0 ? e15 : 0.0;
    precise float e19 = is_soft ? e18 : 0.0;
    precise float e20 = e17 + e19;
    precise float e21 = v_g_i + e20;
    precise float e22 = e20 * v_beta;
    precise float e23 = e21 * v_decay;
    g_state[0] = e22;
    g_state[1] = e23;
    return e21;
}
#else
float push_on(float v_x, inout float state[STATES], float given[TENSORS + 1]) {
    float v_decay = constants[0];
    float v_beta = constants[1];
    float v_threshold = constants[2];
    float v_reset = constants[3];
    float v_v = state[0];
    float v_i = state[1];
    precise float e0 = v_beta * v_v;
    precise float e1 = v_decay * v_i;
    precise float e2 = e1 + v_x;
    precise float e3 = e0 + e2;
    precise float e4 = v_v - v_threshold;
    precise float e5 = e4 > 0.0 ? 1.0 : 0.0;
    precise float e6 = e3 - v_threshold;
    precise float e7 = is_soft ? e6 : v_reset;
    precise float e8 = e5 > 0.0 ? e7 : e3;
    precise float e9 = is_free ? e3 : e8;
    precise float e10 = e9 - v_threshold;
    precise float e11 = e10 > 0.0 ? 1.0 : 0.0;
    state[0] = e9;
    state[1] = e2;
    return e11;
}
#endif
#include "scan.glsl"

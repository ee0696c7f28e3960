#version 460
// Made from the description of the neuron by python -m grilly_ext_snn.kernels.emit; not to be edited.
#include "maths.glsl"
#define STATES 1
#define TENSORS 0
#define CONSTANTS 3
layout(constant_id = 0) const bool is_soft = false;
layout(constant_id = 1) const bool is_free = false;
layout(constant_id = 2) const bool is_detach = false;
layout(constant_id = 15) const bool SIGMOID = false;
layout(constant_id = 16) const bool KEPT = false;
float constants[CONSTANTS], slope[4];
#include "surrogate.glsl"

#ifdef BACKWARD
float pull(float v_g_spike, float v_x, float state[STATES], float given[TENSORS + 1], inout float g_state[STATES], inout float g_given[TENSORS + 1]) {
    float v_beta = constants[0];
    float v_threshold = constants[1];
    float v_reset = constants[2];
    float v_v = state[0];
    float v_g_v = g_state[0];
    precise float e0 = v_v - v_threshold;
    precise float e1 = e0 > 0.0 ? 1.0 : 0.0;
    precise float e2 = is_soft ? v_v : v_reset;
    precise float e3 = e1 > 0.0 ? e2 : v_v;
    precise float e4 = is_free ? v_v : e3;
    precise float e5 = v_beta * e4;
    precise float e6 = e5 + v_x;
    precise float e7 = e6 - v_threshold;
    precise float e8 = e1 > 0.0 ? e7 : e6;
    precise float e9 = is_soft ? e8 : e6;
    precise float e10 = e9 - v_threshold;
    precise float e11 = surrogate(e10);
    precise float e12 = v_g_spike * e11;
    precise float e13 = v_g_v + e12;
    precise float e14 = is_soft ? 0.0 : e13;
    precise float e15 = is_soft ? e13 : 0.0;
    precise float e16 = e1 > 0.0 ? 0.0 : e15;
    precise float e17 = e14 + e16;
    precise float e18 = e1 > 0.0 ? e15 : 0.0;
    precise float e19 = e17 + e18;
    precise float e20 = e19 * v_beta;
    precise float e21 = is_free ? e20 : 0.0;
    precise float e22 = is_free ? 0.0 : e20;
    precise float e23 = e1 > 0.0 ? 0.0 : e22;
    precise float e24 = e21 + e23;
    precise float e25 = e1 > 0.0 ? e22 : 0.0;
    precise float e26 = is_soft ? e25 : 0.0;
    precise float e27 = e24 + e26;
    g_state[0] = e27;
    return e19;
}
#else
float push_on(float v_x, inout float state[STATES], float given[TENSORS + 1]) {
    float v_beta = constants[0];
    float v_threshold = constants[1];
    float v_reset = constants[2];
    float v_v = state[0];
    precise float e0 = v_v - v_threshold;
    precise float e1 = e0 > 0.0 ? 1.0 : 0.0;
    precise float e2 = is_soft ? v_v : v_reset;
    precise float e3 = e1 > 0.0 ? e2 : v_v;
    precise float e4 = is_free ? v_v : e3;
    precise float e5 = v_beta * e4;
    precise float e6 = e5 + v_x;
    precise float e7 = e6 - v_threshold;
    precise float e8 = e1 > 0.0 ? e7 : e6;
    precise float e9 = is_soft ? e8 : e6;
    precise float e10 = e9 - v_threshold;
    precise float e11 = e10 > 0.0 ? 1.0 : 0.0;
    state[0] = e9;
    return e11;
}
#endif
#include "scan.glsl"

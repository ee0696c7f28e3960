#version 460
// Made from the description of the neuron by python -m grilly_ext_snn.kernels.emit; not to be edited.
#include "maths.glsl"
#define STATES 1
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
    float v_gain = constants[0];
    float v_keep = constants[1];
    float v_threshold = constants[2];
    float v_reset = constants[3];
    float v_v = state[0];
    float v_g_v = g_state[0];
    precise float e0 = v_gain * v_x;
    precise float e1 = v_keep * v_v;
    precise float e2 = e0 + e1;
    precise float e3 = v_v - v_threshold;
    precise float e4 = e3 > 0.0 ? 1.0 : 0.0;
    precise float e5 = e2 - v_threshold;
    precise float e6 = is_soft ? e5 : v_reset;
    precise float e7 = e4 > 0.0 ? e6 : e2;
    precise float e8 = is_free ? e2 : e7;
    precise float e9 = e8 - v_threshold;
    precise float e10 = surrogate(e9);
    precise float e11 = v_g_spike * e10;
    precise float e12 = v_g_v + e11;
    precise float e13 = is_free ? e12 : 0.0;
    precise float e14 = is_free ? 0.0 : e12;
    precise float e15 = e4 > 0.0 ? 0.0 : e14;
    precise float e16 = e13 + e15;
    precise float e17 = e4 > 0.0 ? e14 : 0.0;
    precise float e18 = is_soft ? e17 : 0.0;
    precise float e19 = e16 + e18;
    precise float e20 = e19 * v_gain;
    precise float e21 = e19 * v_keep;
    g_state[0] = e21;
    return e20;
}
#else
float push_on(float v_x, inout float state[STATES], float given[TENSORS + 1]) {
    float v_gain = constants[0];
    float v_keep = constants[1];
    float v_threshold = constants[2];
    float v_reset = constants[3];
    float v_v = state[0];
    precise float e0 = v_gain * v_x;
    precise float e1 = v_keep * v_v;
    precise float e2 = e0 + e1;
    precise float e3 = v_v - v_threshold;
    precise float e4 = e3 > 0.0 ? 1.0 : 0.0;
    precise float e5 = e2 - v_threshold;
    precise float e6 = is_soft ? e5 : v_reset;
    precise float e7 = e4 > 0.0 ? e6 : e2;
    precise float e8 = is_free ? e2 : e7;
    precise float e9 = e8 - v_threshold;
    precise float e10 = e9 > 0.0 ? 1.0 : 0.0;
    state[0] = e8;
    return e10;
}
#endif
#include "scan.glsl"

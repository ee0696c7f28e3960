#version 460
// Made from the description of the neuron by python -m grilly_ext_snn.kernels.emit; not to be edited.
#include "maths.glsl"
#define STATES 1
#define TENSORS 0
#define CONSTANTS 2
layout(constant_id = 0) const bool is_soft = false;
layout(constant_id = 1) const bool is_free = false;
layout(constant_id = 2) const bool is_detach = false;
layout(constant_id = 15) const bool SIGMOID = false;
layout(constant_id = 16) const bool KEPT = false;
float constants[CONSTANTS], slope[4];
#include "surrogate.glsl"

#ifdef BACKWARD
float pull(float v_g_spike, float v_x, float state[STATES], float given[TENSORS + 1], inout float g_state[STATES], inout float g_given[TENSORS + 1]) {
    float v_threshold = constants[0];
    float v_reset = constants[1];
    float v_v = state[0];
    float v_g_v = g_state[0];
    precise float e0 = is_free ? v_g_v : 0.0;
    precise float e1 = v_v + v_x;
    precise float e2 = e1 - v_threshold;
    precise float e3 = e2 >= 0.0 ? 1.0 : 0.0;
    precise float e4 = is_free ? 0.0 : v_g_v;
    precise float e5 = e3 > 0.0 ? 0.0 : e4;
    precise float e6 = e0 + e5;
    precise float e7 = e3 > 0.0 ? e4 : 0.0;
    precise float e8 = is_soft ? e7 : 0.0;
    precise float e9 = is_soft ? e2 : v_reset;
    precise float e10 = e9 - e1;
    precise float e11 = e4 * e10;
    precise float e12 = is_detach ? 0.0 : e11;
    precise float e13 = v_g_spike + e12;
    precise float e14 = surrogate(e2);
    precise float e15 = e13 * e14;
    precise float e16 = e8 + e15;
    precise float e17 = e6 + e16;
    g_state[0] = e17;
    return e17;
}
#else
float push_on(float v_x, inout float state[STATES], float given[TENSORS + 1]) {
    float v_threshold = constants[0];
    float v_reset = constants[1];
    float v_v = state[0];
    precise float e0 = v_v + v_x;
    precise float e1 = e0 - v_threshold;
    precise float e2 = e1 >= 0.0 ? 1.0 : 0.0;
    precise float e3 = is_soft ? e1 : v_reset;
    precise float e4 = e2 > 0.0 ? e3 : e0;
    precise float e5 = is_free ? e0 : e4;
    state[0] = e5;
    return e2;
}
#endif
#include "scan.glsl"

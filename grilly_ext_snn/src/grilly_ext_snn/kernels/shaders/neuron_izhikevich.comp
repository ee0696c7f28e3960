#version 460
// Made from the description of the neuron by python -m grilly_ext_snn.kernels.emit; not to be edited.
#include "maths.glsl"
#define STATES 2
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
    float v_dt = constants[0];
    float v_a = constants[1];
    float v_b = constants[2];
    float v_d = constants[3];
    float v_threshold = constants[4];
    float v_reset = constants[5];
    float v_v = state[0];
    float v_u = state[1];
    float v_g_v = g_state[0];
    float v_g_u = g_state[1];
    precise float e0 = v_v * v_v;
    precise float e1 = e0 * 0.04;
    precise float e2 = v_v * 5.0;
    precise float e3 = e1 + e2;
    precise float e4 = e3 + 140.0;
    precise float e5 = e4 - v_u;
    precise float e6 = e5 + v_x;
    precise float e7 = v_dt * e6;
    precise float e8 = v_v + e7;
    precise float e9 = e8 - v_threshold;
    precise float e10 = e9 >= 0.0 ? 1.0 : 0.0;
    precise float e11 = e10 > 0.0 ? 0.0 : v_g_v;
    precise float e12 = v_g_u * v_d;
    precise float e13 = v_reset - e8;
    precise float e14 = v_g_v * e13;
    precise float e15 = e12 + e14;
    precise float e16 = is_detach ? 0.0 : e15;
    precise float e17 = v_g_spike + e16;
    precise float e18 = surrogate(e9);
    precise float e19 = e17 * e18;
    precise float e20 = e11 + e19;
    precise float e21 = e20 * v_dt;
    precise float e22 = v_dt * v_a;
    precise float e23 = v_g_u * e22;
    precise float e24 = e23 * v_b;
    precise float e25 = e24 + e20;
    precise float e26 = e21 * 5.0;
    precise float e27 = e25 + e26;
    precise float e28 = e21 * 0.04;
    precise float e29 = e28 * v_v;
    precise float e30 = e27 + e29;
    precise float e31 = e30 + e29;
    precise float e32 = -e23;
    precise float e33 = v_g_u + e32;
    precise float e34 = -e21;
    precise float e35 = e33 + e34;
    g_state[0] = e31;
    g_state[1] = e35;
    return e21;
}
#else
float push_on(float v_x, inout float state[STATES], float given[TENSORS + 1]) {
    float v_dt = constants[0];
    float v_a = constants[1];
    float v_b = constants[2];
    float v_d = constants[3];
    float v_threshold = constants[4];
    float v_reset = constants[5];
    float v_v = state[0];
    float v_u = state[1];
    precise float e0 = v_v * v_v;
    precise float e1 = e0 * 0.04;
    precise float e2 = v_v * 5.0;
    precise float e3 = e1 + e2;
    precise float e4 = e3 + 140.0;
    precise float e5 = e4 - v_u;
    precise float e6 = e5 + v_x;
    precise float e7 = v_dt * e6;
    precise float e8 = v_v + e7;
    precise float e9 = e8 - v_threshold;
    precise float e10 = e9 >= 0.0 ? 1.0 : 0.0;
    precise float e11 = e10 > 0.0 ? v_reset : e8;
    precise float e12 = v_dt * v_a;
    precise float e13 = v_b * v_v;
    precise float e14 = e13 - v_u;
    precise float e15 = e12 * e14;
    precise float e16 = v_u + e15;
    precise float e17 = v_d * e10;
    precise float e18 = e16 + e17;
    state[0] = e11;
    state[1] = e18;
    return e10;
}
#endif
#include "scan.glsl"

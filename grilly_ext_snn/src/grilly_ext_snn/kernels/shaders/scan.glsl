// A thread owns a neuron and walks through time. Inputs of the next steps are loaded ahead: they do not depend on the
// state, and a store in between would keep the compiler from doing it.
layout(local_size_x = 64) in;
layout(push_constant, std430) uniform Push { uint64_t table; uint neurons, steps; } push;
const uint AHEAD = 8;

// The table: addresses in the order of the kernel's arguments, then the constants, then the surrogate's coefficients.
uint64_t place(uint i) { return load_u64(push.table + uint64_t(i) * 8); }
float at(uint64_t base, uint row, uint i) { return load_f32(base + (uint64_t(row) * push.neurons + i) * 4); }
void put(uint64_t base, uint row, uint i, float v) { store_f32(base + (uint64_t(row) * push.neurons + i) * 4, v); }

#ifdef BACKWARD
const uint SPIKES = 0, LAST = 1, X = LAST + STATES, FIRST = X + 1, SAVED = FIRST + STATES, GIVEN = SAVED + STATES,
           MORE = GIVEN + TENSORS, G_X = MORE + STATES, G_FIRST = G_X + 1, G_GIVEN = G_FIRST + STATES,
           PLACES = G_GIVEN + TENSORS;
#else
const uint X = 0, FIRST = 1, GIVEN = FIRST + STATES, SPIKES = GIVEN + TENSORS, LAST = SPIKES + 1,
           SAVED = LAST + STATES, PLACES = SAVED + STATES;
#endif

#ifdef BACKWARD
void walk(uint i) {
    float given[TENSORS + 1], g_state[STATES], g_given[TENSORS + 1];
    for (uint p = 0; p < TENSORS; ++p) given[p] = at(place(GIVEN + p), 0u, i);
    for (uint p = 0; p < TENSORS; ++p) g_given[p] = 0.0;
    for (uint s = 0; s < STATES; ++s) g_state[s] = at(place(LAST + s), 0u, i);
    uint64_t spikes = place(SPIKES), x = place(X), g_x = place(G_X);
    for (uint left = push.steps; left > 0u; left -= min(left, AHEAD)) {
        float xs[AHEAD], gs[AHEAD], saved[AHEAD][STATES], more[AHEAD][STATES];
        [[unroll]] for (uint a = 0u; a < AHEAD; ++a) {
            uint t = left > a ? left - 1u - a : 0u;
            xs[a] = at(x, t, i);
            gs[a] = at(spikes, t, i);
            for (uint s = 0; s < STATES; ++s) {
                saved[a][s] = t > 0u ? at(place(SAVED + s), t - 1u, i) : at(place(FIRST + s), 0u, i);
                more[a][s] = KEPT ? at(place(MORE + s), t, i) : 0.0;
            }
        }
        [[unroll]] for (uint a = 0u; a < AHEAD; ++a) {
            if (left > a) {
                for (uint s = 0; s < STATES; ++s) g_state[s] += more[a][s];
                put(g_x, left - 1u - a, i, pull(gs[a], xs[a], saved[a], given, g_state, g_given));
            }
        }
    }
    for (uint s = 0; s < STATES; ++s) put(place(G_FIRST + s), 0u, i, g_state[s]);
    for (uint p = 0; p < TENSORS; ++p) put(place(G_GIVEN + p), 0u, i, g_given[p]);
}
#else
void walk(uint i) {
    float given[TENSORS + 1], state[STATES];
    for (uint p = 0; p < TENSORS; ++p) given[p] = at(place(GIVEN + p), 0u, i);
    for (uint s = 0; s < STATES; ++s) state[s] = at(place(FIRST + s), 0u, i);
    uint64_t x = place(X), spikes = place(SPIKES);
    for (uint t = 0u; t < push.steps; t += AHEAD) {
        float xs[AHEAD];
        [[unroll]] for (uint a = 0u; a < AHEAD; ++a) xs[a] = at(x, min(t + a, push.steps - 1u), i);
        [[unroll]] for (uint a = 0u; a < AHEAD; ++a) {
            if (t + a < push.steps) {
                put(spikes, t + a, i, push_on(xs[a], state, given));
                if (KEPT)
                    for (uint s = 0; s < STATES; ++s) put(place(SAVED + s), t + a, i, state[s]);
            }
        }
    }
    for (uint s = 0; s < STATES; ++s)
        if (place(LAST + s) != 0) put(place(LAST + s), 0u, i, state[s]);
}
#endif

void main() {
    for (uint c = 0; c < CONSTANTS; ++c) constants[c] = load_f32(push.table + (PLACES * 2u + c) * 4u);
    for (uint c = 0; c < 4u; ++c) slope[c] = load_f32(push.table + (PLACES * 2u + CONSTANTS + c) * 4u);
    for (uint i = gl_GlobalInvocationID.x; i < push.neurons; i += gl_NumWorkGroups.x * 64u) walk(i);
}

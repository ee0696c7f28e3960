"""The scans of `synaptic`.

Made from the description of the neuron by ``python -m grilly_ext_snn.kernels.emit``; not to be edited.
"""

# fmt: off
# ruff: noqa

import math

import numpy as np


def forward(start, stop, args):
    k, soft, free, detach, kept, x_in, v_first, i_first, spikes, v_last, i_last, v_kept, i_kept = args
    zero = k[0]
    one = k[1]
    decay = k[2]
    beta = k[3]
    threshold = k[4]
    reset = k[5]
    size = stop - start
    v_work = np.empty((2, size), x_in.dtype)
    v_work[0] = v_first[start:stop]
    i_work = np.empty((2, size), x_in.dtype)
    i_work[0] = i_first[start:stop]
    for t in range(x_in.shape[0]):
        x_row, spike_row = x_in[t, start:stop], spikes[t, start:stop]
        v_old, v_new = v_work[t % 2], v_work[1 - t % 2]
        i_old, i_new = i_work[t % 2], i_work[1 - t % 2]
        if kept:
            v_new = v_kept[t, start:stop]
            if t > 0:
                v_old = v_kept[t - 1, start:stop]
            i_new = i_kept[t, start:stop]
            if t > 0:
                i_old = i_kept[t - 1, start:stop]
        for j in range(size):
            x = x_row[j]
            v = v_old[j]
            i = i_old[j]
            e0 = beta * v
            e1 = decay * i
            e2 = e1 + x
            e3 = e0 + e2
            e4 = v - threshold
            e5 = one if e4 > zero else zero
            e6 = e3 - threshold
            e7 = e6 if soft else reset
            e8 = e7 if e5 > zero else e3
            e9 = e3 if free else e8
            e10 = e9 - threshold
            e11 = one if e10 > zero else zero
            spike_row[j] = e11
            v_new[j] = e9
            i_new[j] = e2
        if t == x_in.shape[0] - 1:
            v_last[start:stop] = v_new
            i_last[start:stop] = i_new


def backward(start, stop, args):
    k, soft, free, detach, traced, g_spikes, g_v_last, g_i_last, x_in, v_first, i_first, v_kept, i_kept, g_v_kept, g_i_kept, g_x, g_v_first, g_i_first = args
    zero = k[0]
    one = k[1]
    decay = k[2]
    beta = k[3]
    threshold = k[4]
    reset = k[5]
    c0 = k[6]
    c1 = k[7]
    c2 = k[8]
    c3 = k[9]
    n0 = x_in.dtype.type(1e+18)
    nothing = np.zeros(stop - start, x_in.dtype)
    g_v_row = g_v_first[start:stop]
    g_v_row[:] = g_v_last[start:stop]
    g_v_more = nothing
    g_i_row = g_i_first[start:stop]
    g_i_row[:] = g_i_last[start:stop]
    g_i_more = nothing
    for t in range(x_in.shape[0] - 1, -1, -1):
        g_row, x_row, g_x_row = g_spikes[t, start:stop], x_in[t, start:stop], g_x[t, start:stop]
        v_old = v_kept[t - 1, start:stop] if t > 0 else v_first[start:stop]
        i_old = i_kept[t - 1, start:stop] if t > 0 else i_first[start:stop]
        if traced:
            g_v_more = g_v_kept[t, start:stop]
            g_i_more = g_i_kept[t, start:stop]
        for j in range(stop - start):
            g_spike, x = g_row[j], x_row[j]
            v = v_old[j]
            i = i_old[j]
            g_v = g_v_row[j] + g_v_more[j]
            g_i = g_i_row[j] + g_i_more[j]
            e0 = beta * v
            e1 = decay * i
            e2 = e1 + x
            e3 = e0 + e2
            e4 = v - threshold
            e5 = one if e4 > zero else zero
            e6 = e3 - threshold
            e7 = e6 if soft else reset
            e8 = e7 if e5 > zero else e3
            e9 = e3 if free else e8
            e10 = e9 - threshold
            e11 = -e10
            e12 = max(e10, e11)
            e13 = min(e12, n0)
            e14 = c3 * e13
            e15 = one - e14
            e16 = max(e15, zero)
            e17 = c0 * e16
            e18 = c2 * e13
            e19 = c1 + e18
            e20 = e13 * e19
            e21 = one + e20
            e22 = e17 / e21
            e23 = g_spike * e22
            e24 = g_v + e23
            e25 = e24 if free else zero
            e26 = zero if free else e24
            e27 = zero if e5 > zero else e26
            e28 = e25 + e27
            e29 = e26 if e5 > zero else zero
            e30 = e29 if soft else zero
            e31 = e28 + e30
            e32 = g_i + e31
            e33 = e31 * beta
            e34 = e32 * decay
            g_x_row[j] = e32
            g_v_row[j] = e33
            g_i_row[j] = e34


def backward_sigmoid(start, stop, args):
    k, soft, free, detach, traced, g_spikes, g_v_last, g_i_last, x_in, v_first, i_first, v_kept, i_kept, g_v_kept, g_i_kept, g_x, g_v_first, g_i_first = args
    zero = k[0]
    one = k[1]
    decay = k[2]
    beta = k[3]
    threshold = k[4]
    reset = k[5]
    c0 = k[6]
    c1 = k[7]
    c2 = k[8]
    c3 = k[9]
    nothing = np.zeros(stop - start, x_in.dtype)
    g_v_row = g_v_first[start:stop]
    g_v_row[:] = g_v_last[start:stop]
    g_v_more = nothing
    g_i_row = g_i_first[start:stop]
    g_i_row[:] = g_i_last[start:stop]
    g_i_more = nothing
    for t in range(x_in.shape[0] - 1, -1, -1):
        g_row, x_row, g_x_row = g_spikes[t, start:stop], x_in[t, start:stop], g_x[t, start:stop]
        v_old = v_kept[t - 1, start:stop] if t > 0 else v_first[start:stop]
        i_old = i_kept[t - 1, start:stop] if t > 0 else i_first[start:stop]
        if traced:
            g_v_more = g_v_kept[t, start:stop]
            g_i_more = g_i_kept[t, start:stop]
        for j in range(stop - start):
            g_spike, x = g_row[j], x_row[j]
            v = v_old[j]
            i = i_old[j]
            g_v = g_v_row[j] + g_v_more[j]
            g_i = g_i_row[j] + g_i_more[j]
            e0 = beta * v
            e1 = decay * i
            e2 = e1 + x
            e3 = e0 + e2
            e4 = v - threshold
            e5 = one if e4 > zero else zero
            e6 = e3 - threshold
            e7 = e6 if soft else reset
            e8 = e7 if e5 > zero else e3
            e9 = e3 if free else e8
            e10 = e9 - threshold
            e11 = -e10
            e12 = max(e10, e11)
            e13 = c0 * e12
            e14 = -e13
            e15 = math.exp(e14)
            e16 = c0 * e15
            e17 = one + e15
            e18 = e17 * e17
            e19 = e16 / e18
            e20 = g_spike * e19
            e21 = g_v + e20
            e22 = e21 if free else zero
            e23 = zero if free else e21
            e24 = zero if e5 > zero else e23
            e25 = e22 + e24
            e26 = e23 if e5 > zero else zero
            e27 = e26 if soft else zero
            e28 = e25 + e27
            e29 = g_i + e28
            e30 = e28 * beta
            e31 = e29 * decay
            g_x_row[j] = e29
            g_v_row[j] = e30
            g_i_row[j] = e31

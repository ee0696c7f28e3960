"""The scans of `if`.

Made from the description of the neuron by ``python -m grilly_ext_snn.kernels.emit``; not to be edited.
"""

# fmt: off
# ruff: noqa

import math

import numpy as np


def forward(start, stop, args):
    k, soft, free, detach, kept, x_in, v_first, spikes, v_last, v_kept = args
    zero = k[0]
    one = k[1]
    threshold = k[2]
    reset = k[3]
    size = stop - start
    v_work = np.empty((2, size), x_in.dtype)
    v_work[0] = v_first[start:stop]
    for t in range(x_in.shape[0]):
        x_row, spike_row = x_in[t, start:stop], spikes[t, start:stop]
        v_old, v_new = v_work[t % 2], v_work[1 - t % 2]
        if kept:
            v_new = v_kept[t, start:stop]
            if t > 0:
                v_old = v_kept[t - 1, start:stop]
        for j in range(size):
            x = x_row[j]
            v = v_old[j]
            e0 = v + x
            e1 = e0 - threshold
            e2 = one if e1 >= zero else zero
            e3 = e1 if soft else reset
            e4 = e3 if e2 > zero else e0
            e5 = e0 if free else e4
            spike_row[j] = e2
            v_new[j] = e5
        if t == x_in.shape[0] - 1:
            v_last[start:stop] = v_new


def backward(start, stop, args):
    k, soft, free, detach, traced, g_spikes, g_v_last, x_in, v_first, v_kept, g_v_kept, g_x, g_v_first = args
    zero = k[0]
    one = k[1]
    threshold = k[2]
    reset = k[3]
    c0 = k[4]
    c1 = k[5]
    c2 = k[6]
    c3 = k[7]
    n0 = x_in.dtype.type(1e+18)
    nothing = np.zeros(stop - start, x_in.dtype)
    g_v_row = g_v_first[start:stop]
    g_v_row[:] = g_v_last[start:stop]
    g_v_more = nothing
    for t in range(x_in.shape[0] - 1, -1, -1):
        g_row, x_row, g_x_row = g_spikes[t, start:stop], x_in[t, start:stop], g_x[t, start:stop]
        v_old = v_kept[t - 1, start:stop] if t > 0 else v_first[start:stop]
        if traced:
            g_v_more = g_v_kept[t, start:stop]
        for j in range(stop - start):
            g_spike, x = g_row[j], x_row[j]
            v = v_old[j]
            g_v = g_v_row[j] + g_v_more[j]
            e0 = g_v if free else zero
            e1 = v + x
            e2 = e1 - threshold
            e3 = one if e2 >= zero else zero
            e4 = zero if free else g_v
            e5 = zero if e3 > zero else e4
            e6 = e0 + e5
            e7 = e4 if e3 > zero else zero
            e8 = e7 if soft else zero
            e9 = e2 if soft else reset
            e10 = e9 - e1
            e11 = e4 * e10
            e12 = zero if detach else e11
            e13 = g_spike + e12
            e14 = -e2
            e15 = max(e2, e14)
            e16 = min(e15, n0)
            e17 = c3 * e16
            e18 = one - e17
            e19 = max(e18, zero)
            e20 = c0 * e19
            e21 = c2 * e16
            e22 = c1 + e21
            e23 = e16 * e22
            e24 = one + e23
            e25 = e20 / e24
            e26 = e13 * e25
            e27 = e8 + e26
            e28 = e6 + e27
            g_x_row[j] = e28
            g_v_row[j] = e28


def backward_sigmoid(start, stop, args):
    k, soft, free, detach, traced, g_spikes, g_v_last, x_in, v_first, v_kept, g_v_kept, g_x, g_v_first = args
    zero = k[0]
    one = k[1]
    threshold = k[2]
    reset = k[3]
    c0 = k[4]
    c1 = k[5]
    c2 = k[6]
    c3 = k[7]
    nothing = np.zeros(stop - start, x_in.dtype)
    g_v_row = g_v_first[start:stop]
    g_v_row[:] = g_v_last[start:stop]
    g_v_more = nothing
    for t in range(x_in.shape[0] - 1, -1, -1):
        g_row, x_row, g_x_row = g_spikes[t, start:stop], x_in[t, start:stop], g_x[t, start:stop]
        v_old = v_kept[t - 1, start:stop] if t > 0 else v_first[start:stop]
        if traced:
            g_v_more = g_v_kept[t, start:stop]
        for j in range(stop - start):
            g_spike, x = g_row[j], x_row[j]
            v = v_old[j]
            g_v = g_v_row[j] + g_v_more[j]
            e0 = g_v if free else zero
            e1 = v + x
            e2 = e1 - threshold
            e3 = one if e2 >= zero else zero
            e4 = zero if free else g_v
            e5 = zero if e3 > zero else e4
            e6 = e0 + e5
            e7 = e4 if e3 > zero else zero
            e8 = e7 if soft else zero
            e9 = e2 if soft else reset
            e10 = e9 - e1
            e11 = e4 * e10
            e12 = zero if detach else e11
            e13 = g_spike + e12
            e14 = -e2
            e15 = max(e2, e14)
            e16 = c0 * e15
            e17 = -e16
            e18 = math.exp(e17)
            e19 = c0 * e18
            e20 = one + e18
            e21 = e20 * e20
            e22 = e19 / e21
            e23 = e13 * e22
            e24 = e8 + e23
            e25 = e6 + e24
            g_x_row[j] = e25
            g_v_row[j] = e25

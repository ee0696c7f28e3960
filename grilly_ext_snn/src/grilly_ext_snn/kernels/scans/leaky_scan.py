"""The scans of `leaky`.

Made from the description of the neuron by ``python -m grilly_ext_snn.kernels.emit``; not to be edited.
"""

# fmt: off
# ruff: noqa

import math

import numpy as np

stream_out = stream_end = None  # replaced by what the runtime compiles: see `scans_cpu`


def forward(start, stop, args):
    k, soft, free, detach, kept, streamed, x_in, v_first, spikes, v_last, v_kept = args
    zero = k[0]
    one = k[1]
    beta = k[2]
    threshold = k[3]
    reset = k[4]
    v_last[start:stop] = v_first[start:stop]
    work = np.empty(stop - start if streamed else 0, x_in.dtype)
    for t in range(x_in.shape[0]):
        x_row = x_in[t, start:stop]
        spike_row = work if streamed else spikes[t, start:stop]
        v_row = v_last[start:stop]
        for j in range(stop - start):
            x = x_row[j]
            v = v_row[j]
            e0 = v - threshold
            e1 = one if e0 > zero else zero
            e2 = v if soft else reset
            e3 = e2 if e1 > zero else v
            e4 = v if free else e3
            e5 = beta * e4
            e6 = e5 + x
            e7 = e6 - threshold
            e8 = e7 if e1 > zero else e6
            e9 = e8 if soft else e6
            e10 = e9 - threshold
            e11 = one if e10 > zero else zero
            spike_row[j] = e11
            v_row[j] = e9
        if kept and not streamed:
            v_kept[t, start:stop] = v_row
        if kept and streamed:
            stream_out(v_row, v_kept[t, start:stop])
        if streamed:
            stream_out(spike_row, spikes[t, start:stop])
    if streamed:
        stream_end()


def backward(start, stop, args):
    k, soft, free, detach, traced, stride, g_spikes, g_v_last, x_in, v_first, v_kept, g_v_kept, g_x, g_v_first = args
    zero = k[0]
    one = k[1]
    beta = k[2]
    threshold = k[3]
    reset = k[4]
    c0 = k[5]
    c1 = k[6]
    c2 = k[7]
    c3 = k[8]
    n0 = x_in.dtype.type(1e+18)
    g_v_first[start:stop] = g_v_last[start:stop]
    nothing = np.zeros(stop - start, x_in.dtype)
    for t in range(x_in.shape[0] - 1, -1, -1):
        g_row, x_row, g_x_row = g_spikes[t * stride, start:stop], x_in[t, start:stop], g_x[t, start:stop]
        v_old = v_kept[t - 1, start:stop] if t > 0 else v_first[start:stop]
        g_v_row = g_v_first[start:stop]
        g_v_more = g_v_kept[t, start:stop] if traced else nothing
        for j in range(stop - start):
            g_spike, x = g_row[j], x_row[j]
            v = v_old[j]
            g_v = g_v_row[j] + g_v_more[j]
            e0 = v - threshold
            e1 = one if e0 > zero else zero
            e2 = v if soft else reset
            e3 = e2 if e1 > zero else v
            e4 = v if free else e3
            e5 = beta * e4
            e6 = e5 + x
            e7 = e6 - threshold
            e8 = e7 if e1 > zero else e6
            e9 = e8 if soft else e6
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
            e25 = zero if soft else e24
            e26 = e24 if soft else zero
            e27 = zero if e1 > zero else e26
            e28 = e25 + e27
            e29 = e26 if e1 > zero else zero
            e30 = e28 + e29
            e31 = e30 * beta
            e32 = e31 if free else zero
            e33 = zero if free else e31
            e34 = zero if e1 > zero else e33
            e35 = e32 + e34
            e36 = e33 if e1 > zero else zero
            e37 = e36 if soft else zero
            e38 = e35 + e37
            g_x_row[j] = e30
            g_v_row[j] = e38


def backward_sigmoid(start, stop, args):
    k, soft, free, detach, traced, stride, g_spikes, g_v_last, x_in, v_first, v_kept, g_v_kept, g_x, g_v_first = args
    zero = k[0]
    one = k[1]
    beta = k[2]
    threshold = k[3]
    reset = k[4]
    c0 = k[5]
    c1 = k[6]
    c2 = k[7]
    c3 = k[8]
    g_v_first[start:stop] = g_v_last[start:stop]
    nothing = np.zeros(stop - start, x_in.dtype)
    for t in range(x_in.shape[0] - 1, -1, -1):
        g_row, x_row, g_x_row = g_spikes[t * stride, start:stop], x_in[t, start:stop], g_x[t, start:stop]
        v_old = v_kept[t - 1, start:stop] if t > 0 else v_first[start:stop]
        g_v_row = g_v_first[start:stop]
        g_v_more = g_v_kept[t, start:stop] if traced else nothing
        for j in range(stop - start):
            g_spike, x = g_row[j], x_row[j]
            v = v_old[j]
            g_v = g_v_row[j] + g_v_more[j]
            e0 = v - threshold
            e1 = one if e0 > zero else zero
            e2 = v if soft else reset
            e3 = e2 if e1 > zero else v
            e4 = v if free else e3
            e5 = beta * e4
            e6 = e5 + x
            e7 = e6 - threshold
            e8 = e7 if e1 > zero else e6
            e9 = e8 if soft else e6
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
            e22 = zero if soft else e21
            e23 = e21 if soft else zero
            e24 = zero if e1 > zero else e23
            e25 = e22 + e24
            e26 = e23 if e1 > zero else zero
            e27 = e25 + e26
            e28 = e27 * beta
            e29 = e28 if free else zero
            e30 = zero if free else e28
            e31 = zero if e1 > zero else e30
            e32 = e29 + e31
            e33 = e30 if e1 > zero else zero
            e34 = e33 if soft else zero
            e35 = e32 + e34
            g_x_row[j] = e27
            g_v_row[j] = e35

"""The scans of `if`.

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
    threshold = k[2]
    reset = k[3]
    v_last[start:stop] = v_first[start:stop]
    work = np.empty(stop - start if streamed else 0, x_in.dtype)
    for t in range(x_in.shape[0]):
        x_row = x_in[t, start:stop]
        spike_row = work if streamed else spikes[t, start:stop]
        v_row = v_last[start:stop]
        for j in range(stop - start):
            x = x_row[j]
            v = v_row[j]
            e0 = v + x
            e1 = e0 - threshold
            e2 = one if e1 >= zero else zero
            e3 = e1 if soft else reset
            e4 = e3 if e2 > zero else e0
            e5 = e0 if free else e4
            spike_row[j] = e2
            v_row[j] = e5
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
    threshold = k[2]
    reset = k[3]
    c0 = k[4]
    c1 = k[5]
    c2 = k[6]
    c3 = k[7]
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
    k, soft, free, detach, traced, stride, g_spikes, g_v_last, x_in, v_first, v_kept, g_v_kept, g_x, g_v_first = args
    zero = k[0]
    one = k[1]
    threshold = k[2]
    reset = k[3]
    c0 = k[4]
    c1 = k[5]
    c2 = k[6]
    c3 = k[7]
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

"""The scans of `lapicque`.

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
    gain = k[2]
    keep = k[3]
    threshold = k[4]
    reset = k[5]
    v_last[start:stop] = v_first[start:stop]
    work = np.empty(stop - start if streamed else 0, x_in.dtype)
    for t in range(x_in.shape[0]):
        x_row = x_in[t, start:stop]
        spike_row = work if streamed else spikes[t, start:stop]
        v_row = v_last[start:stop]
        for j in range(stop - start):
            x = x_row[j]
            v = v_row[j]
            e0 = gain * x
            e1 = keep * v
            e2 = e0 + e1
            e3 = v - threshold
            e4 = one if e3 > zero else zero
            e5 = e2 - threshold
            e6 = e5 if soft else reset
            e7 = e6 if e4 > zero else e2
            e8 = e2 if free else e7
            e9 = e8 - threshold
            e10 = one if e9 > zero else zero
            spike_row[j] = e10
            v_row[j] = e8
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
    gain = k[2]
    keep = k[3]
    threshold = k[4]
    reset = k[5]
    c0 = k[6]
    c1 = k[7]
    c2 = k[8]
    c3 = k[9]
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
            e0 = gain * x
            e1 = keep * v
            e2 = e0 + e1
            e3 = v - threshold
            e4 = one if e3 > zero else zero
            e5 = e2 - threshold
            e6 = e5 if soft else reset
            e7 = e6 if e4 > zero else e2
            e8 = e2 if free else e7
            e9 = e8 - threshold
            e10 = -e9
            e11 = max(e9, e10)
            e12 = min(e11, n0)
            e13 = c3 * e12
            e14 = one - e13
            e15 = max(e14, zero)
            e16 = c0 * e15
            e17 = c2 * e12
            e18 = c1 + e17
            e19 = e12 * e18
            e20 = one + e19
            e21 = e16 / e20
            e22 = g_spike * e21
            e23 = g_v + e22
            e24 = e23 if free else zero
            e25 = zero if free else e23
            e26 = zero if e4 > zero else e25
            e27 = e24 + e26
            e28 = e25 if e4 > zero else zero
            e29 = e28 if soft else zero
            e30 = e27 + e29
            e31 = e30 * gain
            e32 = e30 * keep
            g_x_row[j] = e31
            g_v_row[j] = e32


def backward_sigmoid(start, stop, args):
    k, soft, free, detach, traced, stride, g_spikes, g_v_last, x_in, v_first, v_kept, g_v_kept, g_x, g_v_first = args
    zero = k[0]
    one = k[1]
    gain = k[2]
    keep = k[3]
    threshold = k[4]
    reset = k[5]
    c0 = k[6]
    c1 = k[7]
    c2 = k[8]
    c3 = k[9]
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
            e0 = gain * x
            e1 = keep * v
            e2 = e0 + e1
            e3 = v - threshold
            e4 = one if e3 > zero else zero
            e5 = e2 - threshold
            e6 = e5 if soft else reset
            e7 = e6 if e4 > zero else e2
            e8 = e2 if free else e7
            e9 = e8 - threshold
            e10 = -e9
            e11 = max(e9, e10)
            e12 = c0 * e11
            e13 = -e12
            e14 = math.exp(e13)
            e15 = c0 * e14
            e16 = one + e14
            e17 = e16 * e16
            e18 = e15 / e17
            e19 = g_spike * e18
            e20 = g_v + e19
            e21 = e20 if free else zero
            e22 = zero if free else e20
            e23 = zero if e4 > zero else e22
            e24 = e21 + e23
            e25 = e22 if e4 > zero else zero
            e26 = e25 if soft else zero
            e27 = e24 + e26
            e28 = e27 * gain
            e29 = e27 * keep
            g_x_row[j] = e28
            g_v_row[j] = e29

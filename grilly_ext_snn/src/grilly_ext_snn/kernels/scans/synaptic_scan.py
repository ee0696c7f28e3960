"""The scans of `synaptic`.

Made from the description of the neuron by ``python -m grilly_ext_snn.kernels.emit``; not to be edited.
"""

# fmt: off
# ruff: noqa

import math

import numpy as np

stream_out = stream_end = None  # replaced by what the runtime compiles: see `scans_cpu`


def forward(start, stop, args):
    k, soft, free, detach, kept, streamed, x_in, v_first, i_first, spikes, v_last, i_last, v_kept, i_kept = args
    zero = k[0]
    one = k[1]
    decay = k[2]
    beta = k[3]
    threshold = k[4]
    reset = k[5]
    v_last[start:stop] = v_first[start:stop]
    i_last[start:stop] = i_first[start:stop]
    work = np.empty(stop - start if streamed else 0, x_in.dtype)
    for t in range(x_in.shape[0]):
        x_row = x_in[t, start:stop]
        spike_row = work if streamed else spikes[t, start:stop]
        v_row = v_last[start:stop]
        i_row = i_last[start:stop]
        for j in range(stop - start):
            x = x_row[j]
            v = v_row[j]
            i = i_row[j]
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
            v_row[j] = e9
            i_row[j] = e2
        if kept and not streamed:
            v_kept[t, start:stop] = v_row
            i_kept[t, start:stop] = i_row
        if kept and streamed:
            stream_out(v_row, v_kept[t, start:stop])
            stream_out(i_row, i_kept[t, start:stop])
        if streamed:
            stream_out(spike_row, spikes[t, start:stop])
    if streamed:
        stream_end()


def backward(start, stop, args):
    k, soft, free, detach, traced, stride, g_spikes, g_v_last, g_i_last, x_in, v_first, i_first, v_kept, i_kept, g_v_kept, g_i_kept, g_x, g_v_first, g_i_first = args
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
    g_v_first[start:stop] = g_v_last[start:stop]
    g_i_first[start:stop] = g_i_last[start:stop]
    nothing = np.zeros(stop - start, x_in.dtype)
    for t in range(x_in.shape[0] - 1, -1, -1):
        g_row, x_row, g_x_row = g_spikes[t * stride, start:stop], x_in[t, start:stop], g_x[t, start:stop]
        v_old = v_kept[t - 1, start:stop] if t > 0 else v_first[start:stop]
        g_v_row = g_v_first[start:stop]
        g_v_more = g_v_kept[t, start:stop] if traced else nothing
        i_old = i_kept[t - 1, start:stop] if t > 0 else i_first[start:stop]
        g_i_row = g_i_first[start:stop]
        g_i_more = g_i_kept[t, start:stop] if traced else nothing
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
    k, soft, free, detach, traced, stride, g_spikes, g_v_last, g_i_last, x_in, v_first, i_first, v_kept, i_kept, g_v_kept, g_i_kept, g_x, g_v_first, g_i_first = args
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
    g_v_first[start:stop] = g_v_last[start:stop]
    g_i_first[start:stop] = g_i_last[start:stop]
    nothing = np.zeros(stop - start, x_in.dtype)
    for t in range(x_in.shape[0] - 1, -1, -1):
        g_row, x_row, g_x_row = g_spikes[t * stride, start:stop], x_in[t, start:stop], g_x[t, start:stop]
        v_old = v_kept[t - 1, start:stop] if t > 0 else v_first[start:stop]
        g_v_row = g_v_first[start:stop]
        g_v_more = g_v_kept[t, start:stop] if traced else nothing
        i_old = i_kept[t - 1, start:stop] if t > 0 else i_first[start:stop]
        g_i_row = g_i_first[start:stop]
        g_i_more = g_i_kept[t, start:stop] if traced else nothing
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

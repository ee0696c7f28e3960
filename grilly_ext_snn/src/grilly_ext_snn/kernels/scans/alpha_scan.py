"""The scans of `alpha`.

Made from the description of the neuron by ``python -m grilly_ext_snn.kernels.emit``; not to be edited.
"""

# fmt: off
# ruff: noqa

import math

import numpy as np

stream_out = stream_end = None  # replaced by what the runtime compiles: see `scans_cpu`


def forward(start, stop, args):
    k, soft, free, detach, kept, streamed, x_in, v_first, e_first, i_first, spikes, v_last, e_last, i_last, v_kept, e_kept, i_kept = args
    zero = k[0]
    one = k[1]
    decay = k[2]
    fall = k[3]
    scale = k[4]
    share = k[5]
    threshold = k[6]
    reset = k[7]
    v_last[start:stop] = v_first[start:stop]
    e_last[start:stop] = e_first[start:stop]
    i_last[start:stop] = i_first[start:stop]
    work = np.empty(stop - start if streamed else 0, x_in.dtype)
    for t in range(x_in.shape[0]):
        x_row = x_in[t, start:stop]
        spike_row = work if streamed else spikes[t, start:stop]
        v_row = v_last[start:stop]
        e_row = e_last[start:stop]
        i_row = i_last[start:stop]
        for j in range(stop - start):
            x = x_row[j]
            v = v_row[j]
            e = e_row[j]
            i = i_row[j]
            e0 = decay * e
            e1 = e0 + x
            e2 = v - threshold
            e3 = one if e2 > zero else zero
            e4 = e1 - share
            e5 = e4 if soft else reset
            e6 = e5 if e3 > zero else e1
            e7 = e1 if free else e6
            e8 = fall * i
            e9 = e8 - x
            e10 = e9 if soft else zero
            e11 = e10 if e3 > zero else e9
            e12 = e9 if free else e11
            e13 = e7 + e12
            e14 = scale * e13
            e15 = e14 - threshold
            e16 = one if e15 > zero else zero
            spike_row[j] = e16
            v_row[j] = e14
            e_row[j] = e7
            i_row[j] = e12
        if kept and not streamed:
            v_kept[t, start:stop] = v_row
            e_kept[t, start:stop] = e_row
            i_kept[t, start:stop] = i_row
        if kept and streamed:
            stream_out(v_row, v_kept[t, start:stop])
            stream_out(e_row, e_kept[t, start:stop])
            stream_out(i_row, i_kept[t, start:stop])
        if streamed:
            stream_out(spike_row, spikes[t, start:stop])
    if streamed:
        stream_end()


def backward(start, stop, args):
    k, soft, free, detach, traced, stride, g_spikes, g_v_last, g_e_last, g_i_last, x_in, v_first, e_first, i_first, v_kept, e_kept, i_kept, g_v_kept, g_e_kept, g_i_kept, g_x, g_v_first, g_e_first, g_i_first = args
    zero = k[0]
    one = k[1]
    decay = k[2]
    fall = k[3]
    scale = k[4]
    share = k[5]
    threshold = k[6]
    reset = k[7]
    c0 = k[8]
    c1 = k[9]
    c2 = k[10]
    c3 = k[11]
    n0 = x_in.dtype.type(1e+18)
    g_v_first[start:stop] = g_v_last[start:stop]
    g_e_first[start:stop] = g_e_last[start:stop]
    g_i_first[start:stop] = g_i_last[start:stop]
    nothing = np.zeros(stop - start, x_in.dtype)
    for t in range(x_in.shape[0] - 1, -1, -1):
        g_row, x_row, g_x_row = g_spikes[t * stride, start:stop], x_in[t, start:stop], g_x[t, start:stop]
        v_old = v_kept[t - 1, start:stop] if t > 0 else v_first[start:stop]
        g_v_row = g_v_first[start:stop]
        g_v_more = g_v_kept[t, start:stop] if traced else nothing
        e_old = e_kept[t - 1, start:stop] if t > 0 else e_first[start:stop]
        g_e_row = g_e_first[start:stop]
        g_e_more = g_e_kept[t, start:stop] if traced else nothing
        i_old = i_kept[t - 1, start:stop] if t > 0 else i_first[start:stop]
        g_i_row = g_i_first[start:stop]
        g_i_more = g_i_kept[t, start:stop] if traced else nothing
        for j in range(stop - start):
            g_spike, x = g_row[j], x_row[j]
            v = v_old[j]
            e = e_old[j]
            i = i_old[j]
            g_v = g_v_row[j] + g_v_more[j]
            g_e = g_e_row[j] + g_e_more[j]
            g_i = g_i_row[j] + g_i_more[j]
            e0 = decay * e
            e1 = e0 + x
            e2 = v - threshold
            e3 = one if e2 > zero else zero
            e4 = e1 - share
            e5 = e4 if soft else reset
            e6 = e5 if e3 > zero else e1
            e7 = e1 if free else e6
            e8 = fall * i
            e9 = e8 - x
            e10 = e9 if soft else zero
            e11 = e10 if e3 > zero else e9
            e12 = e9 if free else e11
            e13 = e7 + e12
            e14 = scale * e13
            e15 = e14 - threshold
            e16 = -e15
            e17 = max(e15, e16)
            e18 = min(e17, n0)
            e19 = c3 * e18
            e20 = one - e19
            e21 = max(e20, zero)
            e22 = c0 * e21
            e23 = c2 * e18
            e24 = c1 + e23
            e25 = e18 * e24
            e26 = one + e25
            e27 = e22 / e26
            e28 = g_spike * e27
            e29 = g_v + e28
            e30 = e29 * scale
            e31 = g_i + e30
            e32 = e31 if free else zero
            e33 = zero if free else e31
            e34 = zero if e3 > zero else e33
            e35 = e32 + e34
            e36 = e33 if e3 > zero else zero
            e37 = e36 if soft else zero
            e38 = e35 + e37
            e39 = -e38
            e40 = g_e + e30
            e41 = e40 if free else zero
            e42 = zero if free else e40
            e43 = zero if e3 > zero else e42
            e44 = e41 + e43
            e45 = e42 if e3 > zero else zero
            e46 = e45 if soft else zero
            e47 = e44 + e46
            e48 = e39 + e47
            e49 = e47 * decay
            e50 = e38 * fall
            g_x_row[j] = e48
            g_v_row[j] = zero
            g_e_row[j] = e49
            g_i_row[j] = e50


def backward_sigmoid(start, stop, args):
    k, soft, free, detach, traced, stride, g_spikes, g_v_last, g_e_last, g_i_last, x_in, v_first, e_first, i_first, v_kept, e_kept, i_kept, g_v_kept, g_e_kept, g_i_kept, g_x, g_v_first, g_e_first, g_i_first = args
    zero = k[0]
    one = k[1]
    decay = k[2]
    fall = k[3]
    scale = k[4]
    share = k[5]
    threshold = k[6]
    reset = k[7]
    c0 = k[8]
    c1 = k[9]
    c2 = k[10]
    c3 = k[11]
    g_v_first[start:stop] = g_v_last[start:stop]
    g_e_first[start:stop] = g_e_last[start:stop]
    g_i_first[start:stop] = g_i_last[start:stop]
    nothing = np.zeros(stop - start, x_in.dtype)
    for t in range(x_in.shape[0] - 1, -1, -1):
        g_row, x_row, g_x_row = g_spikes[t * stride, start:stop], x_in[t, start:stop], g_x[t, start:stop]
        v_old = v_kept[t - 1, start:stop] if t > 0 else v_first[start:stop]
        g_v_row = g_v_first[start:stop]
        g_v_more = g_v_kept[t, start:stop] if traced else nothing
        e_old = e_kept[t - 1, start:stop] if t > 0 else e_first[start:stop]
        g_e_row = g_e_first[start:stop]
        g_e_more = g_e_kept[t, start:stop] if traced else nothing
        i_old = i_kept[t - 1, start:stop] if t > 0 else i_first[start:stop]
        g_i_row = g_i_first[start:stop]
        g_i_more = g_i_kept[t, start:stop] if traced else nothing
        for j in range(stop - start):
            g_spike, x = g_row[j], x_row[j]
            v = v_old[j]
            e = e_old[j]
            i = i_old[j]
            g_v = g_v_row[j] + g_v_more[j]
            g_e = g_e_row[j] + g_e_more[j]
            g_i = g_i_row[j] + g_i_more[j]
            e0 = decay * e
            e1 = e0 + x
            e2 = v - threshold
            e3 = one if e2 > zero else zero
            e4 = e1 - share
            e5 = e4 if soft else reset
            e6 = e5 if e3 > zero else e1
            e7 = e1 if free else e6
            e8 = fall * i
            e9 = e8 - x
            e10 = e9 if soft else zero
            e11 = e10 if e3 > zero else e9
            e12 = e9 if free else e11
            e13 = e7 + e12
            e14 = scale * e13
            e15 = e14 - threshold
            e16 = -e15
            e17 = max(e15, e16)
            e18 = c0 * e17
            e19 = -e18
            e20 = math.exp(e19)
            e21 = c0 * e20
            e22 = one + e20
            e23 = e22 * e22
            e24 = e21 / e23
            e25 = g_spike * e24
            e26 = g_v + e25
            e27 = e26 * scale
            e28 = g_i + e27
            e29 = e28 if free else zero
            e30 = zero if free else e28
            e31 = zero if e3 > zero else e30
            e32 = e29 + e31
            e33 = e30 if e3 > zero else zero
            e34 = e33 if soft else zero
            e35 = e32 + e34
            e36 = -e35
            e37 = g_e + e27
            e38 = e37 if free else zero
            e39 = zero if free else e37
            e40 = zero if e3 > zero else e39
            e41 = e38 + e40
            e42 = e39 if e3 > zero else zero
            e43 = e42 if soft else zero
            e44 = e41 + e43
            e45 = e36 + e44
            e46 = e44 * decay
            e47 = e35 * fall
            g_x_row[j] = e45
            g_v_row[j] = zero
            g_e_row[j] = e46
            g_i_row[j] = e47

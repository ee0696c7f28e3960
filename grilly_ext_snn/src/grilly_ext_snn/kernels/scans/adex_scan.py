"""The scans of `adex`.

Made from the description of the neuron by ``python -m grilly_ext_snn.kernels.emit``; not to be edited.
"""

# fmt: off
# ruff: noqa

import math

import numpy as np

stream_out = stream_end = None  # replaced by what the runtime compiles: see `scans_cpu`


def forward(start, stop, args):
    k, soft, free, detach, kept, streamed, x_in, v_first, w_first, spikes, v_last, w_last, v_kept, w_kept = args
    zero = k[0]
    one = k[1]
    speed = k[2]
    leak = k[3]
    rest = k[4]
    knee = k[5]
    slope = k[6]
    peak = k[7]
    recovery = k[8]
    a = k[9]
    b = k[10]
    threshold = k[11]
    reset = k[12]
    v_last[start:stop] = v_first[start:stop]
    w_last[start:stop] = w_first[start:stop]
    work = np.empty(stop - start if streamed else 0, x_in.dtype)
    for t in range(x_in.shape[0]):
        x_row = x_in[t, start:stop]
        spike_row = work if streamed else spikes[t, start:stop]
        v_row = v_last[start:stop]
        w_row = w_last[start:stop]
        for j in range(stop - start):
            x = x_row[j]
            v = v_row[j]
            w = w_row[j]
            e0 = v - knee
            e1 = e0 / slope
            e2 = min(e1, peak)
            e3 = math.exp(e2)
            e4 = slope * e3
            e5 = v - rest
            e6 = e4 - e5
            e7 = leak * e6
            e8 = e7 - w
            e9 = e8 + x
            e10 = speed * e9
            e11 = v + e10
            e12 = e11 - threshold
            e13 = one if e12 >= zero else zero
            e14 = reset if e13 > zero else e11
            e15 = a * e5
            e16 = e15 - w
            e17 = recovery * e16
            e18 = w + e17
            e19 = b * e13
            e20 = e18 + e19
            spike_row[j] = e13
            v_row[j] = e14
            w_row[j] = e20
        if kept and not streamed:
            v_kept[t, start:stop] = v_row
            w_kept[t, start:stop] = w_row
        if kept and streamed:
            stream_out(v_row, v_kept[t, start:stop])
            stream_out(w_row, w_kept[t, start:stop])
        if streamed:
            stream_out(spike_row, spikes[t, start:stop])
    if streamed:
        stream_end()


def backward(start, stop, args):
    k, soft, free, detach, traced, stride, g_spikes, g_v_last, g_w_last, x_in, v_first, w_first, v_kept, w_kept, g_v_kept, g_w_kept, g_x, g_v_first, g_w_first = args
    zero = k[0]
    one = k[1]
    speed = k[2]
    leak = k[3]
    rest = k[4]
    knee = k[5]
    slope = k[6]
    peak = k[7]
    recovery = k[8]
    a = k[9]
    b = k[10]
    threshold = k[11]
    reset = k[12]
    c0 = k[13]
    c1 = k[14]
    c2 = k[15]
    c3 = k[16]
    n0 = x_in.dtype.type(1e+18)
    g_v_first[start:stop] = g_v_last[start:stop]
    g_w_first[start:stop] = g_w_last[start:stop]
    nothing = np.zeros(stop - start, x_in.dtype)
    for t in range(x_in.shape[0] - 1, -1, -1):
        g_row, x_row, g_x_row = g_spikes[t * stride, start:stop], x_in[t, start:stop], g_x[t, start:stop]
        v_old = v_kept[t - 1, start:stop] if t > 0 else v_first[start:stop]
        g_v_row = g_v_first[start:stop]
        g_v_more = g_v_kept[t, start:stop] if traced else nothing
        w_old = w_kept[t - 1, start:stop] if t > 0 else w_first[start:stop]
        g_w_row = g_w_first[start:stop]
        g_w_more = g_w_kept[t, start:stop] if traced else nothing
        for j in range(stop - start):
            g_spike, x = g_row[j], x_row[j]
            v = v_old[j]
            w = w_old[j]
            g_v = g_v_row[j] + g_v_more[j]
            g_w = g_w_row[j] + g_w_more[j]
            e0 = v - knee
            e1 = e0 / slope
            e2 = min(e1, peak)
            e3 = math.exp(e2)
            e4 = slope * e3
            e5 = v - rest
            e6 = e4 - e5
            e7 = leak * e6
            e8 = e7 - w
            e9 = e8 + x
            e10 = speed * e9
            e11 = v + e10
            e12 = e11 - threshold
            e13 = one if e12 >= zero else zero
            e14 = zero if e13 > zero else g_v
            e15 = g_w * b
            e16 = reset - e11
            e17 = g_v * e16
            e18 = e15 + e17
            e19 = zero if detach else e18
            e20 = g_spike + e19
            e21 = -e12
            e22 = max(e12, e21)
            e23 = min(e22, n0)
            e24 = c3 * e23
            e25 = one - e24
            e26 = max(e25, zero)
            e27 = c0 * e26
            e28 = c2 * e23
            e29 = c1 + e28
            e30 = e23 * e29
            e31 = one + e30
            e32 = e27 / e31
            e33 = e20 * e32
            e34 = e14 + e33
            e35 = e34 * speed
            e36 = g_w * recovery
            e37 = e36 * a
            e38 = e35 * leak
            e39 = -e38
            e40 = e37 + e39
            e41 = e34 + e40
            e42 = one if peak > e1 else zero
            e43 = e38 * slope
            e44 = e43 * e3
            e45 = e44 if e42 > zero else zero
            e46 = e45 / slope
            e47 = e41 + e46
            e48 = -e36
            e49 = g_w + e48
            e50 = -e35
            e51 = e49 + e50
            g_x_row[j] = e35
            g_v_row[j] = e47
            g_w_row[j] = e51


def backward_sigmoid(start, stop, args):
    k, soft, free, detach, traced, stride, g_spikes, g_v_last, g_w_last, x_in, v_first, w_first, v_kept, w_kept, g_v_kept, g_w_kept, g_x, g_v_first, g_w_first = args
    zero = k[0]
    one = k[1]
    speed = k[2]
    leak = k[3]
    rest = k[4]
    knee = k[5]
    slope = k[6]
    peak = k[7]
    recovery = k[8]
    a = k[9]
    b = k[10]
    threshold = k[11]
    reset = k[12]
    c0 = k[13]
    c1 = k[14]
    c2 = k[15]
    c3 = k[16]
    g_v_first[start:stop] = g_v_last[start:stop]
    g_w_first[start:stop] = g_w_last[start:stop]
    nothing = np.zeros(stop - start, x_in.dtype)
    for t in range(x_in.shape[0] - 1, -1, -1):
        g_row, x_row, g_x_row = g_spikes[t * stride, start:stop], x_in[t, start:stop], g_x[t, start:stop]
        v_old = v_kept[t - 1, start:stop] if t > 0 else v_first[start:stop]
        g_v_row = g_v_first[start:stop]
        g_v_more = g_v_kept[t, start:stop] if traced else nothing
        w_old = w_kept[t - 1, start:stop] if t > 0 else w_first[start:stop]
        g_w_row = g_w_first[start:stop]
        g_w_more = g_w_kept[t, start:stop] if traced else nothing
        for j in range(stop - start):
            g_spike, x = g_row[j], x_row[j]
            v = v_old[j]
            w = w_old[j]
            g_v = g_v_row[j] + g_v_more[j]
            g_w = g_w_row[j] + g_w_more[j]
            e0 = v - knee
            e1 = e0 / slope
            e2 = min(e1, peak)
            e3 = math.exp(e2)
            e4 = slope * e3
            e5 = v - rest
            e6 = e4 - e5
            e7 = leak * e6
            e8 = e7 - w
            e9 = e8 + x
            e10 = speed * e9
            e11 = v + e10
            e12 = e11 - threshold
            e13 = one if e12 >= zero else zero
            e14 = zero if e13 > zero else g_v
            e15 = g_w * b
            e16 = reset - e11
            e17 = g_v * e16
            e18 = e15 + e17
            e19 = zero if detach else e18
            e20 = g_spike + e19
            e21 = -e12
            e22 = max(e12, e21)
            e23 = c0 * e22
            e24 = -e23
            e25 = math.exp(e24)
            e26 = c0 * e25
            e27 = one + e25
            e28 = e27 * e27
            e29 = e26 / e28
            e30 = e20 * e29
            e31 = e14 + e30
            e32 = e31 * speed
            e33 = g_w * recovery
            e34 = e33 * a
            e35 = e32 * leak
            e36 = -e35
            e37 = e34 + e36
            e38 = e31 + e37
            e39 = one if peak > e1 else zero
            e40 = e35 * slope
            e41 = e40 * e3
            e42 = e41 if e39 > zero else zero
            e43 = e42 / slope
            e44 = e38 + e43
            e45 = -e33
            e46 = g_w + e45
            e47 = -e32
            e48 = e46 + e47
            g_x_row[j] = e32
            g_v_row[j] = e44
            g_w_row[j] = e48

"""The scans of `alif`.

Made from the description of the neuron by ``python -m grilly_ext_snn.kernels.emit``; not to be edited.
"""

# fmt: off
# ruff: noqa

import math

import numpy as np

stream_out = stream_end = None  # replaced by what the runtime compiles: see `scans_cpu`


def forward(start, stop, args):
    k, decay_input, soft, free, detach, kept, streamed, x_in, v_first, a_first, spikes, v_last, a_last, v_kept, a_kept = args
    zero = k[0]
    one = k[1]
    rate = k[2]
    rest = k[3]
    keep = k[4]
    strength = k[5]
    threshold = k[6]
    reset = k[7]
    v_last[start:stop] = v_first[start:stop]
    a_last[start:stop] = a_first[start:stop]
    work = np.empty(stop - start if streamed else 0, x_in.dtype)
    for t in range(x_in.shape[0]):
        x_row = x_in[t, start:stop]
        spike_row = work if streamed else spikes[t, start:stop]
        v_row = v_last[start:stop]
        a_row = a_last[start:stop]
        for j in range(stop - start):
            x = x_row[j]
            v = v_row[j]
            a = a_row[j]
            e0 = v - rest
            e1 = x - e0
            e2 = e1 * rate
            e3 = v + e2
            e4 = e0 * rate
            e5 = v - e4
            e6 = e5 + x
            e7 = e3 if decay_input else e6
            e8 = strength * a
            e9 = threshold + e8
            e10 = e7 - e9
            e11 = one if e10 >= zero else zero
            e12 = e7 - threshold
            e13 = e12 if soft else reset
            e14 = e13 if e11 > zero else e7
            e15 = e7 if free else e14
            e16 = keep * a
            e17 = e16 + e11
            spike_row[j] = e11
            v_row[j] = e15
            a_row[j] = e17
        if kept and not streamed:
            v_kept[t, start:stop] = v_row
            a_kept[t, start:stop] = a_row
        if kept and streamed:
            stream_out(v_row, v_kept[t, start:stop])
            stream_out(a_row, a_kept[t, start:stop])
        if streamed:
            stream_out(spike_row, spikes[t, start:stop])
    if streamed:
        stream_end()


def backward(start, stop, args):
    k, decay_input, soft, free, detach, traced, stride, g_spikes, g_v_last, g_a_last, x_in, v_first, a_first, v_kept, a_kept, g_v_kept, g_a_kept, g_x, g_v_first, g_a_first = args
    zero = k[0]
    one = k[1]
    rate = k[2]
    rest = k[3]
    keep = k[4]
    strength = k[5]
    threshold = k[6]
    reset = k[7]
    c0 = k[8]
    c1 = k[9]
    c2 = k[10]
    c3 = k[11]
    n0 = x_in.dtype.type(1e+18)
    g_v_first[start:stop] = g_v_last[start:stop]
    g_a_first[start:stop] = g_a_last[start:stop]
    nothing = np.zeros(stop - start, x_in.dtype)
    for t in range(x_in.shape[0] - 1, -1, -1):
        g_row, x_row, g_x_row = g_spikes[t * stride, start:stop], x_in[t, start:stop], g_x[t, start:stop]
        v_old = v_kept[t - 1, start:stop] if t > 0 else v_first[start:stop]
        g_v_row = g_v_first[start:stop]
        g_v_more = g_v_kept[t, start:stop] if traced else nothing
        a_old = a_kept[t - 1, start:stop] if t > 0 else a_first[start:stop]
        g_a_row = g_a_first[start:stop]
        g_a_more = g_a_kept[t, start:stop] if traced else nothing
        for j in range(stop - start):
            g_spike, x = g_row[j], x_row[j]
            v = v_old[j]
            a = a_old[j]
            g_v = g_v_row[j] + g_v_more[j]
            g_a = g_a_row[j] + g_a_more[j]
            e0 = g_v if free else zero
            e1 = v - rest
            e2 = x - e1
            e3 = e2 * rate
            e4 = v + e3
            e5 = e1 * rate
            e6 = v - e5
            e7 = e6 + x
            e8 = e4 if decay_input else e7
            e9 = strength * a
            e10 = threshold + e9
            e11 = e8 - e10
            e12 = one if e11 >= zero else zero
            e13 = zero if free else g_v
            e14 = zero if e12 > zero else e13
            e15 = e0 + e14
            e16 = e13 if e12 > zero else zero
            e17 = e16 if soft else zero
            e18 = e15 + e17
            e19 = e8 - threshold
            e20 = e19 if soft else reset
            e21 = e20 - e8
            e22 = e13 * e21
            e23 = g_a + e22
            e24 = zero if detach else e23
            e25 = g_spike + e24
            e26 = -e11
            e27 = max(e11, e26)
            e28 = min(e27, n0)
            e29 = c3 * e28
            e30 = one - e29
            e31 = max(e30, zero)
            e32 = c0 * e31
            e33 = c2 * e28
            e34 = c1 + e33
            e35 = e28 * e34
            e36 = one + e35
            e37 = e32 / e36
            e38 = e25 * e37
            e39 = e18 + e38
            e40 = zero if decay_input else e39
            e41 = e39 if decay_input else zero
            e42 = e41 * rate
            e43 = e40 + e42
            e44 = e40 + e41
            e45 = -e40
            e46 = e45 * rate
            e47 = -e42
            e48 = e46 + e47
            e49 = e44 + e48
            e50 = g_a * keep
            e51 = -e38
            e52 = e51 * strength
            e53 = e50 + e52
            g_x_row[j] = e43
            g_v_row[j] = e49
            g_a_row[j] = e53


def backward_sigmoid(start, stop, args):
    k, decay_input, soft, free, detach, traced, stride, g_spikes, g_v_last, g_a_last, x_in, v_first, a_first, v_kept, a_kept, g_v_kept, g_a_kept, g_x, g_v_first, g_a_first = args
    zero = k[0]
    one = k[1]
    rate = k[2]
    rest = k[3]
    keep = k[4]
    strength = k[5]
    threshold = k[6]
    reset = k[7]
    c0 = k[8]
    c1 = k[9]
    c2 = k[10]
    c3 = k[11]
    g_v_first[start:stop] = g_v_last[start:stop]
    g_a_first[start:stop] = g_a_last[start:stop]
    nothing = np.zeros(stop - start, x_in.dtype)
    for t in range(x_in.shape[0] - 1, -1, -1):
        g_row, x_row, g_x_row = g_spikes[t * stride, start:stop], x_in[t, start:stop], g_x[t, start:stop]
        v_old = v_kept[t - 1, start:stop] if t > 0 else v_first[start:stop]
        g_v_row = g_v_first[start:stop]
        g_v_more = g_v_kept[t, start:stop] if traced else nothing
        a_old = a_kept[t - 1, start:stop] if t > 0 else a_first[start:stop]
        g_a_row = g_a_first[start:stop]
        g_a_more = g_a_kept[t, start:stop] if traced else nothing
        for j in range(stop - start):
            g_spike, x = g_row[j], x_row[j]
            v = v_old[j]
            a = a_old[j]
            g_v = g_v_row[j] + g_v_more[j]
            g_a = g_a_row[j] + g_a_more[j]
            e0 = g_v if free else zero
            e1 = v - rest
            e2 = x - e1
            e3 = e2 * rate
            e4 = v + e3
            e5 = e1 * rate
            e6 = v - e5
            e7 = e6 + x
            e8 = e4 if decay_input else e7
            e9 = strength * a
            e10 = threshold + e9
            e11 = e8 - e10
            e12 = one if e11 >= zero else zero
            e13 = zero if free else g_v
            e14 = zero if e12 > zero else e13
            e15 = e0 + e14
            e16 = e13 if e12 > zero else zero
            e17 = e16 if soft else zero
            e18 = e15 + e17
            e19 = e8 - threshold
            e20 = e19 if soft else reset
            e21 = e20 - e8
            e22 = e13 * e21
            e23 = g_a + e22
            e24 = zero if detach else e23
            e25 = g_spike + e24
            e26 = -e11
            e27 = max(e11, e26)
            e28 = c0 * e27
            e29 = -e28
            e30 = math.exp(e29)
            e31 = c0 * e30
            e32 = one + e30
            e33 = e32 * e32
            e34 = e31 / e33
            e35 = e25 * e34
            e36 = e18 + e35
            e37 = zero if decay_input else e36
            e38 = e36 if decay_input else zero
            e39 = e38 * rate
            e40 = e37 + e39
            e41 = e37 + e38
            e42 = -e37
            e43 = e42 * rate
            e44 = -e39
            e45 = e43 + e44
            e46 = e41 + e45
            e47 = g_a * keep
            e48 = -e35
            e49 = e48 * strength
            e50 = e47 + e49
            g_x_row[j] = e40
            g_v_row[j] = e46
            g_a_row[j] = e50

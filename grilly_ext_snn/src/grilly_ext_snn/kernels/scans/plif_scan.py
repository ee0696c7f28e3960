"""The scans of `plif`.

Made from the description of the neuron by ``python -m grilly_ext_snn.kernels.emit``; not to be edited.
"""

# fmt: off
# ruff: noqa

import math

import numpy as np

stream_out = stream_end = None  # replaced by what the runtime compiles: see `scans_cpu`


def forward(start, stop, args):
    k, decay_input, soft, free, detach, kept, streamed, x_in, v_first, rate_in, spikes, v_last, v_kept = args
    zero = k[0]
    one = k[1]
    rest = k[2]
    threshold = k[3]
    reset = k[4]
    v_last[start:stop] = v_first[start:stop]
    work = np.empty(stop - start if streamed else 0, x_in.dtype)
    for t in range(x_in.shape[0]):
        x_row = x_in[t, start:stop]
        spike_row = work if streamed else spikes[t, start:stop]
        v_row = v_last[start:stop]
        rate_row = rate_in[start:stop]
        for j in range(stop - start):
            x = x_row[j]
            v = v_row[j]
            rate = rate_row[j]
            e0 = v - rest
            e1 = x - e0
            e2 = e1 * rate
            e3 = v + e2
            e4 = e0 * rate
            e5 = v - e4
            e6 = e5 + x
            e7 = e3 if decay_input else e6
            e8 = e7 - threshold
            e9 = one if e8 >= zero else zero
            e10 = e8 if soft else reset
            e11 = e10 if e9 > zero else e7
            e12 = e7 if free else e11
            spike_row[j] = e9
            v_row[j] = e12
        if kept and not streamed:
            v_kept[t, start:stop] = v_row
        if kept and streamed:
            stream_out(v_row, v_kept[t, start:stop])
        if streamed:
            stream_out(spike_row, spikes[t, start:stop])
    if streamed:
        stream_end()


def backward(start, stop, args):
    k, decay_input, soft, free, detach, traced, stride, g_spikes, g_v_last, x_in, v_first, v_kept, rate_in, g_v_kept, g_x, g_v_first, g_rate_out = args
    zero = k[0]
    one = k[1]
    rest = k[2]
    threshold = k[3]
    reset = k[4]
    c0 = k[5]
    c1 = k[6]
    c2 = k[7]
    c3 = k[8]
    n0 = x_in.dtype.type(1e+18)
    g_v_first[start:stop] = g_v_last[start:stop]
    g_rate_out[start:stop] = zero
    nothing = np.zeros(stop - start, x_in.dtype)
    for t in range(x_in.shape[0] - 1, -1, -1):
        g_row, x_row, g_x_row = g_spikes[t * stride, start:stop], x_in[t, start:stop], g_x[t, start:stop]
        v_old = v_kept[t - 1, start:stop] if t > 0 else v_first[start:stop]
        g_v_row = g_v_first[start:stop]
        g_v_more = g_v_kept[t, start:stop] if traced else nothing
        rate_row, g_rate_row = rate_in[start:stop], g_rate_out[start:stop]
        for j in range(stop - start):
            g_spike, x = g_row[j], x_row[j]
            v = v_old[j]
            g_v = g_v_row[j] + g_v_more[j]
            rate = rate_row[j]
            e0 = g_v if free else zero
            e1 = v - rest
            e2 = x - e1
            e3 = e2 * rate
            e4 = v + e3
            e5 = e1 * rate
            e6 = v - e5
            e7 = e6 + x
            e8 = e4 if decay_input else e7
            e9 = e8 - threshold
            e10 = one if e9 >= zero else zero
            e11 = zero if free else g_v
            e12 = zero if e10 > zero else e11
            e13 = e0 + e12
            e14 = e11 if e10 > zero else zero
            e15 = e14 if soft else zero
            e16 = e9 if soft else reset
            e17 = e16 - e8
            e18 = e11 * e17
            e19 = zero if detach else e18
            e20 = g_spike + e19
            e21 = -e9
            e22 = max(e9, e21)
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
            e34 = e15 + e33
            e35 = e13 + e34
            e36 = zero if decay_input else e35
            e37 = e35 if decay_input else zero
            e38 = e37 * rate
            e39 = e36 + e38
            e40 = e36 + e37
            e41 = -e36
            e42 = e41 * rate
            e43 = -e38
            e44 = e42 + e43
            e45 = e40 + e44
            e46 = e41 * e1
            e47 = e37 * e2
            e48 = e46 + e47
            g_x_row[j] = e39
            g_v_row[j] = e45
            g_rate_row[j] += e48


def backward_sigmoid(start, stop, args):
    k, decay_input, soft, free, detach, traced, stride, g_spikes, g_v_last, x_in, v_first, v_kept, rate_in, g_v_kept, g_x, g_v_first, g_rate_out = args
    zero = k[0]
    one = k[1]
    rest = k[2]
    threshold = k[3]
    reset = k[4]
    c0 = k[5]
    c1 = k[6]
    c2 = k[7]
    c3 = k[8]
    g_v_first[start:stop] = g_v_last[start:stop]
    g_rate_out[start:stop] = zero
    nothing = np.zeros(stop - start, x_in.dtype)
    for t in range(x_in.shape[0] - 1, -1, -1):
        g_row, x_row, g_x_row = g_spikes[t * stride, start:stop], x_in[t, start:stop], g_x[t, start:stop]
        v_old = v_kept[t - 1, start:stop] if t > 0 else v_first[start:stop]
        g_v_row = g_v_first[start:stop]
        g_v_more = g_v_kept[t, start:stop] if traced else nothing
        rate_row, g_rate_row = rate_in[start:stop], g_rate_out[start:stop]
        for j in range(stop - start):
            g_spike, x = g_row[j], x_row[j]
            v = v_old[j]
            g_v = g_v_row[j] + g_v_more[j]
            rate = rate_row[j]
            e0 = g_v if free else zero
            e1 = v - rest
            e2 = x - e1
            e3 = e2 * rate
            e4 = v + e3
            e5 = e1 * rate
            e6 = v - e5
            e7 = e6 + x
            e8 = e4 if decay_input else e7
            e9 = e8 - threshold
            e10 = one if e9 >= zero else zero
            e11 = zero if free else g_v
            e12 = zero if e10 > zero else e11
            e13 = e0 + e12
            e14 = e11 if e10 > zero else zero
            e15 = e14 if soft else zero
            e16 = e9 if soft else reset
            e17 = e16 - e8
            e18 = e11 * e17
            e19 = zero if detach else e18
            e20 = g_spike + e19
            e21 = -e9
            e22 = max(e9, e21)
            e23 = c0 * e22
            e24 = -e23
            e25 = math.exp(e24)
            e26 = c0 * e25
            e27 = one + e25
            e28 = e27 * e27
            e29 = e26 / e28
            e30 = e20 * e29
            e31 = e15 + e30
            e32 = e13 + e31
            e33 = zero if decay_input else e32
            e34 = e32 if decay_input else zero
            e35 = e34 * rate
            e36 = e33 + e35
            e37 = e33 + e34
            e38 = -e33
            e39 = e38 * rate
            e40 = -e35
            e41 = e39 + e40
            e42 = e37 + e41
            e43 = e38 * e1
            e44 = e34 * e2
            e45 = e43 + e44
            g_x_row[j] = e36
            g_v_row[j] = e42
            g_rate_row[j] += e45

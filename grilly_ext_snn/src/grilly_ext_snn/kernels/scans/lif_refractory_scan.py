"""The scans of `lif_refractory`.

Made from the description of the neuron by ``python -m grilly_ext_snn.kernels.emit``; not to be edited.
"""

# fmt: off
# ruff: noqa

import math

import numpy as np

stream_out = stream_end = None  # replaced by what the runtime compiles: see `scans_cpu`


def forward(start, stop, args):
    k, soft, free, detach, kept, streamed, x_in, v_first, wait_first, spikes, v_last, wait_last, v_kept, wait_kept = args
    zero = k[0]
    one = k[1]
    rate = k[2]
    rest = k[3]
    r = k[4]
    dt = k[5]
    period = k[6]
    threshold = k[7]
    reset = k[8]
    n0 = x_in.dtype.type(0.015625)
    v_last[start:stop] = v_first[start:stop]
    wait_last[start:stop] = wait_first[start:stop]
    work = np.empty(stop - start if streamed else 0, x_in.dtype)
    for t in range(x_in.shape[0]):
        x_row = x_in[t, start:stop]
        spike_row = work if streamed else spikes[t, start:stop]
        v_row = v_last[start:stop]
        wait_row = wait_last[start:stop]
        for j in range(stop - start):
            x = x_row[j]
            v = v_row[j]
            wait = wait_row[j]
            e0 = dt * n0
            e1 = one if wait > e0 else zero
            e2 = r * x
            e3 = v - rest
            e4 = e2 - e3
            e5 = e4 * rate
            e6 = v + e5
            e7 = reset if e1 > zero else e6
            e8 = e7 - threshold
            e9 = one if e8 >= zero else zero
            e10 = zero if e1 > zero else e9
            e11 = e8 if soft else reset
            e12 = e11 if e10 > zero else e7
            e13 = e7 if free else e12
            e14 = wait - dt
            e15 = max(e14, zero)
            e16 = period if e10 > zero else e15
            spike_row[j] = e10
            v_row[j] = e13
            wait_row[j] = e16
        if kept and not streamed:
            v_kept[t, start:stop] = v_row
            wait_kept[t, start:stop] = wait_row
        if kept and streamed:
            stream_out(v_row, v_kept[t, start:stop])
            stream_out(wait_row, wait_kept[t, start:stop])
        if streamed:
            stream_out(spike_row, spikes[t, start:stop])
    if streamed:
        stream_end()


def backward(start, stop, args):
    k, soft, free, detach, traced, stride, g_spikes, g_v_last, g_wait_last, x_in, v_first, wait_first, v_kept, wait_kept, g_v_kept, g_wait_kept, g_x, g_v_first, g_wait_first = args
    zero = k[0]
    one = k[1]
    rate = k[2]
    rest = k[3]
    r = k[4]
    dt = k[5]
    period = k[6]
    threshold = k[7]
    reset = k[8]
    c0 = k[9]
    c1 = k[10]
    c2 = k[11]
    c3 = k[12]
    n0 = x_in.dtype.type(0.015625)
    n1 = x_in.dtype.type(1e+18)
    g_v_first[start:stop] = g_v_last[start:stop]
    g_wait_first[start:stop] = g_wait_last[start:stop]
    nothing = np.zeros(stop - start, x_in.dtype)
    for t in range(x_in.shape[0] - 1, -1, -1):
        g_row, x_row, g_x_row = g_spikes[t * stride, start:stop], x_in[t, start:stop], g_x[t, start:stop]
        v_old = v_kept[t - 1, start:stop] if t > 0 else v_first[start:stop]
        g_v_row = g_v_first[start:stop]
        g_v_more = g_v_kept[t, start:stop] if traced else nothing
        wait_old = wait_kept[t - 1, start:stop] if t > 0 else wait_first[start:stop]
        g_wait_row = g_wait_first[start:stop]
        g_wait_more = g_wait_kept[t, start:stop] if traced else nothing
        for j in range(stop - start):
            g_spike, x = g_row[j], x_row[j]
            v = v_old[j]
            wait = wait_old[j]
            g_v = g_v_row[j] + g_v_more[j]
            g_wait = g_wait_row[j] + g_wait_more[j]
            e0 = dt * n0
            e1 = one if wait > e0 else zero
            e2 = g_v if free else zero
            e3 = r * x
            e4 = v - rest
            e5 = e3 - e4
            e6 = e5 * rate
            e7 = v + e6
            e8 = reset if e1 > zero else e7
            e9 = e8 - threshold
            e10 = one if e9 >= zero else zero
            e11 = zero if e1 > zero else e10
            e12 = zero if free else g_v
            e13 = zero if e11 > zero else e12
            e14 = e2 + e13
            e15 = e12 if e11 > zero else zero
            e16 = e15 if soft else zero
            e17 = e9 if soft else reset
            e18 = e17 - e8
            e19 = e12 * e18
            e20 = zero if detach else e19
            e21 = g_spike + e20
            e22 = zero if e1 > zero else e21
            e23 = -e9
            e24 = max(e9, e23)
            e25 = min(e24, n1)
            e26 = c3 * e25
            e27 = one - e26
            e28 = max(e27, zero)
            e29 = c0 * e28
            e30 = c2 * e25
            e31 = c1 + e30
            e32 = e25 * e31
            e33 = one + e32
            e34 = e29 / e33
            e35 = e22 * e34
            e36 = e16 + e35
            e37 = e14 + e36
            e38 = zero if e1 > zero else e37
            e39 = e38 * rate
            e40 = e39 * r
            e41 = -e39
            e42 = e38 + e41
            e43 = wait - dt
            e44 = one if e43 > zero else zero
            e45 = zero if e11 > zero else g_wait
            e46 = e45 if e44 > zero else zero
            g_x_row[j] = e40
            g_v_row[j] = e42
            g_wait_row[j] = e46


def backward_sigmoid(start, stop, args):
    k, soft, free, detach, traced, stride, g_spikes, g_v_last, g_wait_last, x_in, v_first, wait_first, v_kept, wait_kept, g_v_kept, g_wait_kept, g_x, g_v_first, g_wait_first = args
    zero = k[0]
    one = k[1]
    rate = k[2]
    rest = k[3]
    r = k[4]
    dt = k[5]
    period = k[6]
    threshold = k[7]
    reset = k[8]
    c0 = k[9]
    c1 = k[10]
    c2 = k[11]
    c3 = k[12]
    n0 = x_in.dtype.type(0.015625)
    g_v_first[start:stop] = g_v_last[start:stop]
    g_wait_first[start:stop] = g_wait_last[start:stop]
    nothing = np.zeros(stop - start, x_in.dtype)
    for t in range(x_in.shape[0] - 1, -1, -1):
        g_row, x_row, g_x_row = g_spikes[t * stride, start:stop], x_in[t, start:stop], g_x[t, start:stop]
        v_old = v_kept[t - 1, start:stop] if t > 0 else v_first[start:stop]
        g_v_row = g_v_first[start:stop]
        g_v_more = g_v_kept[t, start:stop] if traced else nothing
        wait_old = wait_kept[t - 1, start:stop] if t > 0 else wait_first[start:stop]
        g_wait_row = g_wait_first[start:stop]
        g_wait_more = g_wait_kept[t, start:stop] if traced else nothing
        for j in range(stop - start):
            g_spike, x = g_row[j], x_row[j]
            v = v_old[j]
            wait = wait_old[j]
            g_v = g_v_row[j] + g_v_more[j]
            g_wait = g_wait_row[j] + g_wait_more[j]
            e0 = dt * n0
            e1 = one if wait > e0 else zero
            e2 = g_v if free else zero
            e3 = r * x
            e4 = v - rest
            e5 = e3 - e4
            e6 = e5 * rate
            e7 = v + e6
            e8 = reset if e1 > zero else e7
            e9 = e8 - threshold
            e10 = one if e9 >= zero else zero
            e11 = zero if e1 > zero else e10
            e12 = zero if free else g_v
            e13 = zero if e11 > zero else e12
            e14 = e2 + e13
            e15 = e12 if e11 > zero else zero
            e16 = e15 if soft else zero
            e17 = e9 if soft else reset
            e18 = e17 - e8
            e19 = e12 * e18
            e20 = zero if detach else e19
            e21 = g_spike + e20
            e22 = zero if e1 > zero else e21
            e23 = -e9
            e24 = max(e9, e23)
            e25 = c0 * e24
            e26 = -e25
            e27 = math.exp(e26)
            e28 = c0 * e27
            e29 = one + e27
            e30 = e29 * e29
            e31 = e28 / e30
            e32 = e22 * e31
            e33 = e16 + e32
            e34 = e14 + e33
            e35 = zero if e1 > zero else e34
            e36 = e35 * rate
            e37 = e36 * r
            e38 = -e36
            e39 = e35 + e38
            e40 = wait - dt
            e41 = one if e40 > zero else zero
            e42 = zero if e11 > zero else g_wait
            e43 = e42 if e41 > zero else zero
            g_x_row[j] = e37
            g_v_row[j] = e39
            g_wait_row[j] = e43

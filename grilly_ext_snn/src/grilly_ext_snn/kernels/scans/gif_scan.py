"""The scans of `gif`.

Made from the description of the neuron by ``python -m grilly_ext_snn.kernels.emit``; not to be edited.
"""

# fmt: off
# ruff: noqa

import math

import numpy as np

stream_out = stream_end = None  # replaced by what the runtime compiles: see `scans_cpu`


def forward(start, stop, args):
    k, soft, free, detach, kept, streamed, x_in, v_first, a_first, wait_first, spikes, v_last, a_last, wait_last, v_kept, a_kept, wait_kept = args
    zero = k[0]
    one = k[1]
    rate = k[2]
    rest = k[3]
    r = k[4]
    dt = k[5]
    period = k[6]
    keep = k[7]
    jump = k[8]
    coupling = k[9]
    threshold = k[10]
    reset = k[11]
    n0 = x_in.dtype.type(0.015625)
    v_last[start:stop] = v_first[start:stop]
    a_last[start:stop] = a_first[start:stop]
    wait_last[start:stop] = wait_first[start:stop]
    work = np.empty(stop - start if streamed else 0, x_in.dtype)
    for t in range(x_in.shape[0]):
        x_row = x_in[t, start:stop]
        spike_row = work if streamed else spikes[t, start:stop]
        v_row = v_last[start:stop]
        a_row = a_last[start:stop]
        wait_row = wait_last[start:stop]
        for j in range(stop - start):
            x = x_row[j]
            v = v_row[j]
            a = a_row[j]
            wait = wait_row[j]
            e0 = dt * n0
            e1 = one if wait > e0 else zero
            e2 = r * x
            e3 = v - rest
            e4 = e2 - e3
            e5 = e4 * rate
            e6 = v + e5
            e7 = coupling * a
            e8 = e6 - e7
            e9 = reset if e1 > zero else e8
            e10 = e9 - threshold
            e11 = one if e10 >= zero else zero
            e12 = zero if e1 > zero else e11
            e13 = e10 if soft else reset
            e14 = e13 if e12 > zero else e9
            e15 = e9 if free else e14
            e16 = keep * a
            e17 = jump * e12
            e18 = e16 + e17
            e19 = wait - dt
            e20 = max(e19, zero)
            e21 = period if e12 > zero else e20
            spike_row[j] = e12
            v_row[j] = e15
            a_row[j] = e18
            wait_row[j] = e21
        if kept and not streamed:
            v_kept[t, start:stop] = v_row
            a_kept[t, start:stop] = a_row
            wait_kept[t, start:stop] = wait_row
        if kept and streamed:
            stream_out(v_row, v_kept[t, start:stop])
            stream_out(a_row, a_kept[t, start:stop])
            stream_out(wait_row, wait_kept[t, start:stop])
        if streamed:
            stream_out(spike_row, spikes[t, start:stop])
    if streamed:
        stream_end()


def backward(start, stop, args):
    k, soft, free, detach, traced, stride, g_spikes, g_v_last, g_a_last, g_wait_last, x_in, v_first, a_first, wait_first, v_kept, a_kept, wait_kept, g_v_kept, g_a_kept, g_wait_kept, g_x, g_v_first, g_a_first, g_wait_first = args
    zero = k[0]
    one = k[1]
    rate = k[2]
    rest = k[3]
    r = k[4]
    dt = k[5]
    period = k[6]
    keep = k[7]
    jump = k[8]
    coupling = k[9]
    threshold = k[10]
    reset = k[11]
    c0 = k[12]
    c1 = k[13]
    c2 = k[14]
    c3 = k[15]
    n0 = x_in.dtype.type(0.015625)
    n1 = x_in.dtype.type(1e+18)
    g_v_first[start:stop] = g_v_last[start:stop]
    g_a_first[start:stop] = g_a_last[start:stop]
    g_wait_first[start:stop] = g_wait_last[start:stop]
    nothing = np.zeros(stop - start, x_in.dtype)
    for t in range(x_in.shape[0] - 1, -1, -1):
        g_row, x_row, g_x_row = g_spikes[t * stride, start:stop], x_in[t, start:stop], g_x[t, start:stop]
        v_old = v_kept[t - 1, start:stop] if t > 0 else v_first[start:stop]
        g_v_row = g_v_first[start:stop]
        g_v_more = g_v_kept[t, start:stop] if traced else nothing
        a_old = a_kept[t - 1, start:stop] if t > 0 else a_first[start:stop]
        g_a_row = g_a_first[start:stop]
        g_a_more = g_a_kept[t, start:stop] if traced else nothing
        wait_old = wait_kept[t - 1, start:stop] if t > 0 else wait_first[start:stop]
        g_wait_row = g_wait_first[start:stop]
        g_wait_more = g_wait_kept[t, start:stop] if traced else nothing
        for j in range(stop - start):
            g_spike, x = g_row[j], x_row[j]
            v = v_old[j]
            a = a_old[j]
            wait = wait_old[j]
            g_v = g_v_row[j] + g_v_more[j]
            g_a = g_a_row[j] + g_a_more[j]
            g_wait = g_wait_row[j] + g_wait_more[j]
            e0 = dt * n0
            e1 = one if wait > e0 else zero
            e2 = g_v if free else zero
            e3 = r * x
            e4 = v - rest
            e5 = e3 - e4
            e6 = e5 * rate
            e7 = v + e6
            e8 = coupling * a
            e9 = e7 - e8
            e10 = reset if e1 > zero else e9
            e11 = e10 - threshold
            e12 = one if e11 >= zero else zero
            e13 = zero if e1 > zero else e12
            e14 = zero if free else g_v
            e15 = zero if e13 > zero else e14
            e16 = e2 + e15
            e17 = e14 if e13 > zero else zero
            e18 = e17 if soft else zero
            e19 = g_a * jump
            e20 = e11 if soft else reset
            e21 = e20 - e10
            e22 = e14 * e21
            e23 = e19 + e22
            e24 = zero if detach else e23
            e25 = g_spike + e24
            e26 = zero if e1 > zero else e25
            e27 = -e11
            e28 = max(e11, e27)
            e29 = min(e28, n1)
            e30 = c3 * e29
            e31 = one - e30
            e32 = max(e31, zero)
            e33 = c0 * e32
            e34 = c2 * e29
            e35 = c1 + e34
            e36 = e29 * e35
            e37 = one + e36
            e38 = e33 / e37
            e39 = e26 * e38
            e40 = e18 + e39
            e41 = e16 + e40
            e42 = zero if e1 > zero else e41
            e43 = e42 * rate
            e44 = e43 * r
            e45 = -e43
            e46 = e42 + e45
            e47 = g_a * keep
            e48 = -e42
            e49 = e48 * coupling
            e50 = e47 + e49
            e51 = wait - dt
            e52 = one if e51 > zero else zero
            e53 = zero if e13 > zero else g_wait
            e54 = e53 if e52 > zero else zero
            g_x_row[j] = e44
            g_v_row[j] = e46
            g_a_row[j] = e50
            g_wait_row[j] = e54


def backward_sigmoid(start, stop, args):
    k, soft, free, detach, traced, stride, g_spikes, g_v_last, g_a_last, g_wait_last, x_in, v_first, a_first, wait_first, v_kept, a_kept, wait_kept, g_v_kept, g_a_kept, g_wait_kept, g_x, g_v_first, g_a_first, g_wait_first = args
    zero = k[0]
    one = k[1]
    rate = k[2]
    rest = k[3]
    r = k[4]
    dt = k[5]
    period = k[6]
    keep = k[7]
    jump = k[8]
    coupling = k[9]
    threshold = k[10]
    reset = k[11]
    c0 = k[12]
    c1 = k[13]
    c2 = k[14]
    c3 = k[15]
    n0 = x_in.dtype.type(0.015625)
    g_v_first[start:stop] = g_v_last[start:stop]
    g_a_first[start:stop] = g_a_last[start:stop]
    g_wait_first[start:stop] = g_wait_last[start:stop]
    nothing = np.zeros(stop - start, x_in.dtype)
    for t in range(x_in.shape[0] - 1, -1, -1):
        g_row, x_row, g_x_row = g_spikes[t * stride, start:stop], x_in[t, start:stop], g_x[t, start:stop]
        v_old = v_kept[t - 1, start:stop] if t > 0 else v_first[start:stop]
        g_v_row = g_v_first[start:stop]
        g_v_more = g_v_kept[t, start:stop] if traced else nothing
        a_old = a_kept[t - 1, start:stop] if t > 0 else a_first[start:stop]
        g_a_row = g_a_first[start:stop]
        g_a_more = g_a_kept[t, start:stop] if traced else nothing
        wait_old = wait_kept[t - 1, start:stop] if t > 0 else wait_first[start:stop]
        g_wait_row = g_wait_first[start:stop]
        g_wait_more = g_wait_kept[t, start:stop] if traced else nothing
        for j in range(stop - start):
            g_spike, x = g_row[j], x_row[j]
            v = v_old[j]
            a = a_old[j]
            wait = wait_old[j]
            g_v = g_v_row[j] + g_v_more[j]
            g_a = g_a_row[j] + g_a_more[j]
            g_wait = g_wait_row[j] + g_wait_more[j]
            e0 = dt * n0
            e1 = one if wait > e0 else zero
            e2 = g_v if free else zero
            e3 = r * x
            e4 = v - rest
            e5 = e3 - e4
            e6 = e5 * rate
            e7 = v + e6
            e8 = coupling * a
            e9 = e7 - e8
            e10 = reset if e1 > zero else e9
            e11 = e10 - threshold
            e12 = one if e11 >= zero else zero
            e13 = zero if e1 > zero else e12
            e14 = zero if free else g_v
            e15 = zero if e13 > zero else e14
            e16 = e2 + e15
            e17 = e14 if e13 > zero else zero
            e18 = e17 if soft else zero
            e19 = g_a * jump
            e20 = e11 if soft else reset
            e21 = e20 - e10
            e22 = e14 * e21
            e23 = e19 + e22
            e24 = zero if detach else e23
            e25 = g_spike + e24
            e26 = zero if e1 > zero else e25
            e27 = -e11
            e28 = max(e11, e27)
            e29 = c0 * e28
            e30 = -e29
            e31 = math.exp(e30)
            e32 = c0 * e31
            e33 = one + e31
            e34 = e33 * e33
            e35 = e32 / e34
            e36 = e26 * e35
            e37 = e18 + e36
            e38 = e16 + e37
            e39 = zero if e1 > zero else e38
            e40 = e39 * rate
            e41 = e40 * r
            e42 = -e40
            e43 = e39 + e42
            e44 = g_a * keep
            e45 = -e39
            e46 = e45 * coupling
            e47 = e44 + e46
            e48 = wait - dt
            e49 = one if e48 > zero else zero
            e50 = zero if e13 > zero else g_wait
            e51 = e50 if e49 > zero else zero
            g_x_row[j] = e41
            g_v_row[j] = e43
            g_a_row[j] = e47
            g_wait_row[j] = e51

"""The scans of `izhikevich`.

Made from the description of the neuron by ``python -m grilly_ext_snn.kernels.emit``; not to be edited.
"""

# fmt: off
# ruff: noqa

import math

import numpy as np

stream_out = stream_end = None  # replaced by what the runtime compiles: see `scans_cpu`


def forward(start, stop, args):
    k, soft, free, detach, kept, streamed, x_in, v_first, u_first, spikes, v_last, u_last, v_kept, u_kept = args
    zero = k[0]
    one = k[1]
    dt = k[2]
    a = k[3]
    b = k[4]
    d = k[5]
    threshold = k[6]
    reset = k[7]
    n0 = x_in.dtype.type(0.04)
    n1 = x_in.dtype.type(5.0)
    n2 = x_in.dtype.type(140.0)
    v_last[start:stop] = v_first[start:stop]
    u_last[start:stop] = u_first[start:stop]
    work = np.empty(stop - start if streamed else 0, x_in.dtype)
    for t in range(x_in.shape[0]):
        x_row = x_in[t, start:stop]
        spike_row = work if streamed else spikes[t, start:stop]
        v_row = v_last[start:stop]
        u_row = u_last[start:stop]
        for j in range(stop - start):
            x = x_row[j]
            v = v_row[j]
            u = u_row[j]
            e0 = v * v
            e1 = e0 * n0
            e2 = v * n1
            e3 = e1 + e2
            e4 = e3 + n2
            e5 = e4 - u
            e6 = e5 + x
            e7 = dt * e6
            e8 = v + e7
            e9 = e8 - threshold
            e10 = one if e9 >= zero else zero
            e11 = reset if e10 > zero else e8
            e12 = dt * a
            e13 = b * v
            e14 = e13 - u
            e15 = e12 * e14
            e16 = u + e15
            e17 = d * e10
            e18 = e16 + e17
            spike_row[j] = e10
            v_row[j] = e11
            u_row[j] = e18
        if kept and not streamed:
            v_kept[t, start:stop] = v_row
            u_kept[t, start:stop] = u_row
        if kept and streamed:
            stream_out(v_row, v_kept[t, start:stop])
            stream_out(u_row, u_kept[t, start:stop])
        if streamed:
            stream_out(spike_row, spikes[t, start:stop])
    if streamed:
        stream_end()


def backward(start, stop, args):
    k, soft, free, detach, traced, stride, g_spikes, g_v_last, g_u_last, x_in, v_first, u_first, v_kept, u_kept, g_v_kept, g_u_kept, g_x, g_v_first, g_u_first = args
    zero = k[0]
    one = k[1]
    dt = k[2]
    a = k[3]
    b = k[4]
    d = k[5]
    threshold = k[6]
    reset = k[7]
    c0 = k[8]
    c1 = k[9]
    c2 = k[10]
    c3 = k[11]
    n0 = x_in.dtype.type(0.04)
    n1 = x_in.dtype.type(5.0)
    n2 = x_in.dtype.type(140.0)
    n3 = x_in.dtype.type(1e+18)
    g_v_first[start:stop] = g_v_last[start:stop]
    g_u_first[start:stop] = g_u_last[start:stop]
    nothing = np.zeros(stop - start, x_in.dtype)
    for t in range(x_in.shape[0] - 1, -1, -1):
        g_row, x_row, g_x_row = g_spikes[t * stride, start:stop], x_in[t, start:stop], g_x[t, start:stop]
        v_old = v_kept[t - 1, start:stop] if t > 0 else v_first[start:stop]
        g_v_row = g_v_first[start:stop]
        g_v_more = g_v_kept[t, start:stop] if traced else nothing
        u_old = u_kept[t - 1, start:stop] if t > 0 else u_first[start:stop]
        g_u_row = g_u_first[start:stop]
        g_u_more = g_u_kept[t, start:stop] if traced else nothing
        for j in range(stop - start):
            g_spike, x = g_row[j], x_row[j]
            v = v_old[j]
            u = u_old[j]
            g_v = g_v_row[j] + g_v_more[j]
            g_u = g_u_row[j] + g_u_more[j]
            e0 = v * v
            e1 = e0 * n0
            e2 = v * n1
            e3 = e1 + e2
            e4 = e3 + n2
            e5 = e4 - u
            e6 = e5 + x
            e7 = dt * e6
            e8 = v + e7
            e9 = e8 - threshold
            e10 = one if e9 >= zero else zero
            e11 = zero if e10 > zero else g_v
            e12 = g_u * d
            e13 = reset - e8
            e14 = g_v * e13
            e15 = e12 + e14
            e16 = zero if detach else e15
            e17 = g_spike + e16
            e18 = -e9
            e19 = max(e9, e18)
            e20 = min(e19, n3)
            e21 = c3 * e20
            e22 = one - e21
            e23 = max(e22, zero)
            e24 = c0 * e23
            e25 = c2 * e20
            e26 = c1 + e25
            e27 = e20 * e26
            e28 = one + e27
            e29 = e24 / e28
            e30 = e17 * e29
            e31 = e11 + e30
            e32 = e31 * dt
            e33 = dt * a
            e34 = g_u * e33
            e35 = e34 * b
            e36 = e35 + e31
            e37 = e32 * n1
            e38 = e36 + e37
            e39 = e32 * n0
            e40 = e39 * v
            e41 = e38 + e40
            e42 = e41 + e40
            e43 = -e34
            e44 = g_u + e43
            e45 = -e32
            e46 = e44 + e45
            g_x_row[j] = e32
            g_v_row[j] = e42
            g_u_row[j] = e46


def backward_sigmoid(start, stop, args):
    k, soft, free, detach, traced, stride, g_spikes, g_v_last, g_u_last, x_in, v_first, u_first, v_kept, u_kept, g_v_kept, g_u_kept, g_x, g_v_first, g_u_first = args
    zero = k[0]
    one = k[1]
    dt = k[2]
    a = k[3]
    b = k[4]
    d = k[5]
    threshold = k[6]
    reset = k[7]
    c0 = k[8]
    c1 = k[9]
    c2 = k[10]
    c3 = k[11]
    n0 = x_in.dtype.type(0.04)
    n1 = x_in.dtype.type(5.0)
    n2 = x_in.dtype.type(140.0)
    g_v_first[start:stop] = g_v_last[start:stop]
    g_u_first[start:stop] = g_u_last[start:stop]
    nothing = np.zeros(stop - start, x_in.dtype)
    for t in range(x_in.shape[0] - 1, -1, -1):
        g_row, x_row, g_x_row = g_spikes[t * stride, start:stop], x_in[t, start:stop], g_x[t, start:stop]
        v_old = v_kept[t - 1, start:stop] if t > 0 else v_first[start:stop]
        g_v_row = g_v_first[start:stop]
        g_v_more = g_v_kept[t, start:stop] if traced else nothing
        u_old = u_kept[t - 1, start:stop] if t > 0 else u_first[start:stop]
        g_u_row = g_u_first[start:stop]
        g_u_more = g_u_kept[t, start:stop] if traced else nothing
        for j in range(stop - start):
            g_spike, x = g_row[j], x_row[j]
            v = v_old[j]
            u = u_old[j]
            g_v = g_v_row[j] + g_v_more[j]
            g_u = g_u_row[j] + g_u_more[j]
            e0 = v * v
            e1 = e0 * n0
            e2 = v * n1
            e3 = e1 + e2
            e4 = e3 + n2
            e5 = e4 - u
            e6 = e5 + x
            e7 = dt * e6
            e8 = v + e7
            e9 = e8 - threshold
            e10 = one if e9 >= zero else zero
            e11 = zero if e10 > zero else g_v
            e12 = g_u * d
            e13 = reset - e8
            e14 = g_v * e13
            e15 = e12 + e14
            e16 = zero if detach else e15
            e17 = g_spike + e16
            e18 = -e9
            e19 = max(e9, e18)
            e20 = c0 * e19
            e21 = -e20
            e22 = math.exp(e21)
            e23 = c0 * e22
            e24 = one + e22
            e25 = e24 * e24
            e26 = e23 / e25
            e27 = e17 * e26
            e28 = e11 + e27
            e29 = e28 * dt
            e30 = dt * a
            e31 = g_u * e30
            e32 = e31 * b
            e33 = e32 + e28
            e34 = e29 * n1
            e35 = e33 + e34
            e36 = e29 * n0
            e37 = e36 * v
            e38 = e35 + e37
            e39 = e38 + e37
            e40 = -e31
            e41 = g_u + e40
            e42 = -e29
            e43 = e41 + e42
            g_x_row[j] = e29
            g_v_row[j] = e39
            g_u_row[j] = e43

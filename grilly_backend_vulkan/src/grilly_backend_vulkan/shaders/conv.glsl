// Geometry of a convolution over up to three axes, in push constants `size`, `count`, `kernel_dilation` (kernel |
// dilation << 16) and `stride_low` (stride | low padding << 16). AXES is the number of axes, which are the last ones.
const uint FIRST = 3u - AXES;
int kernel(uint d) { return int(push.kernel_dilation[d] & 0xffffu); }
int dilation(uint d) { return int(push.kernel_dilation[d] >> 16); }
int stride(uint d) { return int(push.stride_low[d] & 0xffffu); }
int low(uint d) { return int(push.stride_low[d]) >> 16; }
uint taps() {
    uint n = 1u;
    [[unroll]] for (uint d = FIRST; d < 3u; ++d) n *= uint(kernel(d));
    return n;
}
uint product(int s[3]) {
    uint n = 1u;
    [[unroll]] for (uint d = FIRST; d < 3u; ++d) n *= uint(s[d]);
    return n;
}
// Takes the coordinate along axis d off a flat index, innermost axis first.
int coordinate(inout uint i, uint d, int size) {
    if (d == FIRST) return int(i);
    uint q = i / uint(max(size, 1));
    int c = int(i - q * uint(size));
    i = q;
    return c;
}
// Flat position in the input that output place `p` and tap `t` meet, or -1 in the padding.
int met_input(uint p, uint t) {
    int at = 0, step = 1;
    [[unroll]] for (uint j = 0u; j < AXES; ++j) {
        uint d = 2u - j;
        int x = coordinate(p, d, push.count[d]) * stride(d) + coordinate(t, d, kernel(d)) * dilation(d) - low(d);
        if (x < 0 || x >= push.size[d]) return -1;
        at += x * step;
        step *= push.size[d];
    }
    return at;
}
// Flat output place whose tap `t` meets position `s` of the input, or -1.
int met_output(uint s, uint t) {
    int at = 0, step = 1;
    [[unroll]] for (uint j = 0u; j < AXES; ++j) {
        uint d = 2u - j;
        int x = coordinate(s, d, push.size[d]) + low(d) - coordinate(t, d, kernel(d)) * dilation(d);
        int q = x / stride(d);
        if (x < 0 || q * stride(d) != x || q >= push.count[d]) return -1;
        at += q * step;
        step *= push.count[d];
    }
    return at;
}

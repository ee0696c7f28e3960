// Geometry of a convolution over up to three axes, in push constants `size`, `count`, `kernel_dilation` (kernel |
// dilation << 16) and `stride_low` (stride | low padding << 16). AXES is the number of axes, which are the last ones.
// Where sizes are constants of the pipeline (FIXED), divisions by them are multiplications.
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
#ifdef FIXED
int size(uint d) {
    int n = d == 0u ? SIZE_0 : d == 1u ? SIZE_1 : SIZE_2;
    return n == 0 ? push.size[d] : n;
}
int count(uint d) {
    int n = d == 0u ? COUNT_0 : d == 1u ? COUNT_1 : COUNT_2;
    return n == 0 ? push.count[d] : n;
}
#else
int size(uint d) { return push.size[d]; }
int count(uint d) { return push.count[d]; }
#endif
uint input_plane() {
    uint n = 1u;
    [[unroll]] for (uint d = FIRST; d < 3u; ++d) n *= uint(size(d));
    return n;
}
uint output_plane() {
    uint n = 1u;
    [[unroll]] for (uint d = FIRST; d < 3u; ++d) n *= uint(count(d));
    return n;
}
// Takes the coordinate along axis d off a flat index, innermost axis first.
int coordinate(inout uint i, uint d, int n) {
    if (d == FIRST) return int(i);
    uint q = i / uint(max(n, 1));
    int c = int(i - q * uint(n));
    i = q;
    return c;
}
// Flat position in the input that output place `p` and tap `t` meet, or -1 in the padding.
int met_input(uint p, uint t) {
    int at = 0, step = 1;
    [[unroll]] for (uint j = 0u; j < AXES; ++j) {
        uint d = 2u - j;
        int x = coordinate(p, d, count(d)) * stride(d) + coordinate(t, d, kernel(d)) * dilation(d) - low(d);
        if (x < 0 || x >= size(d)) return -1;
        at += x * step;
        step *= size(d);
    }
    return at;
}
// Flat output place whose tap `t` meets position `s` of the input, or -1.
int met_output(uint s, uint t) {
    int at = 0, step = 1;
    [[unroll]] for (uint j = 0u; j < AXES; ++j) {
        uint d = 2u - j;
        int x = coordinate(s, d, size(d)) + low(d) - coordinate(t, d, kernel(d)) * dilation(d);
        int q = x / stride(d);
        if (x < 0 || q * stride(d) != x || q >= count(d)) return -1;
        at += q * step;
        step *= count(d);
    }
    return at;
}

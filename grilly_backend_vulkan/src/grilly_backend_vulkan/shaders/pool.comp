#version 460
// Pooling over up to three axes of each plane. OP 0 largest element and its place, 1 mean, 2 gradient of the mean (a thread
// for each element written); 3 gradient of the largest (a thread for each plane, in order).
#include "types.glsl"
layout(local_size_x = 256) in;
layout(constant_id = 0) const uint OP = 0;
layout(push_constant, std430) uniform Push {
    uint64_t to, index, from;
    int wide[3], narrow[3];                       // sizes before and after pooling
    int kernel[3], stride[3], low[3], dilation[3];
    int end[3];                                   // where positions stop to count for the mean
    int counts_padding, divisor, planes;
} push;

int plane(int s[3]) { return s[0] * s[1] * s[2]; }
void split(int i, int s[3], out int c[3]) {
    int q = i / s[2];
    c = int[3](q / s[1], q % s[1], i % s[2]);
}
// Number of positions that count in the window that starts at the output's place c.
float divisor(int c[3]) {
    if (push.divisor != 0) return float(push.divisor);
    float n = 1.0;
    for (int d = 0; d < 3; ++d) {
        int start = c[d] * push.stride[d] - push.low[d];
        int first = push.counts_padding != 0 ? -push.low[d] : 0;
        n *= float(min(start + push.kernel[d], push.end[d]) - max(start, first));
    }
    return n;
}

void window(int p, int i) {
    int c[3], k[3];
    split(i, push.narrow, c);
    uint64_t from = push.from + int64_t(p) * plane(push.wide) * 4;
    float best = -INF, sum = 0.0;
    int place = -1;
    for (k[0] = 0; k[0] < push.kernel[0]; ++k[0])
        for (k[1] = 0; k[1] < push.kernel[1]; ++k[1])
            for (k[2] = 0; k[2] < push.kernel[2]; ++k[2]) {
                int at = 0;
                bool inside = true;
                for (int d = 0; d < 3; ++d) {
                    int x = c[d] * push.stride[d] - push.low[d] + k[d] * push.dilation[d];
                    inside = inside && x >= 0 && x < push.wide[d];
                    at = at * push.wide[d] + x;
                }
                if (!inside) continue;
                float v = load_f32(from + int64_t(at) * 4);
                sum += v;
                if (place < 0 || v > best || (is_nan(v) && !is_nan(best))) {
                    best = v;
                    place = at;
                }
            }
    int64_t to = int64_t(p) * plane(push.narrow) + i;
    store_f32(push.to + to * 4, OP == 0 ? best : sum / divisor(c));
    if (OP == 0 && push.index != 0) store_i32(push.index + to * 4, max(place, 0));
}
void mean_gradient(int p, int i) {
    int s[3], first[3], last[3], c[3];
    split(i, push.wide, s);
    for (int d = 0; d < 3; ++d) {
        int t = s[d] + push.low[d];  // the windows c with c * stride <= t < c * stride + kernel
        last[d] = min(t / push.stride[d], push.narrow[d] - 1);
        first[d] = max((t - push.kernel[d] + push.stride[d]) / push.stride[d], 0);
        if (t < push.kernel[d]) first[d] = 0;
    }
    uint64_t from = push.from + int64_t(p) * plane(push.narrow) * 4;
    float sum = 0.0;
    for (c[0] = first[0]; c[0] <= last[0]; ++c[0])
        for (c[1] = first[1]; c[1] <= last[1]; ++c[1])
            for (c[2] = first[2]; c[2] <= last[2]; ++c[2])
                sum += load_f32(from + int64_t((c[0] * push.narrow[1] + c[1]) * push.narrow[2] + c[2]) * 4) / divisor(c);
    store_f32(push.to + (int64_t(p) * plane(push.wide) + i) * 4, sum);
}
void largest_gradient(int p) {
    int wide = plane(push.wide), narrow = plane(push.narrow);
    uint64_t to = push.to + int64_t(p) * wide * 4, from = int64_t(p) * narrow * 4;
    for (int i = 0; i < wide; ++i) store_f32(to + i * 4, 0.0);
    for (int i = 0; i < narrow; ++i) {
        int place = clamp(load_i32(push.index + from + i * 4), 0, wide - 1);
        store_f32(to + place * 4, load_f32(to + place * 4) + load_f32(push.from + from + i * 4));
    }
}

void main() {
    int each = OP == 3 ? 1 : plane(OP == 2 ? push.wide : push.narrow);
    int64_t all = int64_t(push.planes) * each;
    for (int64_t w = gl_GlobalInvocationID.x; w < all; w += gl_NumWorkGroups.x * 256u) {
        int p = int(w / each), i = int(w - int64_t(p) * each);
        if (OP == 3) largest_gradient(p);
        else if (OP == 2) mean_gradient(p, i);
        else window(p, i);
    }
}

#version 460
// Fourier transforms of lines that fit shared memory: Stockham's passes of radix 2, 3, 4, 5, 7 and 8.
// The first pass reads from memory and the last one writes to it. Longer transforms are made of two or three of
// these (see fft.py): all but the last multiply their results by the twiddle factors of the whole length.
#include "turn.glsl"
layout(local_size_x = 256) in;
layout(constant_id = 0) const uint N = 8;
layout(constant_id = 1) const uint LINES = 1;         // that a work group does at once
layout(constant_id = 2) const bool ACROSS = false;    // neighbouring threads take neighbouring lines
layout(constant_id = 3) const bool INVERSE = false;
layout(constant_id = 4) const bool TWIDDLED = false;
layout(constant_id = 12) const bool PLAIN = false;    // lines one after the other, from and to
layout(constant_id = 5) const uint R0 = 8;            // the passes; 1 where there is none
layout(constant_id = 6) const uint R1 = 1;
layout(constant_id = 7) const uint R2 = 1;
layout(constant_id = 8) const uint R3 = 1;
layout(constant_id = 9) const uint R4 = 1;
layout(constant_id = 10) const uint R5 = 1;
layout(constant_id = 11) const uint R6 = 1;

layout(push_constant, std430) uniform Push {
    uint64_t to, from;
    uint lines, inner, size_a, size_b;  // line = ((outer * size_b + b) * size_a + a) * inner + i
    uint from_step, from_outer, from_a, from_b;
    uint to_step, to_outer, to_a, to_b;
    uint whole, part;  // length of the whole transform; columns that share a twiddle factor
    float scale;
} push;

const uint SIZE = (N * LINES + 15u) / 16u * 16u;
shared vec2 kept[2][SIZE];

vec2 v[8];
vec2 turned(vec2 z) { return vec2(z.y, -z.x); }  // by -i

void two(uint a, uint b) {
    vec2 sum = v[a] + v[b];
    v[b] = v[a] - v[b];
    v[a] = sum;
}
void four(uint a, uint b, uint c, uint d) {  // results in the order a c b d
    two(a, c);
    two(b, d);
    v[d] = turned(v[d]);
    two(a, b);
    two(c, d);
}
void exchange(uint a, uint b) {
    vec2 t = v[a];
    v[a] = v[b];
    v[b] = t;
}
void eight() {
    const float h = 0.70710678118654752;
    two(0, 4);
    two(1, 5);
    two(2, 6);
    two(3, 7);
    v[5] = h * vec2(v[5].x + v[5].y, v[5].y - v[5].x);
    v[6] = turned(v[6]);
    v[7] = h * vec2(v[7].y - v[7].x, -v[7].x - v[7].y);
    four(0, 1, 2, 3);
    four(4, 5, 6, 7);
    // now 0 4 2 6 of the results are at 0 1 2 3, and 1 5 3 7 at 4 5 6 7
    exchange(1, 4);
    exchange(3, 6);
}
// Cosines and sines of k / R of a turn.
float cosine(uint r, uint k) {
    if (r == 3u) return k == 0u ? 1.0 : -0.5;
    if (r == 5u) return k == 0u ? 1.0 : (k == 1u || k == 4u) ? 0.30901699437494742 : -0.80901699437494742;
    return k == 0u ? 1.0 : (k == 1u || k == 6u) ? 0.62348980185873353
         : (k == 2u || k == 5u) ? -0.22252093395631440 : -0.90096886790241913;
}
float sine(uint r, uint k) {
    if (2u * k > r) return -(r == 3u ? 0.86602540378443865 : r == 5u ? (k == 4u ? 0.95105651629515357 : 0.58778525229247313)
        : k == 6u ? 0.78183148246802981 : k == 5u ? 0.97492791218182361 : 0.43388373911755812);
    return r == 3u ? (k == 0u ? 0.0 : 0.86602540378443865)
         : r == 5u ? (k == 0u ? 0.0 : k == 1u ? 0.95105651629515357 : 0.58778525229247313)
         : k == 0u ? 0.0 : k == 1u ? 0.78183148246802981 : k == 2u ? 0.97492791218182361 : 0.43388373911755812;
}
void odd(const uint r) {
    vec2 sums[4], differences[4], first = v[0];
    [[unroll]] for (uint j = 1u; j <= r / 2u; ++j) {
        sums[j] = v[j] + v[r - j];
        differences[j] = v[j] - v[r - j];
        v[0] += sums[j];
    }
    [[unroll]] for (uint k = 1u; k <= r / 2u; ++k) {
        vec2 even_part = first, odd_part = vec2(0.0);
        [[unroll]] for (uint j = 1u; j <= r / 2u; ++j) {
            even_part += cosine(r, j * k % r) * sums[j];
            odd_part += sine(r, j * k % r) * differences[j];
        }
        v[k] = even_part + turned(odd_part);
        v[r - k] = even_part - turned(odd_part);
    }
}
void transform(uint r) {
    if (r == 2u) two(0, 1);
    if (r == 3u) odd(3u);
    if (r == 4u) {
        four(0, 1, 2, 3);
        exchange(1, 2);
    }
    if (r == 5u) odd(5u);
    if (r == 7u) odd(7u);
    if (r == 8u) eight();
}

struct Line { uint from, to, column; };
Line line_at(uint l) {
    if (PLAIN) return Line(l * N, l * N, 0u);
    uint rest = l / push.inner, i = l - rest * push.inner, a = 0u, b = 0u;
    if (push.size_a * push.size_b > 1u) {
        uint q = rest / push.size_a, outer = q / push.size_b;
        a = rest - q * push.size_a;
        b = q - outer * push.size_b;
        rest = outer;
    }
    return Line(
        rest * push.from_outer + a * push.from_a + b * push.from_b + i,
        rest * push.to_outer + a * push.to_a + b * push.to_b + i, TWIDDLED ? i / push.part : 0u);
}
vec2 fetch(Line line, uint j) {
    vec2 z = load_c(push.from, line.from + (PLAIN ? j : j * push.from_step));
    return INVERSE ? z.yx : z;
}
void put(Line line, uint k, vec2 z) {
    z *= push.scale;
    store_c(push.to, line.to + (PLAIN ? k : k * push.to_step), INVERSE ? z.yx : z);
}
// Results of a pass lie R apart, which would all meet in a few banks: within 16, places are exchanged.
uint place(uint line, uint j) {
    uint at = ACROSS ? j * LINES + line : line * N + j;
    return at ^ (at / 16u % 16u);
}

#define EACH(q, r) [[unroll]] for (uint q = 0u; q < 8u; ++q) if (q < r)

// Multiplies v[q] by the q-th power of the point at -m / n of a turn; few of these are made from others, so errors stay small.
void twiddle(uint m, uint n, const uint r) {
    vec2 w[8];
    w[1] = turn(m, n) * vec2(1.0, -1.0);
    if (r > 2u) w[2] = times(w[1], w[1]);
    if (r > 3u) w[3] = times(w[2], w[1]);
    if (r > 4u) {
        w[4] = turn(4u * m, n) * vec2(1.0, -1.0);
        w[5] = times(w[4], w[1]);
        w[6] = times(w[4], w[2]);
        w[7] = times(w[4], w[3]);
    }
    [[unroll]] for (uint q = 1u; q < 8u; ++q) if (q < r) v[q] = times(v[q], w[q]);
}

// One pass over the lines from `first`: `done` is the product of the radices of the passes before.
void run(uint first, const uint r, const uint done, const uint source, const bool reads, const bool writes) {
    const uint each = N / r, all = each * LINES;
    for (uint t = gl_LocalInvocationIndex; t < all; t += 256u) {
        uint l = ACROSS ? t % LINES : t / each, i = ACROSS ? t / LINES : t % each;
        if (first + l >= push.lines) continue;
        Line line;
        if (reads || writes) line = line_at(first + l);
        uint k = i % done, j = (i - k) * r + k;
        EACH(q, r) v[q] = reads ? fetch(line, i + q * each) : kept[source][place(l, i + q * each)];
        if (done > 1u) twiddle(k, done * r, r);
        transform(r);
        if (writes && TWIDDLED) {
            twiddle(line.column * done, push.whole, r);
            vec2 w = turn(line.column * j, push.whole) * vec2(1.0, -1.0);
            EACH(q, r) v[q] = times(v[q], w);
        }
        EACH(q, r) {
            if (writes) put(line, j + q * done, v[q]);
            else kept[1u - source][place(l, j + q * done)] = v[q];
        }
    }
    barrier();
}

void main() {
    const uint P1 = R0, P2 = P1 * R1, P3 = P2 * R2, P4 = P3 * R3, P5 = P4 * R4, P6 = P5 * R5;
    uint groups = (push.lines + LINES - 1u) / LINES;
    for (uint g = gl_WorkGroupID.x; g < groups; g += gl_NumWorkGroups.x) {
        uint first = g * LINES;
        run(first, R0, 1u, 1u, true, P1 == N);
        if (R1 > 1u) run(first, R1, P1, 0u, false, P2 == N);
        if (R2 > 1u) run(first, R2, P2, 1u, false, P3 == N);
        if (R3 > 1u) run(first, R3, P3, 0u, false, P4 == N);
        if (R4 > 1u) run(first, R4, P4, 1u, false, P5 == N);
        if (R5 > 1u) run(first, R5, P5, 0u, false, P6 == N);
        if (R6 > 1u) run(first, R6, P6, 1u, false, true);
    }
}

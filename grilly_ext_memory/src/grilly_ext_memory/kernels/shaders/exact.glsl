// Scores that decide: the float64 sum over columns in their order, rounded to float32, one thread for each row. A work
// group brings TILE rows to shared memory, some columns at a time, so that it reads neighbours together.
#ifndef TILE
#define TILE THREADS
#endif
layout(constant_id = FIRST_ID) const uint METRIC = 0;
layout(constant_id = FIRST_ID + 1) const bool WIDE_ROWS = true;  // four columns are aligned, and wholly inside a row
const uint SQUARES = 0, EUCLID = 1, INNER = 2, COSINE = 3, CITY = 4;
const uint QUADS = COLUMNS / 4, PITCH = QUADS + 1;
const uint LOADS = TILE * QUADS / THREADS;
shared vec4 tile[TILE * PITCH];
shared double queries_held[QUERIES * COLUMNS];
shared double lengths[QUERIES];

uint64_t row_at(uint i);    // addresses, given by who includes this
uint64_t query_at(uint r);

vec4 four_at(uint64_t at, uint d, uint width) {
    if (WIDE_ROWS) return d < width ? uintBitsToFloat(R_s16(at + uint64_t(d) * 4u).v) : vec4(0.0);
    vec4 found = vec4(0.0);
    [[unroll]] for (uint c = 0u; c < 4u; ++c)
        if (d + c < width) found[c] = load_f32(at + uint64_t(d + c) * 4u);
    return found;
}
void add_term(inout double total, double q, double x) {
    if (METRIC == INNER || METRIC == COSINE) {
        precise double term = q * x;
        precise double more = total + term;
        total = more;
    } else {
        precise double apart = q - x;
        precise double term = METRIC == CITY ? abs(apart) : apart * apart;
        precise double more = total + term;
        total = more;
    }
}
double high_half(double x) {
    precise double wide = 134217729.0LF * x;
    precise double far = wide - x;
    precise double high = wide - far;
    return high;
}
// x - a b without rounding the product, and without relying on a fused multiply-add.
double rest_of(double x, double a, double b) {
    double ah = high_half(a), bh = high_half(b);
    precise double al = a - ah;
    precise double bl = b - bh;
    precise double p = a * b;
    precise double e = ((ah * bh - p) + ah * bl + al * bh) + al * bl;
    precise double rest = (x - p) - e;
    return rest;
}
// What a device promises of roots and quotients may be less than float64: a step of correction, from an exact rest,
// makes them right and leaves what is right as it is.
double root(double x) {
    double s = sqrt(x);
    if (!(s > 1e-150LF && s < 1e150LF)) return s;
    precise double more = s + 0.5LF * rest_of(x, s, s) / s;
    return more;
}
double quotient(double x, double y) {
    double q = x / y;
    if (!(abs(q) > 1e-200LF && abs(q) < 1e100LF && abs(y) < 1e100LF)) return q;
    precise double more = q + rest_of(x, q, y) / y;
    return more;
}
// What is near is small, so inner products are negative.
float score_from(double total, double qq, double xx) {
    if (METRIC == EUCLID) return float(root(total));
    if (METRIC == INNER) return float(-total);
    if (METRIC != COSINE) return float(total);
    if (is_nan(total)) return NAN;
    if (qq == 0.0LF || xx == 0.0LF) return 1.0;
    double apart = 1.0LF - quotient(quotient(total, root(qq)), root(xx));
    return is_nan(apart) ? NAN : float(max(apart, 0.0LF));
}
// Bring columns from `d` on of `count` rows, and of all queries.
void bring(uint count, uint d, uint width) {
    uint l = gl_LocalInvocationIndex;
    vec4 got[LOADS];
    [[unroll]] for (uint e = 0u; e < LOADS; ++e) {
        uint i = e * THREADS + l;
        if (i / QUADS < count) got[e] = four_at(row_at(i / QUADS), d + i % QUADS * 4u, width);
    }
    barrier();
    [[unroll]] for (uint e = 0u; e < LOADS; ++e) {
        uint i = e * THREADS + l;
        if (i / QUADS < count) tile[i / QUADS * PITCH + i % QUADS] = got[e];
    }
    for (uint i = l; i < QUERIES * COLUMNS; i += THREADS) {
        uint c = d + i % COLUMNS;
        queries_held[i] = c < width ? double(load_f32(query_at(i / COLUMNS) + uint64_t(c) * 4u)) : 0.0LF;
    }
    barrier();
}
// Scores of this thread's row and all queries; `count` rows are there.
void score_rows(uint count, uint width, out float found[QUERIES]) {
    uint l = gl_LocalInvocationIndex;
    double total[QUERIES], qq = 0.0LF, xx = 0.0LF;
    [[unroll]] for (uint r = 0u; r < QUERIES; ++r) total[r] = 0.0LF;
    for (uint d = 0u; d < width; d += COLUMNS) {
        bring(count, d, width);
        if (TILE == THREADS || l < TILE) for (uint c = 0u; c < QUADS; ++c) {
            vec4 four = tile[l * PITCH + c];
            [[unroll]] for (uint j = 0u; j < 4u; ++j) {
                double x = double(four[j]);
                [[unroll]] for (uint r = 0u; r < QUERIES; ++r)
                    add_term(total[r], queries_held[r * COLUMNS + c * 4u + j], x);
                if (METRIC == COSINE) add_term(xx, x, x);
            }
        }
        if (METRIC == COSINE && l < QUERIES)
            for (uint c = 0u; c < COLUMNS; ++c) {
                double q = queries_held[l * COLUMNS + c];
                add_term(qq, q, q);
            }
    }
    if (METRIC == COSINE) {
        if (l < QUERIES) lengths[l] = qq;
        barrier();
    }
    [[unroll]] for (uint r = 0u; r < QUERIES; ++r)
        found[r] = score_from(total[r], METRIC == COSINE ? lengths[r] : 0.0LF, xx);
    barrier();  // the next rows may come
}

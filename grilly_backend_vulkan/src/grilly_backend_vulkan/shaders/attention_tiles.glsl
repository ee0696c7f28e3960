// Attention in f32: BR x BC scores at a time, SR x SC of them in each thread's registers, and sums of BR x D, OR x OC in
// each thread. Two kinds of product follow each other: scores from lines of two operands (`product`), and sums from
// weights and lines of one (`accumulate`). Operands are fetched into registers a step ahead, and shared memory
// holds two steps, so that one barrier a step is enough.
//
// Lines lie in shared memory as they do outside, four elements at a time; the place of a quad within its line is exchanged
// (`turned`), and columns are dealt out so that neighbours among the threads read neighbouring lines while each thread
// has four neighbouring columns. So neither storing nor reading meets a bank twice, and nothing is transposed.
#include "attention.glsl"
const uint S_DOWN = BR / SR, S_ACROSS = BC / SC, O_DOWN = BR / OR, O_ACROSS = D / OC, THREADS = S_DOWN * S_ACROSS;
layout(local_size_x = BR / SR * BC / SC) in;
layout(constant_id = 4) const bool WIDE = true;        // quads of q, k, v and g are aligned and wholly inside

const uint SQ = STEP / 4, PQ = STEP_KEYS / 4, NQ = SC / 4, OQ = OC / 4, DQ = D / 4;
const uint R_LOADS = BR * SQ / THREADS, C_LOADS = BC * SQ / THREADS, V_LOADS = STEP_KEYS * DQ / THREADS;
const uint PRODUCT_QUADS = (BR + BC) * SQ, SUM_QUADS = BR * PQ + STEP_KEYS * DQ;
layout(buffer_reference, std430, buffer_reference_align = 16) readonly buffer Quads { vec4 v; };
layout(buffer_reference, std430, buffer_reference_align = 16) writeonly buffer QuadsOut { vec4 v; };

shared vec4 pool[2][PRODUCT_QUADS > SUM_QUADS ? PRODUCT_QUADS : SUM_QUADS];

// Lines of one batch and head.
struct Lines {
    uint64_t at;
    int step_;
    uint count, width;
};
vec4 quad_at(uint64_t at, uint left) {  // of `left` elements at most
    if (WIDE) return Quads(at).v;
    vec4 found = vec4(0.0);
    [[unroll]] for (uint j = 0u; j < 4u; ++j) if (j < left) found[j] = load_f32(at + j * 4u);
    return found;
}
vec4 quad_of(Lines x, uint line, uint d) {
    if (line >= x.count || d >= x.width) return vec4(0.0);
    return quad_at(x.at + int64_t(int(line) * x.step_ + int(d)) * 4, x.width - d);
}
// The quads of one operand that a thread fetches: the same place in lines that are `jump` apart.
struct Fetches {
    uint64_t at;
    int64_t jump;
    uint line, lines_jump, count, d, width;
    bool inside;  // all of them are
};
Fetches fetches(Lines x, uint first, uint line, uint jump, uint lines, uint d, uint step_) {
    int64_t at = int64_t(int(first + line) * x.step_ + int(d)) * 4;
    bool inside = first + lines <= x.count && x.width % step_ == 0u;
    return Fetches(x.at + at, int64_t(int(jump) * x.step_) * 4, first + line, jump, x.count, d, x.width, inside);
}
vec4 fetched_quad(Fetches f, uint i) {
    if (!f.inside && (f.line + i * f.lines_jump >= f.count || f.d >= f.width)) return vec4(0.0);
    return quad_at(f.at + f.jump * i, f.width - f.d);
}

uint thread_y(uint across) { return gl_LocalInvocationIndex / 32u / (across / 8u) * 4u + gl_LocalInvocationIndex % 32u / 8u; }
uint thread_x(uint across) { return gl_LocalInvocationIndex / 32u % (across / 8u) * 8u + gl_LocalInvocationIndex % 8u; }
uint turned(uint line, uint quads) { return quads == 4u ? line >> 1 & 3u : line >> 2 & 1u; }
uint place(uint line, uint quad, uint quads) { return line * quads + (quad ^ turned(line, quads)); }
uint row_of(uint i) { return thread_y(S_ACROSS) + S_DOWN * i; }
uint column_of(uint n) { return 4u * (thread_x(S_ACROSS) + S_ACROSS * n); }  // the first of four
uint sum_row(uint i) { return thread_y(O_ACROSS) + O_DOWN * i; }
uint sum_column(uint n) { return 4u * (thread_x(O_ACROSS) + O_ACROSS * n); }

vec4 fetched_r[R_LOADS], fetched_c[C_LOADS], fetched_v[V_LOADS];

Fetches of_rows, of_columns, of_lines;

void fetch_step() {
    [[unroll]] for (uint i = 0u; i < R_LOADS; ++i) fetched_r[i] = fetched_quad(of_rows, i);
    [[unroll]] for (uint i = 0u; i < C_LOADS; ++i) fetched_c[i] = fetched_quad(of_columns, i);
    of_rows.at += STEP * 4u;
    of_columns.at += STEP * 4u;
    of_rows.d += STEP;
    of_columns.d += STEP;
}
// Fetch the first step of a product. The lines of columns are dealt out: place s of a tile has line s % (BC / 4) * 4 + s / (BC / 4).
void fetch(Lines rows, uint row, Lines columns, uint column) {
    uint l = gl_LocalInvocationIndex, s = l / SQ, d = l % SQ * 4u;
    of_rows = fetches(rows, row, s, THREADS / SQ, BR, d, STEP);
    of_columns = fetches(columns, column, s % (BC / 4) * 4u + s / (BC / 4), THREADS / SQ * 4u / BC, BC, d, STEP);
    fetch_step();
}
void keep(uint now) {
    [[unroll]] for (uint i = 0u; i < R_LOADS; ++i) {
        uint e = gl_LocalInvocationIndex + i * THREADS;
        pool[now][place(e / SQ, e % SQ, SQ)] = fetched_r[i];
    }
    [[unroll]] for (uint i = 0u; i < C_LOADS; ++i) {
        uint e = gl_LocalInvocationIndex + i * THREADS;
        pool[now][BR * SQ + place(e / SQ, e % SQ, SQ)] = fetched_c[i];
    }
}
void multiply(uint now, inout vec4 s[SR][NQ]) {
    uint x = thread_x(S_ACROSS);
    [[unroll]] for (uint q = 0u; q < SQ; ++q) {
        vec4 a[SR];
        [[unroll]] for (uint i = 0u; i < SR; ++i) a[i] = pool[now][place(row_of(i), q, SQ)];
        [[unroll]] for (uint j = 0u; j < SC; ++j) {
            vec4 b = pool[now][BR * SQ + place(x + S_ACROSS * j, q, SQ)];
            [[unroll]] for (uint t = 0u; t < 4u; ++t)  // in this order neighbours do not wait for each other
                [[unroll]] for (uint i = 0u; i < SR; ++i) s[i][j % NQ][j / NQ] = fma(a[i][t], b[t], s[i][j % NQ][j / NQ]);
        }
    }
}
// s = rows . columns; the first step has been fetched.
void product(uint width, out vec4 s[SR][NQ]) {
    [[unroll]] for (uint i = 0u; i < SR; ++i) [[unroll]] for (uint n = 0u; n < NQ; ++n) s[i][n] = vec4(0.0);
    uint now = 0u;
    barrier();
    keep(now);
    barrier();
    for (uint d = STEP; d - STEP < width; d += STEP) {
        bool more = d < width;
        if (more) fetch_step();
        multiply(now, s);
        if (more) {
            now ^= 1u;
            keep(now);
            barrier();
        }
    }
}

void fetch_slice() {
    [[unroll]] for (uint i = 0u; i < V_LOADS; ++i) fetched_v[i] = fetched_quad(of_lines, i);
    of_lines.at += of_lines.jump * V_LOADS;
    of_lines.line += STEP_KEYS;
}
// Fetch the first slice of lines to sum.
void fetch_lines(Lines lines, uint first) {
    uint l = gl_LocalInvocationIndex;
    of_lines = fetches(lines, first, l / DQ, THREADS / DQ, BC, l % DQ * 4u, D);
    fetch_slice();
}
void keep_weights(uint now, uint slice, vec4 s[SR][NQ]) {
    uint x = thread_x(S_ACROSS);
    [[unroll]] for (uint n = 0u; n < NQ; ++n) {
        uint quad = x + S_ACROSS * n;
        if (quad / PQ != slice) continue;
        [[unroll]] for (uint i = 0u; i < SR; ++i) pool[now][place(row_of(i), quad % PQ, PQ)] = s[i][n];
    }
    [[unroll]] for (uint i = 0u; i < V_LOADS; ++i)
        pool[now][BR * PQ + gl_LocalInvocationIndex + i * THREADS] = fetched_v[i];
}
// sums += weights . lines; the first slice of the lines has been fetched.
void accumulate(vec4 s[SR][NQ], inout vec4 sums[OR][OQ]) {
    uint x = thread_x(O_ACROSS), now = 0u;
    barrier();
    keep_weights(now, 0u, s);
    barrier();
    for (uint slice = 0u; slice < BC / STEP_KEYS; ++slice) {
        bool more = slice + 1u < BC / STEP_KEYS;
        if (more) fetch_slice();
        [[unroll]] for (uint q = 0u; q < PQ; ++q) {
            vec4 a[OR];
            [[unroll]] for (uint i = 0u; i < OR; ++i) a[i] = pool[now][place(sum_row(i), q, PQ)];
            [[unroll]] for (uint t = 0u; t < 4u; ++t)
                [[unroll]] for (uint n = 0u; n < OQ; ++n) {
                    vec4 b = pool[now][BR * PQ + (q * 4u + t) * DQ + x + O_ACROSS * n];
                    [[unroll]] for (uint i = 0u; i < OR; ++i) sums[i][n] = fma(vec4(a[i][t]), b, sums[i][n]);
                }
        }
        if (more) {
            now ^= 1u;
            keep_weights(now, slice + 1u, s);
            barrier();
        }
    }
}
// Store sums, each row times a factor, as packed lines of `width`.
void put(vec4 value, uint64_t to, uint line, uint d, uint width) {
    uint64_t at = to + (uint64_t(line) * width + d) * 4u;
    if (WIDE) {
        if (d < width) QuadsOut(at).v = value;
    } else {
        [[unroll]] for (uint j = 0u; j < 4u; ++j) if (d + j < width) store_f32(at + j * 4u, value[j]);
    }
}
// The work group's number among all.
uint group_number() { return gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x; }

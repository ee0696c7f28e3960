// What a reduction carries along: the sum with what rounding lost of it, the largest, or the place of the largest.
#include "types.glsl"
layout(constant_id = 0) const uint OP = 0;  // 0 sum, 1 max, 2 place of max

struct Acc { C value; C lost; uint place; };

#ifdef KIND_f
#define LOWEST C(-INF)
bool endless(C x) { return is_nan(x) || is_inf(x); }
#elif defined(KIND_u)
#define LOWEST C(0)
bool endless(C x) { return false; }
#else
#define LOWEST (C(1) << (8 * SIZE >= 32 ? 8 * SIZE - 1 : 31))
bool endless(C x) { return false; }
#endif

Acc identity() { return Acc(OP == 0 ? C(0) : LOWEST, C(0), 0xffffffffu); }

void add_to(inout Acc a, C x) {
#ifdef KIND_f
    precise C total = a.value + x;
    precise C rest = abs(a.value) >= abs(x) ? (a.value - total) + x : (x - total) + a.value;
    a.value = total;
    a.lost = a.lost + rest;
#else
    a.value += x;
#endif
}
bool beats(C x, uint i, C y, uint j) {  // NaN is the largest; of equals the first
    bool x_nan = is_nan(x), y_nan = is_nan(y);
    if (x_nan || y_nan) return x_nan && (!y_nan || i < j);
    return x > y || (x == y && i < j);
}
void take(inout Acc a, C x, uint place) {
    if (OP == 0) add_to(a, x);
    else if (beats(x, place, a.value, a.place)) a = Acc(x, C(0), place);
}
void join_acc(inout Acc a, Acc b) {
    if (OP == 0) {
        add_to(a, b.value);
        a.lost += b.lost;
    } else {
        take(a, b.value, b.place);
    }
}
C result(Acc a) {
    if (OP != 0) return a.value;
    return endless(a.value) ? a.value : a.value + a.lost;
}

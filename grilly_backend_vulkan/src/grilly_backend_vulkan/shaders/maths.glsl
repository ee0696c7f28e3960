// Elementary functions in f32, at most 4 ulp off: the specification leaves much more open for the built-in ones.
// Results below 2^-126 may be 0, as devices may flush them.
#include "types.glsl"

float scale_by(float x, int n) {  // x * 2^n; n is split, as 2^n alone may not be a finite float
    int half_n = n >> 1;
    float a = uintBitsToFloat(uint(half_n + 127) << 23), b = uintBitsToFloat(uint(n - half_n + 127) << 23);
    return x * a * b;
}

// Exact product a * b = result + low, without relying on a fused multiply-add.
float two_product(float a, float b, out float low) {
    precise float ah = uintBitsToFloat(floatBitsToUint(a) & 0xfffff000u), al = a - ah;
    precise float bh = uintBitsToFloat(floatBitsToUint(b) & 0xfffff000u), bl = b - bh;
    precise float p = a * b;
    precise float e = ((ah * bh - p) + ah * bl + al * bh) + al * bl;
    low = e;
    return p;
}

float divide(float x, float y) {  // the built-in quotient may be 2.5 ulp off; one step of correction
    float size = abs(y);
    if (size > 8.5e37 && !is_inf(y)) {  // past 2^126 the built-in one may be 0, as it multiplies by the reciprocal
        x *= 0.0625;
        y *= 0.0625;
        size *= 0.0625;
    }
    if (size == 0.0) {  // a divisor that is 0 in the source may be folded to anything
        if (x == 0.0 || is_nan(x)) return NAN;
        return uintBitsToFloat(0x7f800000u | ((floatBitsToUint(x) ^ floatBitsToUint(y)) & 0x80000000u));
    }
    float q = x / y, quotient = abs(q);
    if (!(size > 1e-30 && size < 1e30 && abs(x) > 1e-25 && quotient > 1e-25 && quotient < 1e30)) return q;
    float low;
    precise float high = two_product(q, y, low);
    precise float rest = (x - high) - low;
    return q + rest / y;
}

// exp(r) - 1 for |r| <= 0.35
float exp_tail(float r) {
    float p = 1.9875691500e-4;
    p = p * r + 1.3981999507e-3;
    p = p * r + 8.3334519073e-3;
    p = p * r + 4.1665795894e-2;
    p = p * r + 1.6666665459e-1;
    p = p * r + 5.0000001201e-1;
    return p * r * r + r;
}
float reduce_exp(float x, out int n) {
    float k = floor(x * 1.44269504 + 0.5);
    n = int(k);
    precise float r = x - k * 0.693359375;  // 9 bits: the product is exact
    precise float s = r + k * 2.12194440e-4;
    return s;
}
float own_exp(float x) {
    if (is_nan(x)) return x;
    if (x > 88.7228394) return INF;
    if (x < -103.972084) return 0.0;
    int n;
    float r = reduce_exp(x, n);
    return scale_by(1.0 + exp_tail(r), n);
}
float own_expm1(float x) {
    if (is_nan(x)) return x;
    if (x > 88.0) return own_exp(x);
    if (x < -18.0) return -1.0;
    if (abs(x) < 0.35) return x == 0.0 ? x : exp_tail(x);
    int n;
    float r = reduce_exp(x, n), power = uintBitsToFloat(uint(n + 127) << 23);
    precise float y = power * exp_tail(r) + (power - 1.0);
    return y;
}

// x = 2^e * (1 + f) with 1 + f between sqrt(1/2) and sqrt(2); x finite and positive
float reduce_log(float x, out int e) {
    uint bits = floatBitsToUint(x);
    int shift = 0;
    if (bits < 0x00800000u) {  // too small to be normal: its mantissa as an integer, which is never flushed
        bits = floatBitsToUint(float(bits));
        shift = -149;
    }
    bits += 0x3f800000u - 0x3f3504f3u;
    e = int(bits >> 23) - 127 + shift;
    precise float f = uintBitsToFloat((bits & 0x7fffffu) + 0x3f3504f3u) - 1.0;
    return f;
}
float log_tail(float f) {  // log(1 + f) - f + f^2 / 2
    float p = 7.0376836292e-2;
    p = p * f - 1.1514610310e-1;
    p = p * f + 1.1676998740e-1;
    p = p * f - 1.2420140846e-1;
    p = p * f + 1.4249322787e-1;
    p = p * f - 1.6668057665e-1;
    p = p * f + 2.0000714765e-1;
    p = p * f - 2.4999993993e-1;
    p = p * f + 3.3333331174e-1;
    return p * f * f * f;
}
float own_log(float x) {
    uint bits = floatBitsToUint(x);
    if (is_nan(x) || (bits & 0x80000000u) != 0u) return (bits & 0x7fffffffu) == 0u ? -INF : NAN;
    if (bits == 0u) return -INF;
    if (bits == 0x7f800000u) return x;
    int e;
    float f = reduce_log(x, e), k = float(e);
    float y = log_tail(f) + k * -2.12194440e-4 - 0.5 * f * f;
    return (f + y) + k * 0.693359375;
}
float own_log1p(float x) {
    if (is_nan(x) || x == 0.0 || x == INF) return x;
    if (abs(x) < 1e-4) return x - x * x * (0.5 - x * 0.33333333);
    precise float u = 1.0 + x;
    precise float lost = u > 2.0 ? 1.0 - (u - x) : x - (u - 1.0);
    if (u <= 0.0) return u == 0.0 ? -INF : NAN;
    return own_log(u) + lost / u;
}

const uint TWO_OVER_PI[9] = uint[9](
    0u, 0u, 0xA2F9836Eu, 0x4E441529u, 0xFC2757D1u, 0xF534DDC0u, 0xDB629599u, 0x3C439041u, 0xFE5163ABu);
// x minus the nearest multiple of pi/2, and that multiple modulo 4
float reduce_large_angle(float x, out int quadrant) {
    uint bits = floatBitsToUint(x);
    uint64_t mantissa = uint64_t((bits & 0x7fffffu) | 0x800000u);
    int first = int((bits >> 23) & 255u) - 150 - 2 + 64;  // bit of the table where the window of 96 bits starts
    int word = first >> 5, by = first & 31;
    uint w[3];
    for (int j = 0; j < 3; ++j) {
        uint64_t two = (uint64_t(TWO_OVER_PI[word + j]) << 32) | uint64_t(TWO_OVER_PI[word + j + 1]);
        w[j] = uint((two << by) >> 32);
    }
    // product modulo 2^96: the value modulo 4, with 94 bits of fraction
    uint64_t low = mantissa * uint64_t(w[2]);
    uint64_t middle = mantissa * uint64_t(w[1]) + (low >> 32);
    uint64_t high = uint64_t(w[0]) * mantissa + (middle >> 32);
    uint64_t top = (high << 32) | (middle & 0xffffffffUL);
    uint64_t fraction = (top << 2) | ((low >> 30) & 3UL);
    quadrant = int(uint(top >> 62) + uint(fraction >> 63)) & 3;
    float r = float(int64_t(fraction)) * 8.5153039502e-20;  // pi/2 * 2^-64
    if ((bits & 0x80000000u) != 0u) {
        quadrant = (4 - quadrant) & 3;
        r = -r;
    }
    return r;
}
float reduce_angle(float x, out int quadrant) {
    if (abs(x) > 8000.0) return reduce_large_angle(x, quadrant);
    float k = floor(x * 0.636619772 + 0.5);
    quadrant = int(k) & 3;
    // pi/2 in parts of 11 bits, so that each product with k is exact
    precise float r = x - k * 1.5703125;
    r = r - k * 4.837512969970703125e-4;
    r = r - k * 7.54953362047672271728515625e-8;
    r = r - k * 2.5633441515e-12;
    return r;
}
float sine_of(float r) {
    float z = r * r;
    return ((-1.9515295891e-4 * z + 8.3321608736e-3) * z - 1.6666654611e-1) * z * r + r;
}
float cosine_of(float r) {
    float z = r * r;
    return ((2.443315711809948e-5 * z - 1.388731625493765e-3) * z + 4.166664568298827e-2) * z * z - 0.5 * z + 1.0;
}
float turned(float x, int by) {
    if (is_nan(x) || is_inf(x)) return NAN;
    int quadrant;
    float r = reduce_angle(x, quadrant);
    quadrant = (quadrant + by) & 3;
    float y = (quadrant & 1) == 0 ? sine_of(r) : cosine_of(r);
    return (quadrant & 2) == 0 ? y : -y;
}
float own_sin(float x) { return x == 0.0 ? x : turned(x, 0); }
float own_cos(float x) { return turned(x, 1); }

float own_tanh(float x) {
    float size = abs(x);
    if (is_nan(x)) return x;
    if (size > 9.1) return x < 0.0 ? -1.0 : 1.0;
    if (size < 0.625) {
        float z = x * x;
        float p = -5.70498872745e-3;
        p = p * z + 2.06390887954e-2;
        p = p * z - 5.37397155531e-2;
        p = p * z + 1.33314422036e-1;
        p = p * z - 3.33332819422e-1;
        return p * z * x + x;
    }
    float y = 1.0 - 2.0 / (own_exp(2.0 * size) + 1.0);
    return x < 0.0 ? -y : y;
}

float own_erf(float x) {
    float size = abs(x);
    if (is_nan(x)) return x;
    if (size < 1.0) {
        float z = x * x;
        float p = -9.67359065e-6;
        p = p * z + 1.12682538e-4;
        p = p * z - 8.48439654e-4;
        p = p * z + 5.22105341e-3;
        p = p * z - 2.68654383e-2;
        p = p * z + 1.12837826e-1;
        p = p * z - 3.76126385e-1;
        p = p * z + 1.12837917;
        return p * x;
    }
    float y = 1.0;
    if (size < 4.0) {
        float p = 1.6140616e-6;  // log(1 - erf(x))
        p = p * size - 4.55906224e-5;
        p = p * size + 5.92769538e-4;
        p = p * size - 4.74022234e-3;
        p = p * size + 2.63647444e-2;
        p = p * size - 1.09978245e-1;
        p = p * size - 6.31937094e-1;
        p = p * size - 1.13016668;
        p = p * size + 3.03212968e-4;
        y = 1.0 - own_exp(p);
    }
    return x < 0.0 ? -y : y;
}

float own_sqrt(float x) {
    float y = sqrt(x);
    if (!(x > 1e-25 && x < 1e30)) return y;
    float low;
    precise float high = two_product(y, y, low);
    precise float rest = (x - high) - low;
    return y + 0.5 * rest / y;
}

float own_atan2(float y, float x) {
    if (is_nan(x) || is_nan(y)) return NAN;
    float ax = abs(x), ay = abs(y), small = min(ax, ay), large = max(ax, ay);
    float t = is_inf(small) ? 1.0 : small == 0.0 ? 0.0 : divide(small, large);
    float base = 0.0;
    if (t > 0.4142135623730950) {
        t = (t - 1.0) / (t + 1.0);
        base = 0.785398163;
    }
    float z = t * t;
    float p = 8.05374449538e-2;
    p = p * z - 1.38776856032e-1;
    p = p * z + 1.99777106478e-1;
    p = p * z - 3.33329491539e-1;
    float a = base + (p * z * t + t);
    if (ay > ax) a = 1.57079632679 - a;
    if ((floatBitsToUint(x) & 0x80000000u) != 0u) a = 3.14159265359 - a;
    return (floatBitsToUint(y) & 0x80000000u) != 0u ? -a : a;
}

// The power of a positive, finite x, by its logarithm in two floats.
float positive_power(float x, float y) {
    int e;
    float f = reduce_log(x, e), low;
    precise float d = 2.0 + f;
    precise float d_low = f - (d - 2.0);
    precise float s = f / d;
    precise float product = two_product(s, d, low);
    precise float s_low = (((f - product) - low) - s * d_low) / d;
    float z = s * s;
    float p = 0.2222222 * z + 0.2857143;
    p = (p * z + 0.4) * z + 0.6666667;
    // log(1 + f) = 2 s + s^3 p
    float k = float(e);
    precise float tail = z * s * p + 2.0 * s_low;
    precise float a = k * 0.693359375, b = 2.0 * s;
    precise float high = a + b;
    precise float lost = abs(a) > abs(b) ? (a - high) + b : (b - high) + a;
    precise float rest = lost + (tail + k * -2.12194440e-4);
    precise float sum = high + rest;
    rest = rest - (sum - high);
    precise float t = two_product(sum, y, low);
    if (!(abs(t) < 110.0)) return t > 0.0 ? INF : t < 0.0 ? 0.0 : t;
    low = low + rest * y;
    int n;
    float r = reduce_exp(t, n);
    return t > 89.0 ? INF : scale_by(1.0 + exp_tail(r + low), n);
}
float own_pow(float x, float y) {
    if (y == 0.0 || x == 1.0) return 1.0;
    if (is_nan(x) || is_nan(y)) return NAN;
    float size = abs(x), whole = floor(y), ay = abs(y);
    if (is_inf(y)) return size == 1.0 ? 1.0 : (size > 1.0) == (y > 0.0) ? INF : 0.0;
    bool integer = whole == y, odd = integer && ay < 16777216.0 && (int(ay) & 1) == 1;
    bool negative = (floatBitsToUint(x) & 0x80000000u) != 0u;
    float result;
    if (size == 0.0 || is_inf(x)) {
        result = (size == 0.0) == (y > 0.0) ? 0.0 : INF;
    } else {
        if (negative && !integer) return NAN;
        result = y == 1.0 ? size : y == 2.0 ? size * size : y == -1.0 ? divide(1.0, size) : positive_power(size, y);
    }
    return negative && odd ? -result : result;
}

float rest_of(float x, float f, float y) {  // x - f * y
    float low;
    precise float high = two_product(f, y, low);
    precise float rest = (x - high) - low;
    return rest;
}
float own_floordiv(float x, float y) {  // as Python's: what inf leaves over is NaN, and -1 // inf is -1
    if (is_nan(x) || is_nan(y) || is_inf(x) && y != 0.0) return NAN;
    if (y == 0.0) return divide(x, y);
    float q = x / y;
    if (is_inf(y)) return x != 0.0 && (x < 0.0) != (y < 0.0) ? -1.0 : q;
    if (is_inf(q)) return q;
    float f = floor(q);
    if (abs(f) >= 8388608.0) return f;
    // the quotient may be a little off: the rest must lie between 0 and y
    float rest = rest_of(x, f, y);
    if (rest != 0.0 && (rest < 0.0) != (y < 0.0)) return f - 1.0;
    if (abs(rest) < abs(y)) return f;
    rest = rest_of(x, f + 1.0, y);  // for a tiny x of the other sign the rest was only rounded to y
    return rest == 0.0 || (rest < 0.0) == (y < 0.0) ? f + 1.0 : f;
}

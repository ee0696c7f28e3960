#version 460
// start + step * i; both are in push.k, as 64-bit integers or as floats.
#include "map.glsl"
void main() {
    EACH(i) {
#ifdef USE_F64
        precise double value = packDouble2x32(push.k.xy) + packDouble2x32(push.k.zw) * double(i);
        STORE(push.p[0], i, value);
#elif defined(KIND_f)
        precise float value = uintBitsToFloat(push.k.x) + uintBitsToFloat(push.k.z) * float(i);
        STORE(push.p[0], i, C(value));
#else
        int64_t start = int64_t(packUint2x32(push.k.xy)), step = int64_t(packUint2x32(push.k.zw));
        STORE(push.p[0], i, C(start + step * int64_t(i)));
#endif
    }
}

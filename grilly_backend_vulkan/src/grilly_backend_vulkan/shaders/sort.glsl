// Keys in sorting order as unsigned integers, with the place each came from.
#include "types.glsl"
layout(local_size_x = 256) in;
#if SIZE == 8
#define K uint64_t
#define KEY_SIZE 8
#define load_key load_u64
#define store_key store_u64
#define LAST 0xffffffffffffffffUL
#else
#define K uint
#define KEY_SIZE 4
#define load_key load_u32
#define store_key store_u32
#define LAST 0xffffffffu
#endif

layout(push_constant, std430) uniform Push {
    uint64_t from, keys, places, keys_to, places_to, values;
    uint outer, terms, inner, width;
} push;

#version 460
// The bytes of push.k, over and over.
#include "map.glsl"
void main() {
    EACH(i) { STORE(push.p[0], locate(i).x, PATTERN); }
}

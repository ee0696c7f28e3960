// What is done to the sums of a product: an activation by its number, then what lies where the output will.
#include "activations.glsl"

const uint NONE = 0, RELU = 1, GELU = 2, GELU_TANH = 3, SILU = 4, SIGMOID = 5, TANH = 6, RELU_VJP = 7;

float activated(float x, uint activation) {
    if (activation == RELU) return relu(x);
    if (activation == GELU) return gelu(x);
    if (activation == GELU_TANH) return gelu_tanh(x);
    if (activation == SILU) return silu(x);
    if (activation == SIGMOID) return sigmoid(x);
    if (activation == TANH) return own_tanh(x);
    return x;
}
// The gradient of a ReLU takes the ReLU's output; everything else adds a residual.
float with_kept(float x, float kept, uint activation) {
    if (activation == RELU_VJP) return kept > 0.0 ? x : 0.0;
    return x + kept;
}

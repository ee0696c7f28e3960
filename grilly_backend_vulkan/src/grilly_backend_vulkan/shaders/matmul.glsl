// What the tiled products are told, and how their tiles are numbered.
// An operand is lines of neighbouring elements, `step` elements apart: along k, or across it (along m or n).
#include "matmul_finish.glsl"

layout(push_constant, std430) uniform Push {
    uint64_t to, a, b, bias, residual;
    uint m, n, k, batch;
    int a_step, b_step;
    uint size[2];                    // of the batch's inner two axes, innermost first
    int a_batch[3], b_batch[3];
    uint chunk, chunks;              // parts of k; each has an output of its own
} push;

layout(buffer_reference, std430, buffer_reference_align = 16) readonly buffer Quads { vec4 v; };
layout(buffer_reference, std430, buffer_reference_align = 16) writeonly buffer QuadsOut { vec4 v; };

// Which tile of which product a work group makes.
uint tile_row, tile_column, tile_part;
uint64_t tile_to;         // where the output of this part and member of the batch begins, in elements
int64_t a_start, b_start;  // where its operands begin, in elements

// Eight rows of tiles are walked column by column, so that what neighbours read stays in the caches.
bool find_tile(uint rows, uint columns) {
    uint down = (push.m + rows - 1u) / rows, across = (push.n + columns - 1u) / columns;
    uint t = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x;
    uint place = t / (down * across), one = t - place * down * across;
    uint group = one / (8u * across), within = one - group * 8u * across, height = min(8u, down - group * 8u);
    tile_column = within / height * columns;
    tile_row = (group * 8u + within % height) * rows;
    tile_part = place / push.batch;
    uint i = place - tile_part * push.batch, j = i / push.size[0], x = i - j * push.size[0];
    uint z = j / push.size[1], y = j - z * push.size[1];
    a_start = int64_t(x) * push.a_batch[0] + int64_t(y) * push.a_batch[1] + int64_t(z) * push.a_batch[2];
    b_start = int64_t(x) * push.b_batch[0] + int64_t(y) * push.b_batch[1] + int64_t(z) * push.b_batch[2];
    tile_to = uint64_t(place) * push.m * push.n;
    return tile_part < push.chunks;
}

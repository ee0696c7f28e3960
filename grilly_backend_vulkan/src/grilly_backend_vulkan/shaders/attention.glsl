// What all attention kernels are told: sizes, which keys a query sees, and which weights are dropped.
#extension GL_EXT_buffer_reference2 : require
#include "maths.glsl"
#include "philox.glsl"
layout(constant_id = 0) const uint CAUSAL = 0;         // 1: the diagonal starts at the first key, 2: it ends at the last
layout(constant_id = 1) const uint MASK = 0;           // 1: boolean, 2: f32, 3: of the operands' type
layout(constant_id = 2) const bool LENGTHS = false;
layout(constant_id = 3) const bool DROPOUT = false;

layout(buffer_reference, std430, buffer_reference_align = 8) readonly buffer Sizes {
    uint64_t mask, lengths, state, relative;
    uint heads, groups, queries, keys, width, value_width;   // heads of queries, heads of keys
    int q[3], k[3], v[3], g[3], mask_step[4];                // elements from one (batch, head, position) to the next
    uint limit;                                              // words below it drop a weight
    float scale, kept;                                       // of the scores, and of the weights that are kept
    uint batch;
};
const float LOG2E = 1.44269504089, LN2 = 0.69314718056;

// Powers of two by the built-in function: its error grows with the exponent, as 2^x itself shrinks.
float power(float x) { return exp2(x); }

uint own_batch, own_head;
uint64_t mask_at, word_block;                                // of the present batch and head
uvec2 word_key;
uint end;                                                    // keys that exist
int diagonal;                                                // query i sees keys up to i + diagonal

void enter_batch(Sizes sizes, uint batch) {
    own_batch = batch;
    end = sizes.keys;
    if (LENGTHS) end = uint(clamp(load_i32(sizes.lengths + uint64_t(batch) * 4u), 0, int(sizes.keys)));
    diagonal = CAUSAL == 1 ? 0 : int(end) - int(sizes.queries);
}
void enter_head(Sizes sizes, uint head) {
    own_head = head;
    if (MASK != 0) mask_at = uint64_t(int64_t(own_batch) * sizes.mask_step[0] + int64_t(head) * sizes.mask_step[1]);
    if (DROPOUT) {
        word_block = philox_start(sizes.state, sizes.relative, word_key);
        word_block += uint64_t(own_batch * sizes.heads + head) * sizes.queries * ((sizes.keys + 3u) / 4u);
    }
}
// How many keys the queries before `after` see.
uint seen_by(uint after) { return CAUSAL == 0 ? end : uint(clamp(int(after) + diagonal, 0, int(end))); }
// Whether all queries from `query` on see all keys before `after`, so that nothing need be asked for each pair.
bool all_seen(uint query, uint after) {
    return MASK == 0 && after <= end && (CAUSAL == 0 || int(after) <= int(query) + diagonal + 1);
}
// A score, as an exponent of 2, after masks.
float masked(Sizes sizes, float score, uint query, uint key) {
    if (key >= end || query >= sizes.queries) return -INF;
    if (CAUSAL != 0 && int(key) > int(query) + diagonal) return -INF;
    if (MASK != 0) {
        int64_t at = int64_t(mask_at) + int64_t(query) * sizes.mask_step[2] + int64_t(key) * sizes.mask_step[3];
        if (MASK == 1) {
            if (load_b1(sizes.mask + at) == 0u) return -INF;
        } else {
            score += LOG2E * (MASK == 2 ? load_f32(sizes.mask + at * 4) : LOAD(sizes.mask, at));
        }
    }
    return score;
}
// Random words of four neighbouring keys.
uvec4 words_of(Sizes sizes, uint query, uint quad) {
    return philox(word_block + uint64_t(query) * ((sizes.keys + 3u) / 4u) + quad, word_key);
}

// Philox4x32-10 (Salmon et al. 2011).
uvec4 philox(uint64_t counter, uvec2 key) {
    uvec4 w = uvec4(unpackUint2x32(counter), 0u, 0u);
    for (uint round_ = 0u; round_ < 10u; ++round_) {
        uint h0, l0, h1, l1;
        umulExtended(w.x, 0xD2511F53u, h0, l0);
        umulExtended(w.z, 0xCD9E8D57u, h1, l1);
        w = uvec4(h1 ^ w.y ^ key.x, l1, h0 ^ w.w ^ key.y, l0);
        key += uvec2(0x9E3779B9u, 0xBB67AE85u);
    }
    return w;
}
// Key and first counter of the generator `state`.
uint64_t philox_start(uint64_t state, uint64_t relative, out uvec2 key) {
    key = uvec2(load_u32(state), load_u32(state + 4));
    return packUint2x32(uvec2(load_u32(state + 8), load_u32(state + 12))) + relative;
}

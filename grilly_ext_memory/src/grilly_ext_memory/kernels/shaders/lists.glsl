// Which rows a part looks at: those of the list that is probed, a slice of them; without probes a part of all rows.
bool anew(uint query, uint p, int list) {  // a list counts where it is probed first
    if (list < 0 || list >= int(push.lists)) return false;
    uint64_t at = push.probes + uint64_t(query) * push.probed * 4u;
    for (uint before = 0u; before < p; ++before)
        if (load_i32(at + uint64_t(before) * 4u) == list) return false;
    return true;
}
uvec2 range_of(uint query, uint part) {
    uint start = 0u, stop = push.rows, slice = part, slices = push.parts;
    if (push.probes != 0) {
        uint p = part / push.slices;
        slice = part % push.slices;
        slices = push.slices;
        int list = load_i32(push.probes + (uint64_t(query) * push.probed + p) * 4u);
        if (!anew(query, p, list)) return uvec2(0u);
        start = min(load_u32(push.offsets + uint64_t(list) * 4u), push.rows);
        stop = min(load_u32(push.offsets + uint64_t(list) * 4u + 4u), push.rows);
    }
    uint each = (max(stop, start) - start + slices - 1u) / slices;
    start = min(start + slice * each, stop);
    return uvec2(start, min(start + each, stop));
}
bool allowed(uint query, uint row) {
    return push.mask == 0 || load_b1(push.mask + uint64_t(query) * push.mask_rows + row) != 0u;
}

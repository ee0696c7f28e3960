// Reading an index of any integer type.
#ifndef OWN_CONSTANTS
layout(constant_id = 1) const uint INDEX = 4;  // bytes of an index
layout(constant_id = 2) const bool SIGNED = true;
#endif

int64_t index_at(uint64_t p, int64_t i) {
    if (INDEX == 8) return load_i64(p + i * 8);
    if (INDEX == 4) return SIGNED ? int64_t(load_i32(p + i * 4)) : int64_t(load_u32(p + i * 4));
    if (INDEX == 2) return SIGNED ? int64_t(load_i16(p + i * 2)) : int64_t(load_u16(p + i * 2));
    return SIGNED ? int64_t(load_i8(p + i)) : int64_t(load_u8(p + i));
}

// Negative positions count from the back. No comparison with a constant: Mesa 22.3 gets these wrong for widened integers.
int64_t from_front(int64_t j, int64_t size) { return j + (size & (j >> 63)); }

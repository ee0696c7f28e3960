// Tiles of a convolution's product, and how they walk over taps and channels; needs conv.glsl and MODE.
// What a tile knows: its group, and the phase of its places under the stride (MODE 1, else 0).
uint group, row, column, part, tap_of_tile;
int phase[3];
int extent(uint d) { return MODE == 1 ? count(d) : size(d); }
// Places of the tile's phase along axis d.
int places_along(uint d) {
    return MODE == 1 ? (size(d) - phase[d] + stride(d) - 1) / stride(d) : count(d);
}
uint places_of_image() {
    uint n = 1u;
    [[unroll]] for (uint d = FIRST; d < 3u; ++d) n *= uint(places_along(d));
    return n;
}
// How far tap `t` moves a place along each axis of what is read; false if it meets nothing in this phase.
bool shift_of(uint t, out int shift[3]) {
    bool met = true;
    [[unroll]] for (uint j = 0u; j < AXES; ++j) {
        uint d = 2u - j;
        int moved = coordinate(t, d, kernel(d)) * dilation(d);
        if (MODE == 1) {
            int from = phase[d] + low(d) - moved, s = stride(d);
            int q = from >= 0 ? from / s : -((s - 1 - from) / s);
            met = met && q * s == from;
            shift[d] = q;
        } else {
            shift[d] = moved;
        }
    }
    return met;
}
// Place `p` of the phase: where its window starts along each axis of what is read, and where it is written.
uint origin_of(uint p, out int origin[3]) {
    uint at = 0u, step = 1u;
    [[unroll]] for (uint j = 0u; j < AXES; ++j) {
        uint d = 2u - j;
        int c = coordinate(p, d, places_along(d));
        origin[d] = MODE == 1 ? c : c * stride(d) - low(d);
        int written = MODE == 1 ? c * stride(d) + phase[d] : c;
        at += uint(written) * step;
        step *= uint(MODE == 1 ? size(d) : count(d));
    }
    return at;
}
// Flat position of an origin moved by a shift; false outside.
bool position(int origin[3], int shift[3], out uint at) {
    int found = 0, step = 1;
    bool inside = true;
    [[unroll]] for (uint j = 0u; j < AXES; ++j) {
        uint d = 2u - j;
        int x = origin[d] + shift[d];
        inside = inside && uint(x) < uint(extent(d));
        found += x * step;
        step *= extent(d);
    }
    at = uint(found);
    return inside;
}
uint plane_of(uint batch, uint per_group) { return (batch * push.groups + group) * per_group; }

// The walk of MODE 0 and 1 over taps and blocks of channels.
uint tap, channel;
bool inside;
uint read_at;
int place_origin[3];
bool column_exists;
uint base_b;

void enter_tap() {
    int shift[3];
    uint at;
    bool met = shift_of(tap, shift);
    inside = position(place_origin, shift, at) && met && column_exists;
    read_at = base_b + at;
}
// Begins at step number `step`, each of `width` channels, for the tile's column `c`.
void begin_walk(uint c, uint channels, uint plane, uint step, const uint width) {
    uint per_image = max(places_of_image(), 1u), n = c / per_image, blocks = (channels + width - 1u) / width;
    column_exists = c < push.batch * places_of_image();
    origin_of(c - n * per_image, place_origin);
    base_b = plane_of(n, channels) * plane;
    tap = step / blocks;
    channel = (step - tap * blocks) * width;
    enter_tap();
}
void walk_on(uint channels, const uint width) {
    channel += width;
    if (channel < channels) return;
    channel = 0u;
    ++tap;
    enter_tap();
}

// Which tile of the product this is; rows go fastest, as neighbours then share what they read of the images.
bool find_tile(const uint high, const uint wide) {
    uint rows = MODE == 1 ? push.ins : push.outs, down = (rows + high - 1u) / high, phases = 1u;
    [[unroll]] for (uint d = FIRST; d < 3u; ++d) {
        phase[d] = 0;
        phases *= MODE == 1 ? uint(stride(d)) : 1u;
    }
    uint columns = MODE == 2 ? push.ins : push.batch * places_of_image(), across = (columns + wide - 1u) / wide;
    uint t = gl_WorkGroupID.y * gl_NumWorkGroups.x + gl_WorkGroupID.x, q = t / down;
    row = (t - q * down) * high;
    t = q / across;
    column = (q - t * across) * wide;
    uint kinds = MODE == 2 ? taps() : phases;
    q = t / kinds;
    tap_of_tile = t - q * kinds;
    uint rest = tap_of_tile;
    if (MODE == 1) [[unroll]] for (uint j = 0u; j < AXES; ++j) phase[2u - j] = coordinate(rest, 2u - j, stride(2u - j));
    part = q / push.groups;
    group = q - part * push.groups;
    return part < push.chunks;
}


/* Byte planes: byte b of every value together, as the shuffle of Blosc and numcodecs stores them. */
#include "number.h"

/* Exchange rows and columns of eight by eight bytes. */
static inline void transpose(uint64_t *a) {
    for (int i = 0; i < 8; i += 2) {
        uint64_t t = ((a[i] >> 8) ^ a[i + 1]) & 0x00FF00FF00FF00FFULL;
        a[i + 1] ^= t;
        a[i] ^= t << 8;
    }
    for (int i = 0; i < 8; i += i & 1 ? 3 : 1) {
        uint64_t t = ((a[i] >> 16) ^ a[i + 2]) & 0x0000FFFF0000FFFFULL;
        a[i + 2] ^= t;
        a[i] ^= t << 16;
    }
    for (int i = 0; i < 4; i++) {
        uint64_t t = ((a[i] >> 32) ^ a[i + 4]) & 0x00000000FFFFFFFFULL;
        a[i + 4] ^= t;
        a[i] ^= t << 32;
    }
}

/* Split `count` values of `size` bytes into planes that lie `step` bytes apart. */
EXPORT void molrec_split_planes(text_t values, int64_t count, int64_t size, uint8_t *planes, int64_t step) {
    int64_t done = 0;
    if (size == 8)
        for (uint64_t a[8]; done + 8 <= count; done += 8) {
            memcpy(a, values + 8 * done, 64);
            transpose(a);
            for (int b = 0; b < 8; b++) memcpy(planes + b * step + done, a + b, 8);
        }
    for (int64_t b = 0; b < size; b++)
        for (int64_t i = done; i < count; i++) planes[b * step + i] = values[i * size + b];
}

/* Merge planes that lie `step` bytes apart to `count` values of `size` bytes. */
EXPORT void molrec_merge_planes(text_t planes, int64_t step, int64_t count, int64_t size, uint8_t *values) {
    int64_t done = 0;
    if (size == 8)
        for (uint64_t a[8]; done + 8 <= count; done += 8) {
            for (int b = 0; b < 8; b++) memcpy(a + b, planes + b * step + done, 8);
            transpose(a);
            memcpy(values + 8 * done, a, 64);
        }
    for (int64_t b = 0; b < size; b++)
        for (int64_t i = done; i < count; i++) values[i * size + b] = planes[b * step + i];
}

/* Goes up with every change of what a function takes or means; as in __init__.py. */
EXPORT int molrec_abi(void) { return 1; }

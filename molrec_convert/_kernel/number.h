/* Decimal text to the nearest double and back to the shortest text: shared by rows.c and write.c. */
#ifndef MOLREC_NUMBER_H
#define MOLREC_NUMBER_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(_WIN32)
#define EXPORT __declspec(dllexport)
#else
#define EXPORT __attribute__((visibility("default")))
#endif

typedef const uint8_t *text_t;
typedef struct { uint64_t high, low; } wide_t;

/* The first 128 bits of 10^-342 ... 10^324; build.py writes this file. */
#include "powers.h"
#define SMALLEST_POWER (-342)

static inline wide_t multiply(uint64_t a, uint64_t b) {
#ifdef __SIZEOF_INT128__
    unsigned __int128 product = (unsigned __int128)a * b;
    return (wide_t){(uint64_t)(product >> 64), (uint64_t)product};
#else
    uint64_t a0 = (uint32_t)a, a1 = a >> 32, b0 = (uint32_t)b, b1 = b >> 32;
    uint64_t low = a0 * b0, mid = a1 * b0 + (low >> 32), other = a0 * b1 + (uint32_t)mid;
    return (wide_t){a1 * b1 + (mid >> 32) + (other >> 32), (other << 32) | (uint32_t)low};
#endif
}

static inline double from_bits(uint64_t bits) {
    double value;
    memcpy(&value, &bits, 8);
    return value;
}

static inline uint64_t to_bits(double value) {
    uint64_t bits;
    memcpy(&bits, &value, 8);
    return bits;
}

/* Eight bytes, the first one lowest. */
static inline uint64_t load8(text_t p) {
    uint64_t value;
    memcpy(&value, p, 8);
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    value = __builtin_bswap64(value);
#endif
    return value;
}

#endif

/* Byte planes: byte b of every value together, as the shuffle of Blosc and numcodecs stores them. */
#include "number.h"

#if defined(__SSE2__)
#include <emmintrin.h>
typedef __m128i bytes_t;
#define LOAD(p) _mm_loadu_si128((const __m128i *)(p))
#define STORE(p, a) _mm_storeu_si128((__m128i *)(p), a)
#define LOW(a, b) _mm_unpacklo_epi8(a, b)
#define HIGH(a, b) _mm_unpackhi_epi8(a, b)
#elif defined(__ARM_NEON) && defined(__aarch64__)
#include <arm_neon.h>
typedef uint8x16_t bytes_t;
#define LOAD(p) vld1q_u8(p)
#define STORE(p, a) vst1q_u8(p, a)
#define LOW(a, b) vzip1q_u8(a, b)
#define HIGH(a, b) vzip2q_u8(a, b)
#endif

#ifdef LOAD
/* Sixteen values of eight bytes: the seven bits of a byte's place among them are turned by one. Four turns make planes of
   values, three more make values of planes. */
#define TURN(a, b) \
    do { \
        b[0] = LOW(a[0], a[4]), b[1] = HIGH(a[0], a[4]), b[2] = LOW(a[1], a[5]), b[3] = HIGH(a[1], a[5]); \
        b[4] = LOW(a[2], a[6]), b[5] = HIGH(a[2], a[6]), b[6] = LOW(a[3], a[7]), b[7] = HIGH(a[3], a[7]); \
    } while (0)
#endif

/* Split `count` values of `size` bytes into planes that lie `step` bytes apart. */
static void split(text_t values, int64_t count, int64_t size, uint8_t *planes, int64_t step) {
    int64_t done = 0;
#ifdef LOAD
    if (size == 8)
        for (bytes_t a[8], b[8]; done + 16 <= count; done += 16) {
            for (int i = 0; i < 8; i++) a[i] = LOAD(values + 8 * done + 16 * i);
            TURN(a, b);
            TURN(b, a);
            TURN(a, b);
            TURN(b, a);
            for (int i = 0; i < 8; i++) STORE(planes + i * step + done, a[i]);
        }
#endif
    for (int64_t b = 0; b < size; b++)
        for (int64_t i = done; i < count; i++) planes[b * step + i] = values[i * size + b];
}

/* Merge planes that lie `step` bytes apart to `count` values of `size` bytes. */
static void merge(text_t planes, int64_t step, int64_t count, int64_t size, uint8_t *values) {
    int64_t done = 0;
#ifdef LOAD
    if (size == 8)
        for (bytes_t a[8], b[8]; done + 16 <= count; done += 16) {
            for (int i = 0; i < 8; i++) a[i] = LOAD(planes + i * step + done);
            TURN(a, b);
            TURN(b, a);
            TURN(a, b);
            for (int i = 0; i < 8; i++) STORE(values + 8 * done + 16 * i, b[i]);
        }
#endif
    for (int64_t b = 0; b < size; b++)
        for (int64_t i = done; i < count; i++) values[i * size + b] = planes[b * step + i];
}

/* Each chunk has its values `away` bytes after those of the one before, and its planes `apart`. */
EXPORT void molrec_split_planes(text_t values, int64_t away, int64_t count, int64_t size, uint8_t *planes, int64_t apart,
                                int64_t step, int64_t chunks) {
    for (; chunks-- > 0; values += away, planes += apart) split(values, count, size, planes, step);
}

EXPORT void molrec_merge_planes(text_t planes, int64_t apart, int64_t step, int64_t count, int64_t size, uint8_t *values,
                                int64_t away, int64_t chunks) {
    for (; chunks-- > 0; values += away, planes += apart) merge(planes, step, count, size, values);
}

/* Goes up with every change of what a function takes or means; as in __init__.py. */
EXPORT int molrec_abi(void) { return 2; }

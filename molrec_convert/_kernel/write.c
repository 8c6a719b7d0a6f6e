/* Columns of numbers and words to rows of text.

   Reals are written as the shortest text that reads back to the same double (the algorithm of Giulietti), or with a
   number of significant digits or of decimals as C's printf does, from exact integers of 128 bits. */
#include <stdio.h>

#include "number.h"

/* Kinds of a column: as in molrec_convert/text/output.py. */
enum { SHORTEST, GENERAL, DECIMALS, INTEGER, WORD, LOGICAL };

typedef struct {
    int64_t kind;
    int64_t digits;         /* GENERAL, DECIMALS: how many; SHORTEST: 1 leaves out ".0" */
    int64_t at, stride;     /* address of the first value, bytes to the next */
    int64_t width;          /* right-justified in so many characters, left-justified where negative; 0: as it is */
    int64_t words, bounds;  /* WORD: addresses of the texts one after another and of where they begin and end */
    int64_t before, length; /* address and length of what stands before the value */
} output_t;

static const char PAIRS[] = "00010203040506070809101112131415161718192021222324252627282930313233343536373839404142434445"
                            "46474849505152535455565758596061626364656667686970717273747576777879808182838485868788899091"
                            "9293949596979899";
static const uint64_t TENS[] = {1ULL, 10ULL, 100ULL, 1000ULL, 10000ULL, 100000ULL, 1000000ULL, 10000000ULL, 100000000ULL,
                                1000000000ULL, 10000000000ULL, 100000000000ULL, 1000000000000ULL, 10000000000000ULL,
                                100000000000000ULL, 1000000000000000ULL, 10000000000000000ULL, 100000000000000000ULL,
                                1000000000000000000ULL, 10000000000000000000ULL};

static inline int length_of(uint64_t value) {
    int n = ((64 - __builtin_clzll(value | 1)) * 1233) >> 12;
    return n + (n == 0 || value >= TENS[n < 20 ? n : 19]);
}

/* Write the last `n` digits of a number. */
static inline uint8_t *put_number(uint8_t *p, uint64_t value, int n) {
    uint8_t *q = p + n, *end = q;
    for (; q - p >= 2; value /= 100) memcpy(q -= 2, PAIRS + 2 * (value % 100), 2);
    if (q > p) *p = (uint8_t)('0' + value % 10);
    return end;
}

static uint8_t *put_exponent(uint8_t *p, int exponent) {
    *p++ = 'e';
    *p++ = exponent < 0 ? '-' : '+';
    if (exponent < 0) exponent = -exponent;
    return put_number(p, (uint64_t)exponent, exponent < 100 ? 2 : 3);
}

/* Write `n` digits whose first one counts 10^exponent, as decimals between `least` and `most`, else with an exponent.
   `tail`: ".0" where there is no decimal. */
static uint8_t *put_decimal(uint8_t *p, uint64_t digits, int n, int exponent, int least, int most, int tail) {
    uint8_t text[24];
    put_number(text, digits, n);
    if (exponent < least || exponent >= most) {
        *p++ = text[0];
        if (n > 1) {
            *p++ = '.';
            memcpy(p, text + 1, (size_t)n - 1);
            p += n - 1;
        }
        return put_exponent(p, exponent);
    }
    if (exponent < 0) {
        memcpy(p, "0.0000000000", 12);
        p += 1 - exponent;
        memcpy(p, text, (size_t)n);
        return p + n;
    }
    int whole = exponent + 1;
    if (n <= whole) {
        memcpy(p, text, (size_t)n);
        memset(p + n, '0', (size_t)(whole - n));
        p += whole;
        if (tail) {
            *p++ = '.';
            *p++ = '0';
        }
        return p;
    }
    memcpy(p, text, (size_t)whole);
    p[whole] = '.';
    memcpy(p + whole + 1, text + whole, (size_t)(n - whole));
    return p + n + 1;
}

static inline uint8_t *put_special(uint8_t *p, uint64_t bits) {
    if (bits & 0xFFFFFFFFFFFFFULL) return memcpy(p, "nan", 3), p + 3;
    if (bits >> 63) *p++ = '-';
    return memcpy(p, "inf", 3), p + 3;
}

static inline int strip_zeros(uint64_t *digits) {
    int zeros = 0;
    while (*digits % 10000 == 0) *digits /= 10000, zeros += 4;
    while (*digits % 10 == 0) *digits /= 10, zeros++;
    return zeros;
}

/* --- shortest ------------------------------------------------------------------------------------------------ */

static inline uint64_t round_to_odd(wide_t ten, uint64_t value) {
    wide_t low = multiply(ten.low, value), high = multiply(ten.high, value);
    uint64_t sum = high.low + low.high;
    return (high.high + (sum < high.low)) | (sum > 1);
}

/* The shortest decimal that rounds to a double (not zero), and of these the nearest: digits times 10^power. */
static uint64_t shortest(uint64_t bits, int *power) {
    uint64_t fraction = bits & 0xFFFFFFFFFFFFFULL, c = fraction;
    int exponent = (int)(bits >> 52 & 0x7FF), q = -1074;
    if (exponent) {
        c |= 1ULL << 52;
        q = exponent - 1075;
        if (q <= 0 && q > -53 && (c & ((1ULL << -q) - 1)) == 0) {
            *power = 0;
            return c >> -q;
        }
    }
    int even = !(c & 1), closer = !fraction && exponent > 1;
    int k = (q * 1262611 - (closer ? 524031 : 0)) >> 22;
    int h = q + ((-k * 1741647) >> 19) + 1;
    const uint64_t *row = POWERS[-k - SMALLEST_POWER];
    /* powers that are cut off are rounded up here */
    wide_t ten = {row[0], row[1] + (-k > 55)};
    ten.high += -k > 55 && !ten.low;
    uint64_t value = round_to_odd(ten, (4 * c) << h);
    uint64_t lower = round_to_odd(ten, (4 * c - 2 + (uint64_t)closer) << h) + !even;
    uint64_t upper = round_to_odd(ten, (4 * c + 2) << h) - !even;
    uint64_t s = value / 4;
    if (s >= 10) {
        uint64_t tens = s / 10;
        int below = lower <= 40 * tens, above = 40 * tens + 40 <= upper;
        if (below != above) {
            *power = k + 1;
            return tens + (uint64_t)above;
        }
    }
    *power = k;
    int below = lower <= 4 * s, above = 4 * s + 4 <= upper;
    if (below != above) return s + (uint64_t)above;
    uint64_t middle = 4 * s + 2;
    return s + (value > middle || (value == middle && (s & 1)));
}

static uint8_t *put_shortest(uint8_t *p, uint64_t bits, int trim) {
    if ((bits >> 52 & 0x7FF) == 0x7FF) return put_special(p, bits);
    if (bits >> 63) *p++ = '-';
    bits &= ~(1ULL << 63);
    int power = 0;
    uint64_t digits = 0;
    if (bits) {
        digits = shortest(bits, &power);
        power += strip_zeros(&digits);
    }
    int n = length_of(digits);
    return put_decimal(p, digits, n, power + n - 1, -4, 16, !trim);
}

/* --- a number of digits -------------------------------------------------------------------------------------- */

/* printf itself, and a point whatever the locale says. */
static uint8_t *put_printf(uint8_t *p, double value, int digits, int general) {
    char room[1100];
    int n = snprintf(room, sizeof room, general ? "%.*g" : "%.*f", digits, value), foreign = 0;
    for (int i = 0; i < n && i < (int)sizeof room - 1; i++) {
        char c = room[i];
        if ((c >= '0' && c <= '9') || c == '-' || c == '+' || c == 'e') {
            *p++ = (uint8_t)c;
            foreign = 0;
        } else if (!foreign) {
            *p++ = '.';
            foreign = 1;
        }
    }
    return p;
}

#ifdef __SIZEOF_INT128__
typedef unsigned __int128 huge_t;

static const uint64_t FIVES[] = {1ULL, 5ULL, 25ULL, 125ULL, 625ULL, 3125ULL, 15625ULL, 78125ULL, 390625ULL, 1953125ULL,
                                 9765625ULL, 48828125ULL, 244140625ULL, 1220703125ULL, 6103515625ULL, 30517578125ULL,
                                 152587890625ULL, 762939453125ULL, 3814697265625ULL, 19073486328125ULL,
                                 95367431640625ULL, 476837158203125ULL, 2384185791015625ULL, 11920928955078125ULL,
                                 59604644775390625ULL, 298023223876953125ULL, 1490116119384765625ULL,
                                 7450580596923828125ULL};

/* The number mantissa * 2^exponent * 10^power rounded down, and whether rounding to even goes up; 0: out of reach. */
static inline int scaled(uint64_t mantissa, int exponent, int power, uint64_t *down, int *up) {
    huge_t whole;
    if (power >= 0) {
        if (power > 27) return 0;
        huge_t product = (huge_t)mantissa * FIVES[power];
        int shift = exponent + power;
        if (shift >= 0) {
            if (shift > 10) return 0;
            whole = product << shift;
            *up = 0;
        } else if (shift <= -127) {
            whole = 0;
            *up = 0; /* the product has fewer than 117 bits */
        } else {
            whole = product >> -shift;
            huge_t rest = product & (((huge_t)1 << -shift) - 1), half = (huge_t)1 << (-shift - 1);
            *up = rest > half || (rest == half && (whole & 1));
        }
    } else {
        int shift = exponent + power;
        if (power < -27 || shift > 70 || shift < -60) return 0;
        huge_t above = mantissa, below = FIVES[-power];
        if (shift >= 0) above <<= shift;
        else below <<= -shift;
        whole = above / below;
        huge_t rest = 2 * (above - whole * below);
        *up = rest > below || (rest == below && (whole & 1));
    }
    if (whole >> 63) return 0;
    *down = (uint64_t)whole;
    return 1;
}
#endif

static inline void parts_of(uint64_t bits, uint64_t *mantissa, int *exponent) {
    *mantissa = bits & 0xFFFFFFFFFFFFFULL;
    *exponent = (int)(bits >> 52 & 0x7FF);
    if (*exponent) *mantissa |= 1ULL << 52;
    else *exponent = 1;
    *exponent -= 1075;
}

static uint8_t *put_general(uint8_t *p, uint64_t bits, int n) {
    if ((bits >> 52 & 0x7FF) == 0x7FF) return put_special(p, bits);
    if (n < 1) n = 1;
    if (!(bits << 1)) {
        if (bits) *p++ = '-';
        *p++ = '0';
        return p;
    }
#ifdef __SIZEOF_INT128__
    uint64_t mantissa, number;
    int exponent, up;
    parts_of(bits, &mantissa, &exponent);
    int first = ((exponent + 63 - __builtin_clzll(mantissa)) * 1262611) >> 22; /* of the first digit, or one too low */
    if (n <= 17 && scaled(mantissa, exponent, n - 1 - first, &number, &up)) {
        if (number >= TENS[n] && !scaled(mantissa, exponent, n - 1 - ++first, &number, &up))
            return put_printf(p, from_bits(bits), n, 1);
        number += (uint64_t)up;
        if (number == TENS[n]) {
            number = TENS[n - 1];
            first++;
        }
        if (bits >> 63) *p++ = '-';
        int zeros = strip_zeros(&number);
        return put_decimal(p, number, n - zeros, first, -4, n, 0);
    }
#endif
    return put_printf(p, from_bits(bits), n, 1);
}

static uint8_t *put_decimals(uint8_t *p, uint64_t bits, int n) {
    if ((bits >> 52 & 0x7FF) == 0x7FF) return put_special(p, bits);
#ifdef __SIZEOF_INT128__
    uint64_t mantissa, number;
    int exponent, up;
    parts_of(bits, &mantissa, &exponent);
    if (n >= 0 && n <= 18 && scaled(mantissa, exponent, n, &number, &up)) {
        if (bits >> 63) *p++ = '-';
        number += (uint64_t)up;
        uint64_t whole = number / TENS[n];
        p = put_number(p, whole, length_of(whole));
        if (!n) return p;
        *p++ = '.';
        return put_number(p, number - whole * TENS[n], n);
    }
#endif
    return put_printf(p, from_bits(bits), n, 0);
}

/* --- rows ---------------------------------------------------------------------------------------------------- */

/* The longest text of a number: what precedes the point in DECIMALS has up to 309 digits. */
static int64_t longest(const output_t *c) {
    return c->kind == DECIMALS ? 320 + c->digits : c->kind == GENERAL ? 16 + c->digits : 32;
}

/* Write rows from `first` on, each closed by `end`, as far as there is room; the number of the row after the last one.
   `used`: bytes that were written. `ends`: where each row ends, if wanted. `fault`: a row and a field that is wider than
   its width, at which writing stops. */
EXPORT int64_t molrec_write_rows(const output_t *columns, int64_t n_columns, int64_t first, int64_t rows,
                                 const uint8_t *end, int64_t end_length, uint8_t *out, int64_t room, int64_t *used,
                                 int64_t *ends, int64_t *fault) {
    uint8_t *p = out, *limit = out + room;
    int64_t row = first;
    for (; row < rows; row++) {
        uint8_t *line = p;
        for (int64_t f = 0; f < n_columns; f++) {
            const output_t *c = columns + f;
            const uint8_t *at = (const uint8_t *)(intptr_t)c->at + row * c->stride, *word = NULL;
            int64_t width = c->width < 0 ? -c->width : c->width, need = longest(c);
            if (c->kind == WORD) {
                int32_t code;
                memcpy(&code, at, 4);
                const int64_t *bounds = (const int64_t *)(intptr_t)c->bounds + code;
                word = (const uint8_t *)(intptr_t)c->words + bounds[0];
                need = bounds[1] - bounds[0];
            }
            if (limit - p < c->length + need + width + end_length) {
                p = line;
                goto full;
            }
            memcpy(p, (const uint8_t *)(intptr_t)c->before, (size_t)c->length);
            p += c->length;
            uint8_t *begin = p;
            uint64_t bits;
            switch (c->kind) {
            case WORD:
                memcpy(p, word, (size_t)need);
                p += need;
                break;
            case LOGICAL:
                *p++ = *at ? 'T' : 'F';
                break;
            case INTEGER: {
                memcpy(&bits, at, 8);
                if (bits >> 63) {
                    *p++ = '-';
                    bits = 0 - bits;
                }
                p = put_number(p, bits, length_of(bits));
                break;
            }
            default:
                memcpy(&bits, at, 8);
                p = c->kind == SHORTEST  ? put_shortest(p, bits, (int)c->digits)
                    : c->kind == GENERAL ? put_general(p, bits, (int)c->digits)
                                         : put_decimals(p, bits, (int)c->digits);
            }
            if (width) {
                int64_t n = p - begin;
                if (n > width) {
                    fault[0] = row;
                    fault[1] = f;
                    p = line;
                    goto full;
                }
                if (c->width > 0) {
                    memmove(begin + width - n, begin, (size_t)n);
                    memset(begin, ' ', (size_t)(width - n));
                } else memset(p, ' ', (size_t)(width - n));
                p = begin + width;
            }
        }
        if (limit - p < end_length) {
            p = line;
            break;
        }
        memcpy(p, end, (size_t)end_length);
        p += end_length;
        if (ends) ends[row] = p - out;
    }
full:
    *used = p - out;
    return row;
}

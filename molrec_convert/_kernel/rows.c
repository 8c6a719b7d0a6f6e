/* Rows of text to columns of numbers and words.

   Numbers are read as the nearest double: digits eight at a time, then one exact product or quotient, the
   algorithm of Eisel and Lemire (128-bit product, no fallback for up to 19 digits), or a comparison of long
   integers. Nothing here depends on the locale. The plain twin of this file is molrec_convert/text/twin.py. */
#include "number.h"

/* Kinds of a field, flags of a call, and reasons of a fault: as in molrec_convert/text/rows.py. */
enum { REAL, FORTRAN, FINITE, INTEGER, WORD, LOGICAL, SKIP };
enum { EXTRA = 1 };
enum { GOOD, BLANK, VALUE, RANGE, FEW, MANY, ROWS_FEW, ROWS_MANY };

/* Text behind the end of a line that may be looked at. */
#define PAD 32
#define WIDEST 255

typedef struct {
    int64_t kind;
    int64_t from, to;    /* fixed columns, or -1 */
    int64_t out, stride; /* address of the first value, bytes to the next; no address: not wanted */
    int64_t flaws;       /* address of a byte for each row: what is wrong there is noted and reading goes on */
    int64_t words;       /* WORD: address of begin and end of each different word; in the end `count` of them */
    int64_t count;
} column_t;

typedef struct { uint64_t key; int64_t code, length; } entry_t;
typedef struct { entry_t *entries; int64_t size, used; entry_t last; } dictionary_t;

static const uint64_t INTEGER_POWERS[] = {
    1ULL, 10ULL, 100ULL, 1000ULL, 10000ULL, 100000ULL, 1000000ULL, 10000000ULL, 100000000ULL};
static const double EXACT_POWERS[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                      1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
static const uint8_t IS_BLANK[256] = {[9] = 1, [11] = 1, [12] = 1, [13] = 1, [32] = 1};
/* Blanks, and what ends a line. */
static const uint8_t IS_END[256] = {[9] = 1, [10] = 1, [11] = 1, [12] = 1, [13] = 1, [32] = 1};

/* --- numbers ------------------------------------------------------------------------------------------------- */

/* Add up to eight digits at `p` to `*number`, and return how many there are. */
static inline int digits8(text_t p, uint64_t *number) {
    uint64_t v = load8(p) ^ 0x3030303030303030ULL;
    uint64_t others = (((v & 0x7F7F7F7F7F7F7F7FULL) + 0x7676767676767676ULL) | v) & 0x8080808080808080ULL;
    int n = 8;
    if (others) {
        n = __builtin_ctzll(others) >> 3;
        if (!n) return 0;
        v <<= 64 - 8 * n;
    }
    v = v * 10 + (v >> 8);
    v = ((v & 0x000000FF000000FFULL) * (100 + (1000000ULL << 32)) +
         ((v >> 16) & 0x000000FF000000FFULL) * (1 + (10000ULL << 32))) >> 32;
    *number = *number * INTEGER_POWERS[n] + v;
    return n;
}

static inline text_t skip_digits(text_t p) {
    while ((uint8_t)(*p - '0') < 10) p++;
    return p;
}

/* The bits of digits * 10^power, rounded to even: the algorithm of Eisel and Lemire. */
static uint64_t rounded(uint64_t digits, int64_t power) {
    if (!digits || power < SMALLEST_POWER) return 0;
    if (power > 308) return 0x7FF0000000000000ULL;
    int zeros = __builtin_clzll(digits);
    digits <<= zeros;
    const uint64_t *wide = POWERS[power - SMALLEST_POWER];
    wide_t product = multiply(digits, wide[0]);
    if ((product.high & 0x1FF) == 0x1FF) {
        uint64_t carry = multiply(digits, wide[1]).high;
        product.low += carry;
        product.high += product.low < carry;
    }
    int upper = (int)(product.high >> 63), shift = upper + 9;
    uint64_t mantissa = product.high >> shift;
    int64_t exponent = ((217706 * power) >> 16) + 63 + upper - zeros + 1023;
    if (exponent <= 0) {
        if (exponent <= -63) return 0;
        mantissa >>= 1 - exponent;
        return (mantissa + (mantissa & 1)) >> 1; /* a carry into the exponent is what it should be */
    }
    /* halfway between two: only for powers whose product is exact */
    if (product.low <= 1 && power >= -4 && power <= 23 && (mantissa & 3) == 1 && mantissa << shift == product.high)
        mantissa &= ~1ULL;
    mantissa = (mantissa + (mantissa & 1)) >> 1;
    if (mantissa >> 53) {
        mantissa >>= 1;
        exponent++;
    }
    if (exponent >= 0x7FF) return 0x7FF0000000000000ULL;
    return (mantissa & 0xFFFFFFFFFFFFFULL) | (uint64_t)exponent << 52;
}

/* Long integers of at most 32 * LONG bits, the lowest part first. */
#define LONG 320
typedef struct { int n; uint32_t part[LONG]; } long_t;

static void long_times(long_t *a, uint32_t factor, uint32_t carry) {
    for (int i = 0; i < a->n; i++) {
        uint64_t value = (uint64_t)a->part[i] * factor + carry;
        a->part[i] = (uint32_t)value;
        carry = (uint32_t)(value >> 32);
    }
    if (carry) a->part[a->n++] = carry;
}

static void long_times_fives(long_t *a, int64_t count) {
    for (; count >= 13; count -= 13) long_times(a, 1220703125, 0);
    while (count-- > 0) long_times(a, 5, 0);
}

static void long_shift(long_t *a, int64_t bits) {
    long_times(a, 1u << (bits & 31), 0);
    int parts = (int)(bits >> 5);
    memmove(a->part + parts, a->part, 4 * (size_t)a->n);
    memset(a->part, 0, 4 * (size_t)parts);
    a->n += parts;
}

static int long_compare(const long_t *a, const long_t *b) {
    if (a->n != b->n) return a->n < b->n ? -1 : 1;
    for (int i = a->n - 1; i >= 0; i--)
        if (a->part[i] != b->part[i]) return a->part[i] < b->part[i] ? -1 : 1;
    return 0;
}

/* Which of the neighbours `low` and the one after it is nearest to the digits in [p, end) (and a point) times 10^power,
   where power is that of the last digit. More than 780 digits are told from fewer by one that is not zero. */
static uint64_t nearer(uint64_t low, text_t p, text_t end, int64_t power) {
    long_t text = {0, {0}}, half = {2, {0}};
    int taken = 0, sticky = 0;
    for (; p < end; p++) {
        if (*p == '.') continue;
        if (taken < 780) {
            long_times(&text, 10, (uint32_t)(*p - '0'));
            taken += text.n > 0;
        } else {
            sticky |= *p != '0';
            power++;
        }
    }
    if (sticky) {
        long_times(&text, 10, 1);
        power--;
    }
    uint64_t fraction = low & 0xFFFFFFFFFFFFFULL;
    int64_t exponent = (int64_t)(low >> 52);
    uint64_t middle = 2 * (exponent ? fraction | 1ULL << 52 : fraction) + 1;
    int64_t shift = (exponent ? exponent : 1) - 1076;
    half.part[0] = (uint32_t)middle;
    half.part[1] = (uint32_t)(middle >> 32);
    half.n = half.part[1] ? 2 : 1;
    if (power >= 0) long_times_fives(&text, power);
    else long_times_fives(&half, -power);
    shift -= power;
    if (shift >= 0) long_shift(&half, shift);
    else long_shift(&text, -shift);
    int order = long_compare(&text, &half);
    return low + (order > 0 || (order == 0 && (low & 1)));
}

static int is_letters(text_t p, const char *lower, int n) {
    for (int i = 0; i < n; i++)
        if ((p[i] | 0x20) != lower[i]) return 0;
    return 1;
}

/* Read a real number at `*at`; GOOD, or what is wrong with it. `*at` is then behind what was read. */
static inline int read_real(text_t *at, int kind, double *out) {
    text_t p = *at;
    uint64_t sign = (uint64_t)(*p == '-') << 63;
    p += (*p == '-') | (*p == '+');
    text_t first = p;
    uint64_t digits = 0;
    int n = digits8(p, &digits);
    p += n;
    if (n == 8) {
        while ((n = digits8(p, &digits))) p += n;
    }
    int64_t count = p - first, power = 0;
    if (*p == '.') {
        text_t point = ++p;
        do p += n = digits8(p, &digits);
        while (n == 8);
        power = point - p;
        count -= power;
    }
    if (!count) {
        if (kind == FINITE) return VALUE;
        if (is_letters(first, "nan", 3)) {
            *out = from_bits(0x7FF8000000000000ULL | sign);
            *at = first + 3;
        } else if (is_letters(first, "inf", 3)) {
            *out = from_bits(0x7FF0000000000000ULL | sign);
            *at = first + (is_letters(first + 3, "inity", 5) ? 8 : 3);
        } else return VALUE;
        return p == first ? GOOD : VALUE;
    }
    text_t last = p;
    int64_t before = power; /* of the last digit that is written */
    int mark = *p | 0x20;
    if (mark == 'e' || (kind == FORTRAN && (mark == 'd' || (*p == '*' && p[1] == '^')))) {
        p += *p == '*' ? 2 : 1;
        int minus = *p == '-';
        p += (*p == '-') | (*p == '+');
        text_t begin = p;
        int64_t exponent = 0;
        for (; (uint8_t)(*p - '0') < 10; p++)
            if (exponent < 1000000000000000LL) exponent = 10 * exponent + (*p - '0');
        if (p == begin) return VALUE;
        power += minus ? -exponent : exponent;
        before = power;
    }
    *at = p;
    uint64_t bits;
    if (count > 19) {
        /* zeros in front do not count */
        text_t q = first;
        while (q < last && (*q == '0' || *q == '.')) q++;
        text_t start = q;
        count = 0;
        digits = 0;
        for (; q < last && count < 19; q++)
            if (*q != '.') {
                digits = 10 * digits + (uint64_t)(*q - '0');
                count++;
            }
        int64_t left = 0;
        for (; q < last; q++) left += *q != '.';
        bits = rounded(digits, power + left);
        if (left && bits != rounded(digits + 1, power + left)) bits = nearer(bits, start, last, before);
    } else if (digits >> 53 == 0 && power >= -22 && power <= 22) {
        double value = (double)(int64_t)digits;
        value = power < 0 ? value / EXACT_POWERS[-power] : value * EXACT_POWERS[power];
        *out = from_bits(to_bits(value) | sign);
        return GOOD;
    } else bits = rounded(digits, power);
    *out = from_bits(bits | sign);
    return bits == 0x7FF0000000000000ULL ? RANGE : GOOD;
}

/* Read an integer of 64 bits; GOOD, or what is wrong with it. `*at` is then behind what was read. */
static inline int read_integer(text_t *at, int64_t *out) {
    text_t p = *at;
    int minus = *p == '-';
    p += (*p == '-') | (*p == '+');
    uint64_t number = 0;
    int n = digits8(p, &number), whole = n;
    if (n == 8) {
        n = digits8(p + 8, &number);
        whole += n;
    }
    p += whole;
    if (n == 8) {
        /* 16 digits are read; zeros in front do not count */
        for (; (uint8_t)(*p - '0') < 10; p++) {
            uint64_t digit = (uint64_t)(*p - '0');
            if (number > (INT64_MAX + (uint64_t)minus - digit) / 10) {
                *at = skip_digits(p);
                return RANGE;
            }
            number = 10 * number + digit;
        }
    }
    *at = p;
    if (!whole) return VALUE;
    *out = (int64_t)(minus ? 0 - number : number);
    return GOOD;
}

/* T, True, true, TRUE or their opposites. */
static int read_logical(text_t p, int64_t n, uint8_t *out) {
    int yes = (n == 1 && *p == 'T') ||
              (n == 4 && (!memcmp(p, "True", 4) || !memcmp(p, "true", 4) || !memcmp(p, "TRUE", 4)));
    int no = (n == 1 && *p == 'F') ||
             (n == 5 && (!memcmp(p, "False", 5) || !memcmp(p, "false", 5) || !memcmp(p, "FALSE", 5)));
    *out = (uint8_t)yes;
    return yes || no ? GOOD : VALUE;
}

/* --- words --------------------------------------------------------------------------------------------------- */

static inline uint64_t word_key(text_t p, int64_t n) {
    if (n <= 8) return n ? load8(p) & (~0ULL >> (64 - 8 * n)) : 0;
    uint64_t key = 0x9E3779B97F4A7C15ULL ^ (uint64_t)n;
    for (; n > 8; n -= 8, p += 8) key = (key ^ load8(p)) * 0xD6E8FEB86659FD93ULL, key ^= key >> 32;
    return (key ^ (load8(p) & (~0ULL >> (64 - 8 * n)))) * 0xD6E8FEB86659FD93ULL;
}

static inline int64_t slot_of(uint64_t key, int64_t length, int64_t size) {
    uint64_t hash = (key ^ (uint64_t)length << 56) * 0x9E3779B97F4A7C15ULL;
    return (int64_t)(hash >> 32) & (size - 1);
}

static int grow(dictionary_t *d) {
    int64_t size = d->size ? 4 * d->size : 64;
    entry_t *entries = calloc((size_t)size, sizeof *entries);
    if (!entries) return 0;
    for (int64_t i = 0; i < d->size; i++) {
        entry_t entry = d->entries[i];
        if (!entry.code) continue;
        int64_t slot = slot_of(entry.key, entry.length, size);
        while (entries[slot].code) slot = (slot + 1) & (size - 1);
        entries[slot] = entry;
    }
    free(d->entries);
    d->entries = entries;
    d->size = size;
    return 1;
}

/* The code of a word, which stands at `offset` of the text `whole`; -1 where there is no memory. */
static int64_t code_of(dictionary_t *d, column_t *c, text_t p, int64_t n, text_t whole, int64_t offset) {
    uint64_t key = word_key(p, n);
    if (d->last.code && d->last.key == key && d->last.length == n && n <= 8) return d->last.code - 1;
    if (2 * d->used >= d->size && !grow(d)) return -1;
    int64_t *words = (int64_t *)(intptr_t)c->words, slot = slot_of(key, n, d->size);
    entry_t *entry;
    while ((entry = d->entries + slot)->code) {
        if (entry->key == key && entry->length == n &&
            (n <= 8 || !memcmp(whole + words[2 * (entry->code - 1)], p, (size_t)n)))
            break;
        slot = (slot + 1) & (d->size - 1);
    }
    if (!entry->code) {
        words[2 * c->count] = offset;
        words[2 * c->count + 1] = offset + n;
        c->count++;
        d->used++;
        *entry = (entry_t){key, c->count, n};
    }
    d->last = *entry;
    return entry->code - 1;
}

/* --- rows ---------------------------------------------------------------------------------------------------- */

typedef struct {
    text_t text;          /* all of it */
    column_t *columns;
    int64_t n_columns;
    int comment, flags;
    int64_t *comments;    /* begin and end of the comment of each row, or none */
    dictionary_t *dictionaries;
    int64_t row;          /* of all spans */
    int64_t *fault;       /* span, row in it, field, reason, begin and end of the word or line at fault */
} job_t;

static int fail(job_t *job, int64_t field, int reason, int64_t begin, int64_t end) {
    job->fault[2] = field;
    job->fault[3] = reason;
    job->fault[4] = begin;
    job->fault[5] = end;
    return 0;
}

/* A field is at fault, unless its line has too few or many fields: that is said first. */
static int fail_field(job_t *job, int64_t field, int reason, text_t line, text_t word, text_t end, int64_t shift) {
    int64_t count = 0;
    text_t p = line;
    for (;; count++) {
        while (IS_BLANK[*p]) p++;
        if (*p == '\n' || (job->comment && *p == job->comment)) break;
        while (!IS_END[*p]) p++;
    }
    while (*p != '\n') p++;
    int64_t n = job->n_columns;
    if (count < n) return fail(job, count, FEW, line - job->text + shift, p - job->text + shift);
    if (count > n && !(job->flags & EXTRA)) return fail(job, n, MANY, line - job->text + shift, p - job->text + shift);
    return fail(job, field, reason, word - job->text + shift, end - job->text + shift);
}

/* Put the word at `p` where its column has the value of this row. Return GOOD or a reason; -1: no memory. It ends at
   `end`, or, where that is not given, at the next blank. */
static inline int take(job_t *job, int64_t f, text_t p, text_t *stop, text_t end, int64_t offset) {
    column_t *c = job->columns + f;
    uint8_t *out = (uint8_t *)(intptr_t)c->out + c->stride * job->row;
    int reason = GOOD;
    text_t q = p;
    switch (c->kind) {
    case REAL: case FORTRAN: case FINITE: {
        double value = 0;
        reason = read_real(&q, (int)c->kind, &value);
        if (end ? q != end : !IS_END[*q]) reason = VALUE;
        if (c->out) {
            if (reason == VALUE) value = from_bits(0x7FF8000000000000ULL);
            memcpy(out, &value, 8);
        }
        break;
    }
    case INTEGER: {
        int64_t value = 0;
        reason = read_integer(&q, &value);
        if (end ? q != end : !IS_END[*q]) reason = VALUE;
        if (c->out) {
            if (reason) value = 0;
            memcpy(out, &value, 8);
        }
        break;
    }
    default: {
        if (!end) {
            while (!IS_END[*q]) q++;
            end = q;
        }
        q = end;
        if (c->kind == LOGICAL) {
            uint8_t value;
            reason = read_logical(p, end - p, &value);
            if (c->out) *out = value;
        } else if (c->kind == WORD && c->out) {
            int64_t code = code_of(job->dictionaries + f, c, p, end - p, job->text, offset);
            if (code < 0) return -1;
            int32_t value = (int32_t)code;
            memcpy(out, &value, 4);
        }
    }
    }
    *stop = q;
    return reason;
}

/* Rows of fields parted by blanks, from `p` to `end`; every line has its end. `shift`: offset of `p` == text + offset. */
static int free_rows(job_t *job, text_t p, text_t end, int64_t shift, int64_t *left) {
    for (; *left; (*left)--, job->row++) {
        if (p >= end) return 1;
        text_t line = p;
        for (int64_t f = 0; f < job->n_columns; f++) {
            while (IS_BLANK[*p]) p++;
            if (*p == '\n' || (job->comment && *p == job->comment)) {
                while (*p != '\n') p++;
                return fail(job, f, FEW, line - job->text + shift, p - job->text + shift);
            }
            text_t word = p;
            int reason = take(job, f, p, &p, NULL, p - job->text + shift);
            if (reason) {
                if (reason < 0) return -1;
                while (!IS_END[*p]) p++;
                if (!job->columns[f].flaws) return fail_field(job, f, reason, line, word, p, shift);
            }
            if (job->columns[f].flaws) ((uint8_t *)(intptr_t)job->columns[f].flaws)[job->row] = (uint8_t)reason;
        }
        while (IS_BLANK[*p]) p++;
        text_t rest = p;
        if (*p != '\n') {
            p = memchr(p, '\n', (size_t)(end - p));
            if (!job->comment || *rest != job->comment) {
                if (!(job->flags & EXTRA))
                    return fail(job, job->n_columns, MANY, line - job->text + shift, p - job->text + shift);
                /* more fields stand before the comment */
                while (rest < p && !(job->comment && *rest == job->comment && IS_BLANK[rest[-1]])) rest++;
            }
        }
        if (job->comments) {
            int there = rest < p;
            job->comments[2 * job->row] = there ? rest + 1 - job->text + shift : -1;
            job->comments[2 * job->row + 1] = there ? p - job->text + shift : -1;
        }
        p++;
    }
    if (p < end) {
        text_t stop = memchr(p, '\n', (size_t)(end - p));
        return fail(job, -1, ROWS_MANY, p - job->text + shift, stop - job->text + shift);
    }
    return 1;
}

/* Rows of fields in fixed columns. NUL characters are blanks there. */
static int fixed_rows(job_t *job, text_t p, text_t end, int64_t shift, int64_t *left) {
    uint8_t room[WIDEST + 1 + PAD];
    for (; *left; (*left)--, job->row++) {
        if (p >= end) return 1;
        text_t line = p, stop = memchr(p, '\n', (size_t)(end - p));
        int64_t length = stop - line;
        for (int64_t f = 0; f < job->n_columns; f++) {
            column_t *c = job->columns + f;
            if (c->kind == SKIP) continue;
            text_t a = line + (c->from < length ? c->from : length), b = line + (c->to < length ? c->to : length);
            int reason;
            while (b > a && (IS_BLANK[b[-1]] || !b[-1])) b--;
            int64_t offset;
            if (c->kind == WORD) {
                offset = a - job->text + shift;
                reason = take(job, f, a, &a, b, offset);
            } else {
                while (a < b && (IS_BLANK[*a] || !*a)) a++;
                offset = a - job->text + shift;
                int64_t n = b - a;
                if (!n) {
                    reason = BLANK;
                    double none = from_bits(0x7FF8000000000000ULL);
                    uint8_t *out = (uint8_t *)(intptr_t)c->out + c->stride * job->row;
                    if (c->out && c->kind <= FINITE) memcpy(out, &none, 8);
                    else if (c->out) memset(out, 0, c->kind == LOGICAL ? 1 : 8);
                } else {
                    text_t q = a;
                    reason = take(job, f, a, &q, b, offset);
                    if (reason == VALUE) {
                        /* what follows may have been taken for a part of it */
                        memcpy(room, a, (size_t)n);
                        memset(room + n, '\n', 9);
                        q = room;
                        reason = take(job, f, room, &q, room + n, offset);
                    }
                }
            }
            if (reason < 0) return -1;
            if (c->flaws) ((uint8_t *)(intptr_t)c->flaws)[job->row] = (uint8_t)reason;
            else if (reason) return fail(job, f, reason, offset, b - job->text + shift);
        }
        p = stop + 1;
    }
    if (p < end) {
        text_t stop = memchr(p, '\n', (size_t)(end - p));
        return fail(job, -1, ROWS_MANY, p - job->text + shift, stop - job->text + shift);
    }
    return 1;
}

static int read_lines(job_t *job, text_t p, text_t end, int64_t shift, int64_t *left) {
    int fixed = job->n_columns && job->columns[0].from >= 0;
    return fixed ? fixed_rows(job, p, end, shift, left) : free_rows(job, p, end, shift, left);
}

/* One span: lines that end near the end of the text, or have no end, are read from a copy with room behind it. */
static int read_span(job_t *job, int64_t size, int64_t start, int64_t stop, int64_t rows) {
    int64_t left = rows, cut = stop;
    text_t text = job->text;
    if (stop > size - PAD || (stop > start && text[stop - 1] != '\n')) {
        if (cut > size - PAD) cut = size - PAD;
        if (cut < start) cut = start;
        while (cut > start && text[cut - 1] != '\n') cut--;
    }
    int good = read_lines(job, text + start, text + cut, 0, &left);
    if (good == 1 && cut < stop) {
        int64_t length = stop - cut;
        uint8_t small[1024], *copy = small;
        if (length + PAD + 1 > (int64_t)sizeof small && !(copy = malloc((size_t)length + PAD + 1))) return -1;
        memcpy(copy, text + cut, (size_t)length);
        if (copy[length - 1] != '\n') copy[length++] = '\n';
        memset(copy + length, 0, PAD);
        good = read_lines(job, copy, copy + length, text + cut - copy, &left);
        if (copy != small) free(copy);
    }
    if (good == 1 && left) {
        job->fault[1] = rows - left;
        return fail(job, -1, ROWS_FEW, stop, stop);
    }
    if (good == 0) job->fault[1] = rows - left;
    return good;
}

/* Read rows: `spans` has begin, end and number of rows of each. 1: done; 0: `fault` says where not; -1: no
   memory; -2: a span that does not lie in the text. */
EXPORT int molrec_read_rows(text_t text, int64_t size, const int64_t *spans, int64_t n_spans, column_t *columns,
                            int64_t n_columns, int comment, int flags, int64_t *comments, int64_t *fault) {
    for (int64_t s = 0; s < n_spans; s++)
        if (spans[3 * s] < 0 || spans[3 * s] > spans[3 * s + 1] || spans[3 * s + 1] > size || spans[3 * s + 2] < 0)
            return -2;
    dictionary_t few[16] = {{0}}, *dictionaries = few;
    if (n_columns > 16 && !(dictionaries = calloc((size_t)n_columns, sizeof *dictionaries))) return -1;
    job_t job = {text, columns, n_columns, comment, flags, comments, dictionaries, 0, fault};
    int good = 1;
    for (int64_t s = 0; s < n_spans && good == 1; s++) {
        fault[0] = s;
        good = read_span(&job, size, spans[3 * s], spans[3 * s + 1], spans[3 * s + 2]);
    }
    for (int64_t f = 0; f < n_columns; f++) free(dictionaries[f].entries);
    if (dictionaries != few) free(dictionaries);
    return good;
}

/* Count the lines of each span (begin, end, number: to be filled in); the last one may lack its end. */
EXPORT void molrec_count_lines(text_t text, int64_t *spans, int64_t n_spans) {
    for (int64_t s = 0; s < n_spans; s++) {
        text_t p = text + spans[3 * s], end = text + spans[3 * s + 1];
        int64_t lines = p < end && end[-1] != '\n';
        while (p < end) {
            text_t stop = end - p > 1 << 16 ? p + (1 << 16) : end;
            uint32_t here = 0;
            for (; p < stop; p++) here += *p == '\n';
            lines += here;
        }
        spans[3 * s + 2] = lines;
    }
}

/* Find the ends of the lines in [start, stop): the offset of each newline. At most `most`; how many there are. */
EXPORT int64_t molrec_line_ends(text_t text, int64_t start, int64_t stop, int64_t *ends, int64_t most) {
    int64_t found = 0;
    text_t p = text + start, end = text + stop;
    while (found < most && end - p >= 8) {
        uint64_t v = load8(p) ^ 0x0A0A0A0A0A0A0A0AULL;
        uint64_t mask = ~(((v & 0x7F7F7F7F7F7F7F7FULL) + 0x7F7F7F7F7F7F7F7FULL) | v) & 0x8080808080808080ULL;
        for (; mask && found < most; mask &= mask - 1) ends[found++] = p - text + (__builtin_ctzll(mask) >> 3);
        p += 8;
    }
    for (; found < most && p < end; p++)
        if (*p == '\n') ends[found++] = p - text;
    return found;
}

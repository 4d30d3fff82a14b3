/* Figures for people: bytes, counts, durations and rates, printed with three significant digits and
 * parsed back. Printing never yields "1024 KiB" or "60.0 s": a value that rounds up to the next
 * unit uses it. For every figure print(parse(print(x))) == print(x). Buffers: CS_UNITS_CAP is
 * enough. */
#ifndef CS_BASE_UNITS_H
#define CS_BASE_UNITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CS_UNITS_CAP 32

/* "512 B" "1.50 KiB" "38.6 MiB" */
void cs_bytes_print(char *out, size_t cap, uint64_t bytes);
/* "4096" "64KiB" "64 k" "1.5G" (k, M, G without iB mean the same powers of 1024) "2GB" (1000^3) */
bool cs_bytes_parse(const char *text, uint64_t *bytes);

/* "999" "12.3k" "12.3M" powers of 1000 */
void cs_count_print(char *out, size_t cap, uint64_t count);
bool cs_count_parse(const char *text, uint64_t *count);

/* "850 ns" "12.3 us" "236 ms" "12.3 s" "1m02s" "3h07m" "2d05h" */
void cs_duration_print(char *out, size_t cap, uint64_t ns);
/* also sums: "1h30m", "90" (seconds), "1.5 ms" */
bool cs_duration_parse(const char *text, uint64_t *ns);

/* The word that goes with a count: "%d rank%s", n, CS_PLURAL(n); "%d %s", n, CS_NOUN(n, "copy", "copies"). n is of any
 * type of numbers, and has no side effects. */
#define CS_NOUN(n, one, many) ((n) == 1 ? (one) : (many))
#define CS_PLURAL(n)          CS_NOUN(n, "", "s")

/* "12.3k tokens/s"; "-" when not finite or negative */
void cs_rate_print(char *out, size_t cap, double per_second, const char *unit);

#endif

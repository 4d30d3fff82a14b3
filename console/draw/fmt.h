/* Figures as the screens print them. Unknown (NaN, negative) prints "-". All write at most `cap`
 * bytes and terminate; CS_FMT_CAP is enough for every one. */
#ifndef CS_CONSOLE_DRAW_FMT_H
#define CS_CONSOLE_DRAW_FMT_H

#include <stddef.h>
#include <stdint.h>

enum { CS_FMT_CAP = 32 };

void cs_fmt_ms(char *out, size_t cap, double ns);      /* "231.0" "12.34" "0.123": milliseconds */
void cs_fmt_gib(char *out, size_t cap, int64_t bytes); /* "81.2" "3.04" "0.0123": GiB */
void cs_fmt_percent(char *out, size_t cap, double ratio); /* 0.32 -> "32.0%" */
void cs_fmt_drift(char *out, size_t cap, double ratio); /* 0.022 -> "+2.2%", from +1000% "x12.3" */
void cs_fmt_loss(char *out, size_t cap, double loss);   /* "2.113" "0.0123" "4.1e-05" "nan" */
void cs_fmt_known_loss(char *out, size_t cap, double loss);   /* NaN is "-" */
void cs_fmt_elapsed(char *out, size_t cap, int64_t ns);       /* "03:08" "01:02:03" "3d01h" */
void cs_fmt_clock(char *out, size_t cap, int64_t wall_ns);    /* local "10:31:02" */
void cs_fmt_clock_ms(char *out, size_t cap, int64_t wall_ns); /* local "10:31:02.118" */
void cs_fmt_count(char *out, size_t cap, int64_t count);      /* "999" "12.3k" */
void cs_fmt_tokens(char *out, size_t cap, double per_s);      /* "69.4k" */
/* of GPUs: "12.3 J/step   456 tokens/J   3.21 kJ in all"; takes 120 bytes, "" when not measured */
void cs_fmt_energy(char *out, size_t cap, int64_t all_mj, int64_t step_mj, double tokens_per_j);

#endif

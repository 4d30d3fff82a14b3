/* Clocks in integer nanoseconds, and wall time as text. */
#ifndef CS_BASE_CLOCK_H
#define CS_BASE_CLOCK_H

#include <stddef.h>
#include <stdint.h>

#define CS_ISO_CAP 32

int64_t cs_now_ns(void);        /* monotonic; comparable between processes of one machine */
int64_t cs_wall_ns(void);       /* since 1970-01-01 UTC; may jump */
int64_t cs_thread_cpu_ns(void); /* CPU time of the calling thread */

/* "2026-11-27T23:04:23.123Z" for wall_ns; years outside 0..9999 print "-" */
void cs_iso_print(char *out, size_t cap, int64_t wall_ns);

#endif

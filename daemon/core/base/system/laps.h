/* How long the parts of some work took, one behind the other. */
#ifndef CS_BASE_LAPS_H
#define CS_BASE_LAPS_H

#include <stdint.h>

enum { CS_LAPS_MAX = 12 };

struct cs_lap {
    const char *what; /* static storage */
    int64_t ns;
};

struct cs_laps {
    int64_t last_ns; /* cs_now_ns() when the last part ended, or all began */
    int n;
    struct cs_lap lap[CS_LAPS_MAX];
};

void cs_laps_begin(struct cs_laps *laps);
/* The part that ends now; laps NULL: nobody asks. More than CS_LAPS_MAX: the last one has their time too. */
void cs_laps_take(struct cs_laps *laps, const char *what);

#endif

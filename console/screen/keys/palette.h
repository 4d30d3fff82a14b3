/* The palette: what can be typed behind ":". Views, orders to jobs, jobs, what the keys do here,
 * settings, and behind "!" every command of cornstarch-console; each names its key and the command of
 * the shell that does the same. */
#ifndef CS_CONSOLE_SCREEN_KEYS_PALETTE_H
#define CS_CONSOLE_SCREEN_KEYS_PALETTE_H

#include "console/views/state/view.h"

enum { CS_PALETTE_MOST = 256, CS_PALETTE_ROWS = 8 /* drawn at once */ };

struct cs_choice {
    char name[96]; /* as it is typed; Tab completes it */
    char help[120];
    char key[16];    /* that does it, "" none */
    char shell[320]; /* the same from a shell, "" nothing does */
    bool has_more;   /* an argument is to be typed behind it */
    cs_key_act *act; /* with argument; NULL: it is only completed */
    int argument;
    const struct cs_job_order *order; /* with job */
    int64_t job;
};

/* What fits to the line that is typed, the best first; returns how many. */
int cs_palette_choices(const struct cs_store *store, const struct cs_screen *screen,
                       struct cs_choice *out);
/* A key while it is open; returns CS_DO_*. */
unsigned cs_palette_key(struct cs_screen *screen, const struct cs_store *store, int key);
/* The choices, above the line that is typed, at the bottom of the area. */
void cs_palette_draw(const struct cs_store *store, const struct cs_screen *screen,
                     struct cs_area area);

#endif

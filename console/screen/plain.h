/* Plain output: whole sentences for screen readers, pipes and dumb terminals, with a progress line
 * where the output is a terminal. Announces changes only.
 *
 *   plain = cs_plain_new(stdout, isatty(1), columns);
 *   on every message:  cs_store_message(store, msg); cs_plain_message(plain, msg);
 *   at the end:        cs_plain_report(plain, store, &end);
 *
 * Without a terminal: a line after the first step, then at every twentieth of the run and at every
 * evaluation. */
#ifndef CS_CONSOLE_SCREEN_PLAIN_H
#define CS_CONSOLE_SCREEN_PLAIN_H

#include <stdio.h>

#include "console/store/store.h"

struct cs_plain;

/* out is borrowed; has_bar: redraw one line with \r; cols: its width, 0 for 80 */
struct cs_plain *cs_plain_new(FILE *out, bool has_bar, int cols);
void cs_plain_free(struct cs_plain *plain); /* accepts NULL; ends the progress line */

/* event.job, event.step, event.note, gap; others are ignored */
void cs_plain_message(struct cs_plain *plain, const json_t *msg);
/* a job object (job.show, event.job): "job 41 (name) is RUN." when name or state is new */
void cs_plain_job(struct cs_plain *plain, const json_t *job);
/* the body of event.step */
void cs_plain_step(struct cs_plain *plain, const json_t *step);
/* the body of event.note */
void cs_plain_note(struct cs_plain *plain, const json_t *note);
/* any sentence, kept clear of the progress line */
void cs_plain_say(struct cs_plain *plain, const char *fmt, ...) CS_PRINTF(2, 3);

/* The end of a run: state and reason, steps, loss, exact match, step time predicted and measured,
 * bubble of every stage, alarms, where the result lies, what to try next. Of the selected job; when
 * no step was measured live, its trace is read. */
struct cs_plain_end {
    const json_t *alarms;                  /* of the job object */
    const char *result_dir, *next_command; /* NULL: none */
};

void cs_plain_report(struct cs_plain *plain, struct cs_store *store,
                     const struct cs_plain_end *end);

#endif

/* Views as lines that are read one after the other: what a screen reader says, without columns, bars and
 * charts. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "console/draw/fmt.h"
#include "console/views/state/view.h"
#include "core/base/str.h"

/* "Pipeline of job 1, test: RUN, step 43 of 2000, loss 0.9615." */
static void add_heading(const struct cs_store *store, const struct cs_screen *screen,
                        struct cs_buf *out)
{
    const struct cs_store_job *job = cs_store_selected(store);
    char loss[CS_FMT_CAP];
    cs_buf_adds(out, cs_view_ops(screen->view)->title);
    if (job) {
        cs_buf_addf(out, " of job %lld, %s: %s", (long long)job->id, job->name, job->state);
        if (job->step >= 0 && job->steps >= 0)
            cs_buf_addf(out, ", step %lld of %lld", (long long)job->step, (long long)job->steps);
        if (!isnan(job->loss)) {
            cs_fmt_known_loss(loss, sizeof loss, job->loss);
            cs_buf_addf(out, ", loss %s", loss);
        }
        if (job->reason[0])
            cs_buf_addf(out, ". %s", job->reason);
    }
    cs_buf_adds(out, ".\n");
    if (!store->is_connected && !store->is_replay)
        cs_buf_adds(out, "There is no connection to the daemon: these values are old.\n");
}

struct reader {
    struct cs_buf *out;
    int n;
};

/* blanks between cells become commas */
static bool add_row(void *user, int row, const char *text)
{
    struct reader *reader = user;
    struct cs_buf line = {0};
    (void)row;
    for (const char *at = text; *at;) {
        const size_t blanks = strspn(at, " ");
        const bool is_gap = blanks > 0 && line.len > 0 && at[blanks] && at[blanks] != ']';
        if (is_gap && blanks >= 2)
            cs_buf_adds(&line, ", ");
        else if (is_gap)
            cs_buf_addc(&line, ' ');
        at += blanks;
        const size_t n = strcspn(at, " ");
        cs_buf_add(&line, at, n);
        at += n;
    }
    cs_str_escape(reader->out, cs_buf_str(&line), line.len, false);
    cs_buf_adds(reader->out, "\n");
    cs_buf_free(&line);
    reader->n++;
    return true;
}

void cs_view_read(const struct cs_store *store, const struct cs_screen *screen, struct cs_buf *out)
{
    const struct cs_view_ops *view = cs_view_ops(screen->view);
    struct reader reader = {.out = out};
    add_heading(store, screen, out);
    const size_t before = out->len;
    if (view->read)
        view->read(store, screen, out);
    else if (view->list)
        view->list->each(store, screen, add_row, &reader);
    if (out->len == before)
        cs_buf_adds(out, "Nothing is known here yet.\n");
}

/* Jobs: which are listed, in which order, and what stands in their columns. */
#include "console/views/job_rows.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "console/draw/fmt.h"
#include "core/base/str.h"

enum { N_COLUMNS = CS_JOB_COLUMNS, CELL = CS_JOB_CELL };

const struct cs_column cs_job_columns[CS_JOB_COLUMNS] = {
    {"ID",      2, 8,  0, CS_ALIGN_RIGHT},
    {"NAME",    8, 28, 0, CS_ALIGN_LEFT },
    {"OWNER",   4, 12, 7, CS_ALIGN_LEFT },
    {"STATE",   5, 9,  0, CS_ALIGN_LEFT },
    {"STEP",    7, 17, 0, CS_ALIGN_RIGHT},
    {"LOSS",    6, 8,  1, CS_ALIGN_RIGHT},
    {"EXACT",   5, 6,  6, CS_ALIGN_RIGHT},
    {"STEP MS", 5, 9,  2, CS_ALIGN_RIGHT},
    {"BUBBLE",  6, 6,  3, CS_ALIGN_RIGHT},
    {"ELAPSED", 5, 8,  5, CS_ALIGN_RIGHT},
    {"ETA",     5, 8,  4, CS_ALIGN_RIGHT},
};

static void fmt_steps(char *out, size_t cap, const struct cs_store_job *job)
{
    if (job->step < 0)
        snprintf(out, cap, "-");
    else if (job->steps < 0)
        snprintf(out, cap, "%lld", (long long)job->step);
    else
        snprintf(out, cap, "%lld/%lld", (long long)job->step, (long long)job->steps);
}

void cs_job_cells_fill(const struct cs_store *store, const struct cs_store_job *job,
                       struct cs_job_cells *c)
{
    snprintf(c->text[0], CELL, "%lld", (long long)job->id);
    cs_str_copy(c->text[1], CELL, job->name);
    cs_str_copy(c->text[2], CELL, job->owner[0] ? job->owner : "-");
    cs_str_copy(c->text[3], CELL, job->state);
    fmt_steps(c->text[4], CELL, job);
    cs_fmt_known_loss(c->text[5], CELL, job->loss);
    if (isfinite(job->exact_match))
        snprintf(c->text[6], CELL, "%.3f", job->exact_match);
    else
        snprintf(c->text[6], CELL, "-");
    cs_fmt_ms(c->text[7], CELL, job->step_ns > 0 ? (double)job->step_ns : (double)NAN);
    cs_fmt_percent(c->text[8], CELL, job->bubble);
    cs_fmt_elapsed(c->text[9], CELL, cs_store_ran_ns(store, job));
    cs_fmt_elapsed(c->text[10], CELL, cs_store_eta_ns(store, job));
}

static const struct {
    const char *name;
    bool is_reversed; /* the most first */
} sorts[CS_JOB_SORTS] = {
    [CS_JOB_BY_AGE] = {"newest",            false},
    [CS_JOB_BY_NAME] = {"name",              false},
    [CS_JOB_BY_OWNER] = {"owner",             false},
    [CS_JOB_BY_STATE] = {"state",             false},
    [CS_JOB_BY_LOSS] = {"loss",              false},
    [CS_JOB_BY_STEP_TIME] = {"step time",         true },
    [CS_JOB_BY_ETA] = {"time that is left", false},
};

struct sort_key {
    const char *text;
    double number; /* unknown ones come last */
    int row;       /* equal ones stay as they are */
};

static struct sort_key key_of(const struct cs_store *store, int row, enum cs_job_sort sort)
{
    const struct cs_store_job *job = &store->jobs[row];
    const int64_t eta = cs_store_eta_ns(store, job);
    const char *const texts[CS_JOB_SORTS] = {[CS_JOB_BY_NAME] = job->name,
                                             [CS_JOB_BY_OWNER] = job->owner,
                                             [CS_JOB_BY_STATE] = job->state};
    const double numbers[CS_JOB_SORTS] = {
        [CS_JOB_BY_LOSS] = job->loss,
        [CS_JOB_BY_STEP_TIME] = job->step_ns > 0 ? (double)job->step_ns : (double)NAN,
        [CS_JOB_BY_ETA] = eta >= 0 ? (double)eta : (double)NAN,
    };
    double number = numbers[sort];
    number = isnan(number) ? (double)INFINITY : sorts[sort].is_reversed ? -number : number;
    return (struct sort_key){texts[sort] ? texts[sort] : "", number, row};
}

static int compare_keys(const void *a, const void *b)
{
    const struct sort_key *x = a, *y = b;
    const int by_text = strcmp(x->text, y->text);
    return by_text                 ? by_text
           : x->number < y->number ? -1
           : x->number > y->number ? 1
                                   : x->row - y->row;
}

void cs_job_row_text(const struct cs_store *store, const struct cs_store_job *job,
                     struct cs_buf *out)
{
    struct cs_job_cells c;
    cs_job_cells_fill(store, job, &c);
    for (int i = 0; i < N_COLUMNS; i++)
        cs_buf_addf(out, "%s%s", i ? "  " : "", c.text[i]);
    cs_buf_addf(out, "  %s  %s  %s", job->reason, job->tags, job->note);
}

const char *cs_job_sort_name(enum cs_job_sort sort)
{
    return sorts[sort].name;
}

int cs_job_rows(const struct cs_store *store, const struct cs_screen *screen, int *out)
{
    const char *filter = screen->filter[CS_VIEW_JOBS];
    struct sort_key keys[CS_STORE_JOBS];
    struct cs_needle needle;
    struct cs_buf text = {0};
    int n = 0;
    cs_needle_make(&needle, filter);
    for (int i = 0; i < store->n_jobs && i < CS_STORE_JOBS; i++) {
        cs_buf_reset(&text);
        if (filter[0])
            cs_job_row_text(store, &store->jobs[i], &text);
        if (cs_needle_match(&needle, cs_buf_str(&text), NULL, NULL))
            keys[n++] = key_of(store, i, screen->job_sort);
    }
    if (screen->job_sort != CS_JOB_BY_AGE)
        qsort(keys, (size_t)n, sizeof *keys, compare_keys);
    for (int i = 0; i < n; i++)
        out[i] = keys[i].row;
    cs_needle_free(&needle);
    cs_buf_free(&text);
    return n;
}

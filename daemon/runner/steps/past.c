/* What runs before this one have left in the job directory. A job may have been ended by force
 * after its last checkpoint: then an evaluation or the final hashes are missing, and only they are
 * made up for. */
#include "runner/steps/past.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/units.h"
#include "core/wire/line.h"
#include "core/wire/wire.h"
#include "runner/state/records.h"

enum { MOST_SEEN = 100000000 }; /* steps whose rows are looked for */

/* A row of the journal. A step that was trained again is to be evaluated again. */
static void take_row(struct cs_runner *r, const json_t *row)
{
    const int64_t step = cs_msg_int(row, "step", -1);
    if (strcmp(cs_msg_type(row), "runner.step") != 0 || step > r->last_step)
        return;
    if (strcmp(cs_msg_str(row, "kind", ""), "eval") != 0) {
        r->evaluated_step = step == r->evaluated_step ? -1 : r->evaluated_step;
        return;
    }
    r->evaluated_step = step;
    r->exact_match = cs_msg_num(row, "exact_match", (double)NAN);
}

/* A journal may be long, so only rows that can be an evaluation or of the last step are parsed.
 * However such a row is spelled, it has that word or the step's digits in it, or an escape that may
 * stand for letters of the word. */
static bool can_matter(const char *line, const char *last_step)
{
    return strstr(line, "eval") != NULL || strstr(line, last_step) != NULL ||
           strchr(line, '\\') != NULL;
}

/* Which training steps have a row. Read from the text as we write it: a journal may be long. */
struct steps_seen {
    uint8_t *is_seen; /* (n) */
    int64_t n, first; /* first: the first row's, -1 none */
};

static void see(struct steps_seen *seen, const char *line)
{
    const char *at = strstr(line, "\"step\":");
    if (at == NULL || strstr(line, "\"runner.step\"") == NULL || strstr(line, "\"train\"") == NULL)
        return;
    const int64_t step = strtoll(at + sizeof "\"step\":" - 1, NULL, 10);
    if (step >= 0 && step < seen->n)
        seen->is_seen[step] = 1;
    seen->first = seen->first < 0 ? step : seen->first;
}

/* A run that was killed while the disk was full could not tell what it lost. */
static void tell_gaps(struct cs_runner *r, const struct steps_seen *seen)
{
    const bool is_ours = r->job.from_job == 0 || r->job.from_job == r->number;
    int64_t first = -1, last = -1, n = 0;
    for (int64_t i = is_ours ? 0 : seen->first; i >= 0 && i < seen->n; i++)
        if (!seen->is_seen[i]) {
            first = n++ == 0 ? i : first;
            last = i;
        }
    if (n > 0)
        cs_run_alarm(r, CS_ALERT_ROWS_LOST, CS_WARN, last,
                     "%lld %s missing, of steps %lld to %lld: they were lost "
                     "before this run",
                     (long long)n, CS_NOUN(n, "row of the journal is", "rows of the journal are"),
                     (long long)first, (long long)last);
}

static enum cs_status read_journal(struct cs_runner *r, struct cs_err *err)
{
    char path[CS_PATH_CAP + 16], last_step[24], *line = NULL;
    size_t room = 0;
    ssize_t n;
    snprintf(path, sizeof path, "%s/journal", r->job.dir);
    snprintf(last_step, sizeof last_step, "%lld", (long long)r->last_step);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return cs_fail_errno(err, "cannot open the journal %s", path);
    struct steps_seen seen = {.n = r->last_step < MOST_SEEN ? r->last_step + 1 : 0, .first = -1};
    seen.is_seen = calloc((size_t)seen.n + 1, 1);
    CS_ASSERT(seen.is_seen != NULL);
    while ((n = getline(&line, &room, file)) > 0) {
        json_t *row = NULL;
        see(&seen, line);
        if (can_matter(line, last_step) && cs_line_parse(line, (size_t)n, &row, NULL) == CS_OK)
            take_row(r, row); /* a row that cannot be read is not there */
        json_decref(row);
    }
    free(line);
    fclose(file);
    tell_gaps(r, &seen);
    free(seen.is_seen);
    return CS_OK;
}

enum cs_status cs_past_read(struct cs_runner *r, struct cs_err *err)
{
    if (r->job.checkpoint_step < 0)
        return CS_OK;
    CS_TRY(read_journal(r, err));
    r->is_eval_first =
        cs_spec_evaluates_after(r->job.spec, r->last_step) && r->evaluated_step != r->last_step;
    return CS_OK;
}

bool cs_past_has_weights(const struct cs_runner *r)
{
    char path[CS_PATH_CAP + 16];
    snprintf(path, sizeof path, "%s/weights.json", r->job.dir);
    json_t *doc = json_load_file(path, 0, NULL);
    const bool has = doc != NULL && cs_msg_int(doc, "step", -1) == r->last_step;
    json_decref(doc);
    return has;
}

bool cs_run_is_complete(const struct cs_runner *r)
{
    return r->last_step + 1 >= r->job.spec->steps &&
           (!cs_spec_evaluates_after(r->job.spec, r->last_step) ||
            r->evaluated_step == r->last_step);
}

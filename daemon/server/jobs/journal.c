/* Imports journals. Rows are the runner's own messages. Step rows, notes and state changes come from
 * here and only from here, so that each is in the database exactly once, whoever was running when. */
#include "server/jobs/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/str.h"
#include "core/wire/line.h"
#include "core/wire/metric.h"
#include "core/wire/wire.h"

enum { CHUNK_BYTES = 1 << 20, TAIL_BYTES = 1 << 18 };

static void keep_last(struct cs_job *job, json_t *step)
{
    json_t **last = &job->last_row[cs_metric_is_eval(step)];
    json_decref(*last);
    *last = json_incref(step);
}

static enum cs_status put_step(struct cs_job *job, json_t *m, struct cs_err *err)
{
    keep_last(job, m);
    struct cs_step_row row = {
        .step = cs_msg_int(m, "step", 0),
        .kind = cs_msg_str(m, "kind", "train"),
        .loss = cs_msg_num(m, "loss", (double)NAN),
        .grad_norm = cs_msg_num(m, "grad_norm", (double)NAN),
        .lr = cs_msg_num(m, "lr", (double)NAN),
        .step_ms = (double)cs_msg_int(m, "step_ns", 0) / 1e6,
        .bubble = cs_metric_get(m, "bubble"),
        .exact_match = (double)NAN,
        .tokens = cs_msg_int(m, "tokens", 0),
        .trained_tokens = cs_msg_int(m, "trained_tokens", 0),
        .samples = cs_msg_int(m, "samples", 0),
        .wall_ns = cs_msg_int(m, "wall_ns", 0),
        .data_wait_us = cs_msg_int(m, "data_wait_us", 0),
        .energy_mj = cs_msg_int(m, "energy_mj", -1),
        .sources = cs_msg_obj(m, "sources"),
        .context = cs_msg_arr(m, "context"),
        .mem_bytes = cs_msg_int(m, "mem_bytes", -1),
        .mfu = cs_msg_num(m, "mfu", (double)NAN),
        .parts = cs_msg_obj(m, "parts"),
        .modules = cs_msg_obj(m, "modules"),
        .sequence = cs_msg_obj(m, "sequence"),
        .aux_loss = cs_msg_num(m, "aux_loss", (double)NAN),
    };
    if (strcmp(row.kind, "eval") == 0) {
        if (row.samples > 0)
            row.exact_match = (double)cs_msg_int(m, "correct", 0) / (double)row.samples;
        job->row.exact_match = row.exact_match;
    } else {
        job->row.step = row.step + 1;
        job->row.loss = row.loss;
        job->row.step_ns = cs_msg_int(m, "step_ns", job->row.step_ns);
        job->row.bubble = row.bubble;
        if (row.energy_mj >= 0 && row.tokens > 0) {
            job->row.energy_mj += row.energy_mj;
            job->row.energy_steps++;
            job->row.energy_tokens += row.tokens;
        }
    }
    return cs_db_step_put(job->server->db, job->row.id, &row, err);
}

static enum cs_status put_note(struct cs_job *job, json_t *m, struct cs_err *err)
{
    (void)cs_job_take_alarm(job, m);
    return cs_db_note_add(job->server->db, job->row.id, cs_msg_int(m, "wall_ns", 0),
                          cs_msg_str(m, "level", "info"), cs_msg_str(m, "text", ""), err);
}

static enum cs_status put_state(struct cs_job *job, json_t *m, struct cs_err *err)
{
    char text[1100];
    const char *state = cs_msg_str(m, "state", ""), *reason = cs_msg_str(m, "reason", "");
    if (!reason[0] && strcmp(job->noted, state) == 0) /* something else of it is news */
        return CS_OK;
    snprintf(text, sizeof(text), "%s%s%.1000s", state, reason[0] ? ": " : "", reason);
    CS_TRY(cs_db_note_add(job->server->db, job->row.id, cs_msg_int(m, "wall_ns", 0),
                          cs_job_state_mood(state) == CS_MOOD_BAD ? "error" : "info", text, err));
    cs_str_copy(job->noted, sizeof job->noted, state);
    return CS_OK;
}

/* Bad rows (the torn end of a killed runner) are told and skipped: the next one is whole. */
static enum cs_status put_line(struct cs_job *job, const char *line, size_t n, struct cs_err *err)
{
    static const struct {
        const char *type;
        enum cs_status (*put)(struct cs_job *, json_t *, struct cs_err *);
    } rows[] = {
        {"runner.step",  put_step },
        {"runner.note",  put_note },
        {"runner.state", put_state},
    };
    struct cs_err bad;
    json_t *row = NULL;
    enum cs_status status = cs_line_parse(line, n, &row, &bad);
    if (status == CS_OK)
        status = cs_msg_check(row, &bad);
    if (status != CS_OK) {
        cs_log(job->server->log, CS_WARN, "journal.row", CS_KV("job", job->row.id),
               CS_KV("error", (const char *)bad.text));
        status = CS_OK;
    } else {
        for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++)
            if (strcmp(rows[i].type, cs_msg_type(row)) == 0)
                status = rows[i].put(job, row, err);
    }
    json_decref(row);
    return status;
}

static enum cs_status put_lines(struct cs_job *job, const char *bytes, size_t n, size_t *used,
                                struct cs_err *err)
{
    *used = 0;
    while (*used < n) {
        const char *line = bytes + *used;
        const char *end = memchr(line, '\n', n - *used);
        if (!end)
            break;
        CS_TRY(put_line(job, line, (size_t)(end - line), err));
        *used += (size_t)(end - line) + 1;
    }
    return CS_OK;
}

/* All rows of the chunk and the offset behind them in one transaction, or nothing of it. */
static enum cs_status import_chunk(struct cs_job *job, const char *bytes, size_t n, size_t *used,
                                   struct cs_err *err)
{
    struct cs_db *db = job->server->db;
    struct cs_job_row *before = malloc(sizeof *before);
    if (!before)
        return cs_fail(err, CS_NO_MEMORY, "no memory for a job");
    *before = job->row;
    enum cs_status status = cs_db_begin(db, err);
    if (status == CS_OK)
        status = put_lines(job, bytes, n, used, err);
    job->row.journal_offset += (int64_t)*used;
    if (status == CS_OK)
        status = cs_db_job_put(db, &job->row, false, err);
    if (status == CS_OK)
        status = cs_db_commit(db, err);
    if (status != CS_OK) {
        cs_db_rollback(db);
        job->row = *before;
        job->noted[0] = '\0'; /* what was noted may be gone with it: it comes again */
        *used = 0;
    }
    free(before);
    return status;
}

/* A row longer than the chunk gets a larger one; one longer than any line may be is skipped. */
static enum cs_status import_from(struct cs_job *job, int fd, char **bytes, size_t *cap,
                                  size_t *used, struct cs_err *err)
{
    *used = 0;
    ssize_t n = pread(fd, *bytes, *cap, job->row.journal_offset);
    if (n == -1)
        return cs_fail_errno(err, "reading the journal of job %lld", (long long)job->row.id);
    if (n == 0)
        return CS_OK;
    if (memchr(*bytes, '\n', (size_t)n))
        return import_chunk(job, *bytes, (size_t)n, used, err);
    if ((size_t)n < *cap)
        return CS_OK; /* the row is still being written */
    if (*cap > CS_LINE_MAX) {
        cs_log(job->server->log, CS_WARN, "journal.endless", CS_KV("job", job->row.id));
        job->row.journal_offset += n;
        *used = (size_t)n;
        return CS_OK;
    }
    char *more = realloc(*bytes, 2 * *cap);
    if (!more)
        return cs_fail(err, CS_NO_MEMORY, "no memory for a row of %zu bytes", *cap);
    *bytes = more;
    *cap *= 2;
    *used = 1; /* try again */
    return CS_OK;
}

enum cs_status cs_journal_import(struct cs_job *job, struct cs_err *err)
{
    char path[CS_PATH_CAP];
    struct stat sb = {0};
    CS_TRY(cs_path(path, err, "%s/journal", job->row.dir));
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd == -1)
        return errno == ENOENT ? CS_OK : cs_fail_errno(err, "opening %s", path);
    if (fstat(fd, &sb) == 0 && sb.st_size < job->row.journal_offset) {
        job->row.journal_offset = 0; /* another file: rows are put again, in their old places */
        job->row.energy_mj = job->row.energy_steps = job->row.energy_tokens = 0;
        job->noted[0] = '\0';
    }
    size_t used = 1, cap = CHUNK_BYTES;
    char *bytes = sb.st_size == job->row.journal_offset ? NULL : malloc(cap);
    enum cs_status status = CS_OK;
    while (bytes && status == CS_OK && used > 0)
        status = import_from(job, fd, &bytes, &cap, &used, err);
    free(bytes);
    close(fd);
    return status;
}

/* A row that was torn by where the bytes begin is none. */
static void remember_line(struct cs_job *job, const char *line, size_t n)
{
    json_t *row = NULL;
    if (cs_line_parse(line, n, &row, NULL) == CS_OK && cs_msg_check(row, NULL) == CS_OK &&
        strcmp(cs_msg_type(row), "runner.step") == 0)
        keep_last(job, row);
    json_decref(row);
}

void cs_journal_remember(struct cs_job *job)
{
    char path[CS_PATH_CAP];
    const int64_t end = job->row.journal_offset, from = end > TAIL_BYTES ? end - TAIL_BYTES : 0;
    char *bytes = end > from ? malloc((size_t)(end - from)) : NULL;
    int fd = cs_path(path, NULL, "%s/journal", job->row.dir) == CS_OK
                 ? open(path, O_RDONLY | O_CLOEXEC)
                 : -1;
    const ssize_t n = bytes && fd >= 0 ? pread(fd, bytes, (size_t)(end - from), from) : 0;
    for (ssize_t at = 0; at < n;) {
        const char *stop = memchr(bytes + at, '\n', (size_t)(n - at));
        if (!stop)
            break;
        remember_line(job, bytes + at, (size_t)(stop - bytes - at));
        at = stop - bytes + 1;
    }
    if (fd >= 0)
        close(fd);
    free(bytes);
}

enum cs_status cs_journal_import_notes(struct cs_job *job, struct cs_err *err)
{
    enum { MAX_BYTES = 16 << 20 };

    char path[CS_PATH_CAP];
    struct cs_buf text = {0};
    size_t used;
    CS_TRY(cs_path(path, err, "%s/notes", job->row.dir));
    if (access(path, F_OK) == -1)
        return CS_OK;
    enum cs_status status = cs_read_file(path, MAX_BYTES, &text, err);
    if (status == CS_OK)
        status = cs_db_begin(job->server->db, err);
    if (status == CS_OK)
        status = put_lines(job, cs_buf_str(&text), text.len, &used, err);
    if (status == CS_OK)
        status = cs_db_commit(job->server->db, err);
    if (status != CS_OK) {
        cs_db_rollback(job->server->db);
        job->noted[0] = '\0';
    }
    cs_buf_free(&text);
    return status;
}

/* See journal.h. Rows are the runner's own messages. Notes and states reach the daemon live through the
 * socket; from the journal come the step rows, which must not have holes. */
#include "server/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/wire/line.h"
#include "core/wire/wire.h"

enum { CHUNK_BYTES = 1 << 20, MAX_ROW_BYTES = 1 << 20 };

static double mean_bubble(const json_t *row)
{
    const json_t *bubble = cs_msg_arr(row, "bubble");
    double sum = 0, v;
    size_t n = json_array_size(bubble);
    for (size_t i = 0; i < n; i++)
        sum += cs_json_to_num(json_array_get(bubble, i), &v) ? v : 0;
    return n ? sum / (double)n : (double)NAN;
}

static enum cs_status put_step(struct cs_job *job, const json_t *m, struct cs_err *err)
{
    struct cs_step_row row = {
        .step = cs_msg_int(m, "step", 0),
        .kind = cs_msg_str(m, "kind", "train"),
        .loss = cs_msg_num(m, "loss", (double)NAN),
        .grad_norm = cs_msg_num(m, "grad_norm", (double)NAN),
        .lr = cs_msg_num(m, "lr", (double)NAN),
        .step_ms = (double)cs_msg_int(m, "step_ns", 0) / 1e6,
        .bubble = mean_bubble(m),
        .exact_match = (double)NAN,
        .tokens = cs_msg_int(m, "tokens", 0),
        .trained_tokens = cs_msg_int(m, "trained_tokens", 0),
        .samples = cs_msg_int(m, "samples", 0),
        .wall_ns = cs_msg_int(m, "wall_ns", 0),
        .data_wait_us = cs_msg_int(m, "data_wait_us", 0),
    };
    if (strcmp(row.kind, "eval") == 0) {
        if (row.samples > 0)
            row.exact_match = (double)cs_msg_int(m, "correct", 0) / (double)row.samples;
        job->row.exact_match = row.exact_match;
    } else {
        job->row.step = row.step + 1;
        job->row.loss = row.loss;
        job->row.step_ns = cs_msg_int(m, "step_ns", job->row.step_ns);
    }
    return cs_db_step_put(job->server->db, job->row.id, &row, err);
}

static enum cs_status put_lines(struct cs_job *job, const char *bytes, size_t n, size_t *used,
                                struct cs_err *err)
{
    *used = 0;
    while (*used < n) {
        const char *line = bytes + *used;
        const char *end = memchr(line, '\n', n - *used);
        json_t *row = NULL;
        struct cs_err bad;
        if (!end)
            break;
        *used += (size_t)(end - line) + 1;
        if (cs_line_parse(line, (size_t)(end - line), &row, &bad) != CS_OK) {
            cs_log(job->server->log, CS_WARN, "journal.row", CS_KV("job", job->row.id),
                   CS_KV("error", (const char *)bad.text));
            continue; /* a torn row of a killed runner: the next one is whole */
        }
        enum cs_status st =
            strcmp(cs_msg_type(row), "runner.step") == 0 ? put_step(job, row, err) : CS_OK;
        json_decref(row);
        if (st != CS_OK)
            return st;
    }
    return CS_OK;
}

static enum cs_status import_chunk(struct cs_job *job, int fd, char *bytes, size_t *used,
                                   struct cs_err *err)
{
    *used = 0;
    ssize_t n = pread(fd, bytes, CHUNK_BYTES, job->row.journal_offset);
    if (n == -1)
        return cs_fail_errno(err, "reading the journal of job %lld", (long long)job->row.id);
    if (n == 0)
        return CS_OK;
    CS_TRY(cs_db_begin(job->server->db, err));
    enum cs_status st = put_lines(job, bytes, (size_t)n, used, err);
    job->row.journal_offset += (int64_t)*used;
    if (st == CS_OK && *used)
        st = cs_db_job_save(job->server->db, &job->row, false, err);
    enum cs_status committed = cs_db_commit(job->server->db, st == CS_OK ? err : NULL);
    return st != CS_OK ? st : committed;
}

enum cs_status cs_journal_import(struct cs_job *job, struct cs_err *err)
{
    char path[CS_PATH_CAP];
    size_t used;
    CS_TRY(cs_path(path, err, "%s/journal", job->row.dir));
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd == -1)
        return errno == ENOENT ? CS_OK : cs_fail_errno(err, "opening %s", path);
    char *bytes = malloc(CHUNK_BYTES);
    enum cs_status st = bytes ? CS_OK : cs_fail(err, CS_NO_MEMORY, "no memory for the journal");
    do {
        used = 0;
        if (st == CS_OK)
            st = import_chunk(job, fd, bytes, &used, err);
    } while (st == CS_OK && used > 0);
    free(bytes);
    close(fd);
    return st;
}

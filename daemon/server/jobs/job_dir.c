/* Makes the directories of jobs, and finds them. */
#include "server/jobs/job_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/str.h"
#include "core/wire/line.h"
#include "core/wire/wire.h"
#include "server/records/db.h"
#include "server/records/record.h"

static const char part_suffix[] = ".new"; /* of a directory that is being filled */

enum cs_status cs_job_dir_path(const struct cs_server *server, int64_t id, char out[CS_PATH_CAP],
                               struct cs_err *err)
{
    return cs_path(out, err, "%s/jobs/%lld", server->state_dir, (long long)id);
}

bool cs_job_dir_is_there(const struct cs_job_row *row)
{
    return access(row->dir, F_OK) == 0;
}

json_t *cs_job_dir_get(const char *dir, const char *name, size_t max_bytes)
{
    char path[CS_PATH_CAP];
    struct cs_buf text = {0};
    json_t *out = NULL;
    if (cs_path(path, NULL, "%s/%s", dir, name) == CS_OK &&
        cs_read_file(path, max_bytes, &text, NULL) == CS_OK)
        (void)!cs_line_parse(cs_buf_str(&text), text.len, &out, NULL);
    cs_buf_free(&text);
    return out;
}

enum cs_status cs_job_dir_put(const char *dir, const char *name, const json_t *document,
                              struct cs_err *err)
{
    char path[CS_PATH_CAP];
    struct cs_buf text = {0};
    CS_TRY(cs_path(path, err, "%s/%s", dir, name));
    cs_json_canonical(document, &text);
    enum cs_status status = cs_write_file_atomic(path, cs_buf_str(&text), text.len, 0600, err);
    cs_buf_free(&text);
    return status;
}

/* files only: nobody has worked in it */
static void remove_flat(const char *path)
{
    DIR *dir = opendir(path);
    for (const struct dirent *e; dir && (e = readdir(dir));)
        if (e->d_name[0] != '.')
            (void)!unlinkat(dirfd(dir), e->d_name, 0);
    if (dir)
        closedir(dir);
    (void)!rmdir(path);
}

static enum cs_status fill(const char *path, const struct cs_job_row *row, const json_t *spec,
                           struct cs_err *err)
{
    CS_TRY(cs_mkdirs(path, err));
    CS_TRY(cs_job_dir_put(path, "spec.json", spec, err));
    return cs_record_write(path, row, err);
}

/* CS_EXISTS: the number is taken */
static enum cs_status make_one(const struct cs_server *server, struct cs_job_row *row,
                               const json_t *spec, struct cs_err *err)
{
    char part[CS_PATH_CAP], jobs[CS_PATH_CAP];
    CS_TRY(cs_job_dir_path(server, row->id, row->dir, err));
    CS_TRY(cs_path(part, err, "%s%s", row->dir, part_suffix));
    CS_TRY(cs_path(jobs, err, "%s/jobs", server->state_dir));
    enum cs_status status = fill(part, row, spec, err);
    if (status == CS_OK && rename(part, row->dir) == -1)
        status = errno == EEXIST || errno == ENOTEMPTY || errno == ENOTDIR
                     ? cs_fail(err, CS_EXISTS, "there is a %s already", row->dir)
                     : cs_fail_errno(err, "making %s", row->dir);
    if (status == CS_OK) /* promised to the client */
        return cs_fsync_dir(jobs, err);
    remove_flat(part);
    return status;
}

static enum cs_status last_job_path(const struct cs_server *server, char path[CS_PATH_CAP],
                                    struct cs_err *err)
{
    return cs_path(path, err, "%s/last-job", server->state_dir);
}

/* Before its directory is made, so that no crash and no clean-up gives a number twice. */
static enum cs_status take_number(struct cs_server *server, int64_t *id, struct cs_err *err)
{
    char path[CS_PATH_CAP], text[32];
    const int n = snprintf(text, sizeof text, "%lld\n", (long long)server->last_job + 1);
    CS_TRY(last_job_path(server, path, err));
    CS_TRY(cs_write_file_atomic(path, text, (size_t)n, 0600, err));
    *id = ++server->last_job;
    return CS_OK;
}

enum cs_status cs_job_dir_make(struct cs_server *server, struct cs_job_row *row, const json_t *spec,
                               struct cs_err *err)
{
    enum { TRIES = 100 }; /* directories that somebody copied here since we looked */

    enum cs_status status = CS_EXISTS;
    for (int i = 0; i < TRIES && status == CS_EXISTS; i++) {
        CS_TRY(take_number(server, &row->id, err));
        status = make_one(server, row, spec, err);
    }
    return status;
}

void cs_job_dir_remove(const struct cs_job_row *row)
{
    char part[CS_PATH_CAP];
    if (cs_path(part, NULL, "%s%s", row->dir, part_suffix) == CS_OK && rename(row->dir, part) == 0)
        remove_flat(part);
}

/* --- what is there ---------------------------------------------------------------------------- */

static int64_t read_last_job(const struct cs_server *server)
{
    char path[CS_PATH_CAP];
    struct cs_buf text = {0};
    int64_t last = 0;
    if (last_job_path(server, path, NULL) == CS_OK &&
        cs_read_file(path, 64, &text, NULL) == CS_OK) {
        if (text.len > 0 && text.data[text.len - 1] == '\n')
            text.data[text.len - 1] = '\0';
        if (!cs_str_to_i64(cs_buf_str(&text), &last) || last >= INT32_MAX)
            last = 0;
    }
    cs_buf_free(&text);
    return last;
}

/* the number that NAME is, written as we write it; 0: it is none */
static int64_t number_of(const char *name)
{
    char again[32];
    int64_t n;
    if (!cs_str_to_i64(name, &n) || n < 1 || n >= INT32_MAX)
        return 0;
    snprintf(again, sizeof again, "%lld", (long long)n);
    return strcmp(again, name) == 0 ? n : 0;
}

/* "7.new": our own word for it, and nothing that a user may have put there */
static bool is_part(const char *name)
{
    char number[32];
    const size_t n = strlen(name), suffix = sizeof part_suffix - 1;
    if (n <= suffix || n - suffix >= sizeof number || strcmp(name + n - suffix, part_suffix) != 0)
        return false;
    snprintf(number, sizeof number, "%.*s", (int)(n - suffix), name);
    return number_of(number) > 0;
}

static int by_number(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void add(int64_t **list, size_t *n, int64_t number)
{
    if ((*n & (*n - 1)) == 0) {
        *list = realloc(*list, (*n ? 2 * *n : 1) * sizeof **list);
        CS_ASSERT(*list != NULL);
    }
    (*list)[(*n)++] = number;
}

enum cs_status cs_job_dir_scan(struct cs_server *server, int64_t **out, size_t *n,
                               struct cs_err *err)
{
    char path[CS_PATH_CAP], part[CS_PATH_CAP];
    int64_t last = 0;
    *out = NULL;
    *n = 0;
    CS_TRY(cs_db_last_id(server->db, &last, err));
    server->last_job = read_last_job(server);
    server->last_job = last > server->last_job ? last : server->last_job;
    CS_TRY(cs_path(path, err, "%s/jobs", server->state_dir));
    DIR *dir = opendir(path);
    if (!dir)
        return errno == ENOENT ? CS_OK : cs_fail_errno(err, "reading %s", path);
    for (const struct dirent *e; (e = readdir(dir));) {
        const int64_t number = number_of(e->d_name);
        if (is_part(e->d_name) && cs_path(part, NULL, "%s/%s", path, e->d_name) == CS_OK)
            remove_flat(part);
        if (number == 0)
            continue;
        add(out, n, number);
        server->last_job = number > server->last_job ? number : server->last_job;
    }
    closedir(dir);
    if (*n > 0)
        qsort(*out, *n, sizeof **out, by_number);
    return CS_OK;
}

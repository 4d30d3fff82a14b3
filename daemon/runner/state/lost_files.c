/* Looks whether the names of the job's directory and journal still lead to what was opened. */
#include "runner/state/lost_files.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/system/io.h"
#include "core/wire/wire.h"
#include "runner/state/records.h"

enum cs_status cs_lost_files_begin(struct cs_runner *r, struct cs_err *err)
{
    struct stat info;
    if (stat(r->job.dir, &info) == -1)
        return cs_fail_errno(err, "job directory %s", r->job.dir);
    r->dir_dev = (uint64_t)info.st_dev;
    r->dir_ino = (uint64_t)info.st_ino;
    return CS_OK;
}

static bool is_dir_there(const struct cs_runner *r)
{
    struct stat info;
    return stat(r->job.dir, &info) == 0 && (uint64_t)info.st_dev == r->dir_dev &&
           (uint64_t)info.st_ino == r->dir_ino;
}

static void tell(struct cs_runner *r, const char *what)
{
    const size_t n = strlen(r->lost_files);
    snprintf(r->lost_files + n, sizeof r->lost_files - n, "%s%s after step %lld", n ? ", " : "",
             what, (long long)r->last_step + 1);
    cs_run_alarm(r, CS_ALERT_FILES_LOST, CS_ERROR, r->last_step,
                 "%s in %s was removed or replaced while the job ran: what it held is lost, what "
                 "follows is written to a new one",
                 what, r->job.dir);
}

static enum cs_status make_dir(struct cs_runner *r, struct cs_err *err)
{
    char path[CS_PATH_CAP + 16];
    struct cs_buf text = {0};
    CS_TRY(cs_mkdirs(r->job.dir, err));
    CS_TRY(cs_lost_files_begin(r, err));
    cs_json_pretty(r->job.spec_json, &text);
    snprintf(path, sizeof path, "%s/spec.json", r->job.dir);
    const enum cs_status status = cs_write_file_atomic(path, text.data, text.len, 0600, err);
    cs_buf_free(&text);
    return status;
}

static enum cs_status make_journal(struct cs_runner *r, const char *path, struct cs_err *err)
{
    struct cs_journal *journal = NULL;
    CS_TRY(cs_journal_open(path, &journal, err));
    cs_journal_close(r->journal);
    r->journal = journal;
    return CS_OK;
}

void cs_lost_files_look(struct cs_runner *r)
{
    char path[CS_PATH_CAP + 16];
    struct cs_err err = {0};
    enum cs_status status = CS_OK;
    const bool has_dir = is_dir_there(r);
    snprintf(path, sizeof path, "%s/journal", r->job.dir);
    const bool has_journal = has_dir && cs_journal_is_there(r->journal, path);
    if (has_journal)
        return;
    if (!has_dir)
        status = make_dir(r, &err);
    if (status == CS_OK)
        status = make_journal(r, path, &err);
    tell(r, has_dir ? "the journal" : "the directory");
    if (status != CS_OK)
        cs_log(r->log, CS_ERROR, "files.lost", CS_KV("text", (const char *)err.text));
}

/* Reads an export back; see export_verify.h. */
#include "console/cli/shared/export/export_verify.h"

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "console/cli/shared/export/ask_worker.h"
#include "core/base/arena.h"
#include "core/base/units.h"
#include "core/wire/wire.h"
#include "store/fsio.h"
#include "store/hf/hfdir.h"

/* Tensors that no table of the family has: they came along from the source. */
static void say_unknown(const struct cs_hfdir *dir, const struct cs_arch *arch,
                        struct cs_arena *arena, const char *folder, struct cs_buf *report)
{
    struct cs_unread *unread = NULL;
    const int n = cs_hfdir_unread(dir, arch, arena, &unread);
    for (int i = 0; i < n; i++)
        if (unread[i].why[0] == '\0')
            cs_buf_addf(report, "%s: %s is none of its family's tensors, it came along\n", folder,
                        unread[i].name);
}

static enum cs_status check_part(const char *path, const char *part, const char *folder,
                                 struct cs_buf *report, struct cs_err *err)
{
    struct cs_hfdir *dir = NULL;
    struct cs_arch arch;
    struct cs_arena *arena = cs_arena_new(0);
    enum cs_status status = cs_hfdir_open(path, part, &dir, err);
    if (status == CS_OK)
        status = cs_hfdir_arch(dir, NULL, arena, &arch, err);
    if (status == CS_OK && !cs_hfdir_is_bare(dir))
        status = cs_hfdir_check(dir, &arch, err);
    if (status == CS_OK)
        say_unknown(dir, &arch, arena, folder, report);
    cs_hfdir_close(dir);
    cs_arena_free(arena);
    return status;
}

static enum cs_status check_folder(const char *dir, const char *folder, struct cs_buf *report,
                                   struct cs_err *err)
{
    char path[CS_PATH_CAP];
    const char *parts[CS_MODULE_KINDS];
    int n = 0;
    CS_TRY(cs_path(path, err, "%s/%s", dir, folder));
    CS_TRY(cs_hfdir_list(path, parts, &n, err));
    for (int i = 0; i < n; i++)
        CS_TRY(check_part(path, parts[i], folder, report, err));
    return CS_OK;
}

static int is_model(const struct dirent *entry)
{
    static const char adapter[] = ".adapter";
    const size_t len = strlen(entry->d_name), end = sizeof adapter - 1;
    const bool is_adapter = len > end && strcmp(entry->d_name + len - end, adapter) == 0;
    return entry->d_name[0] != '.' && !is_adapter;
}

static enum cs_status check_folders(const char *dir, struct cs_buf *report, struct cs_err *err)
{
    struct dirent **entry = NULL;
    enum cs_status status = CS_OK;
    const int n = scandir(dir, &entry, is_model, alphasort);
    if (n < 0)
        return cs_fail_errno(err, "looking into %s", dir);
    for (int i = 0; i < n; i++) {
        if (status == CS_OK)
            status = check_folder(dir, entry[i]->d_name, report, err);
        free(entry[i]);
    }
    free(entry);
    if (status == CS_OK)
        cs_buf_addf(report, "verified: every tensor of %d %s is there with its shape\n", n,
                    CS_NOUN(n, "directory", "directories"));
    return status;
}

/* Adapters are merged in another order of sums; bfloat16 keeps the direction. NaN is never good. */
static bool is_good(const json_t *row, bool is_f32)
{
    const double largest = cs_msg_num(row, "largest", (double)NAN);
    const double size = fmax(1.0, 0.1 * largest);
    return is_f32 ? cs_msg_num(row, "deviation", (double)NAN) <= 1e-4 * size
                  : cs_msg_num(row, "angle", (double)NAN) <= 2e-3;
}

static enum cs_status judge(const struct cs_exported *e, json_t *rows, struct cs_buf *report,
                            struct cs_err *err)
{
    json_t *row;
    size_t i;
    enum cs_status status = CS_OK;
    const bool is_f32 = strcmp(e->dtype, "float32") == 0;
    json_array_foreach(rows, i, row)
    {
        const bool is_well = is_good(row, is_f32);
        const char *what = cs_msg_str(row, "what", "");
        const double deviation = cs_msg_num(row, "deviation", (double)NAN);
        cs_msg_set_bool(row, "ok", is_well);
        cs_buf_addf(report, "verified: %lld logits of the %s, largest deviation %.3g%s\n",
                    (long long)cs_msg_int(row, "logits", 0), what, deviation,
                    deviation > 0 || deviation < 0 || !is_well ? "" : ", to the bit");
        if (!is_well && status == CS_OK)
            status = cs_fail(err, CS_CORRUPT,
                             "%s: the %s computes something else than the job: logits deviate by "
                             "%.3g, the largest is %.3g",
                             e->dir, what, deviation, cs_msg_num(row, "largest", (double)NAN));
    }
    return status;
}

enum cs_status cs_cmd_verify_export(const struct cs_exported *e, struct cs_buf *report,
                                    json_t **rows, struct cs_err *err)
{
    char dir[CS_PATH_CAP], checkpoint[CS_PATH_CAP];
    json_t *answer = NULL;
    *rows = NULL;
    CS_TRY(check_folders(e->dir, report, err));
    if (realpath(e->dir, dir) == NULL || realpath(e->checkpoint, checkpoint) == NULL)
        return cs_fail_errno(err, "finding %s and %s", e->dir, e->checkpoint);
    json_t *request = json_pack("{s:O, s:s, s:s, s:s*, s:i}", "job", e->job, "checkpoint",
                                checkpoint, "dir", dir, "whole", e->whole, "seed", 1);
    if (request == NULL)
        return cs_fail(err, CS_INVALID, "%s is not valid UTF-8", dir);
    enum cs_status status = cs_ask_worker("--verify", request, &answer, err);
    json_decref(request);
    if (status == CS_OK) {
        *rows = json_incref(json_object_get(answer, "verified"));
        status = judge(e, *rows, report, err);
    }
    json_decref(answer);
    return status;
}

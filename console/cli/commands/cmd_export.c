/* export: the model of a checkpoint as directories that transformers loads. Trained parameters come
 * from the checkpoint, frozen ones from where training took them: the source directories, or the
 * same fresh values. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "console/cli/command/cmd.h"
#include "console/cli/command/registry.h"
#include "core/wire/wire.h"

static bool has_file(const char *dir, const char *name)
{
    char path[CS_PATH_CAP];
    return cs_path(path, NULL, "%s/%s", dir, name) == CS_OK && access(path, F_OK) == 0;
}

/* CHECKPOINT: a checkpoint (spec.json two folders up, or one), or a job's directory */
static enum cs_status export_path(const char *path, const char *dir,
                                  const struct cs_cmd_exporting *how, struct cs_buf *report,
                                  struct cs_err *err)
{
    static const char *const up[] = {"../..", ".."};
    char job_dir[CS_PATH_CAP];
    if (has_file(path, "spec.json"))
        return cs_cmd_export_dir(path, NULL, dir, how, report, err);
    if (!has_file(path, "checkpoint.json"))
        return cs_fail(err, CS_NOT_FOUND,
                       "%s is no checkpoint (no checkpoint.json), no job directory and no job's "
                       "number",
                       path);
    for (size_t i = 0; i < CS_ARRAY_LEN(up); i++) {
        CS_TRY(cs_path(job_dir, err, "%s/%s", path, up[i]));
        if (has_file(job_dir, "spec.json"))
            return cs_cmd_export_dir(job_dir, path, dir, how, report, err);
    }
    return cs_fail(err, CS_NOT_FOUND,
                   "there is no spec.json above %s; export by the job's number instead", path);
}

static enum cs_status export_job(struct cs_cmd *cmd, const struct cs_cmd_exporting *how,
                                 struct cs_buf *report, struct cs_err *err)
{
    int64_t id;
    json_t *reply = NULL, *request = NULL;
    CS_TRY(cs_cmd_job_id(cmd, cmd->args[0], &id, err));
    request = cs_msg_new("job.show");
    cs_msg_set_int(request, "job", id);
    CS_TRY(cs_cmd_call(cmd, request, &reply, err));
    enum cs_status status = cs_cmd_export_dir(cs_msg_str(cs_msg_obj(reply, "job"), "dir", ""), NULL,
                                              cmd->args[1], how, report, err);
    json_decref(reply);
    return status;
}

struct values {
    struct cs_cmd_common common;
    int dtype; /* index into dtypes */
    bool is_verified;
};

static const char *const dtypes[] = {"float32", "bfloat16", NULL};

#define AT(field) offsetof(struct values, field)
/* clang-format off */
static const struct cs_option options[] = {
    {"dtype", 0, CS_OPT_ENUM, 0, 0, "float32", NULL, dtypes, "type of the written weights", AT(dtype)},
    {"verify", 0, CS_OPT_FLAG, 0, 0, NULL, NULL, NULL, "read it back: every tensor is there, and the logits of an input of random text and pictures are those of the job", AT(is_verified)},
};

/* clang-format on */

static enum cs_status export_model(struct cs_cmd *cmd, struct cs_err *err)
{
    struct cs_buf report = {0};
    const char *what = cmd->args[0];
    const struct values *v = cmd->values;
    json_t *rows = NULL;
    const struct cs_cmd_exporting how = {dtypes[v->dtype], v->is_verified ? &rows : NULL};
    bool is_job = strcmp(what, "latest") == 0 ||
                  (*what != '\0' && strspn(what, "0123456789") == strlen(what));
    enum cs_status status = is_job ? export_job(cmd, &how, &report, err)
                                   : export_path(what, cmd->args[1], &how, &report, err);
    if (status == CS_OK && cmd->json) {
        json_t *doc = cs_doc_new("cornstarch.result/1");
        cs_msg_set_str(doc, "dir", cmd->args[1]);
        cs_msg_set_str(doc, "text", cs_buf_str(&report));
        if (rows)
            cs_msg_set(doc, "verified", json_incref(rows));
        status = cs_cmd_print_doc(doc, err);
    } else if (status == CS_OK) {
        cs_cmd_print(&report);
    }
    cs_buf_free(&report);
    json_decref(rows);
    return status;
}

const struct cs_command cs_command_export = {
    .name = "export",
    .key = 'E',
    .role = CS_ROLE_OWNER,
    .usage = "[options] CHECKPOINT|ID DIR",
    .help = "write a trained model as directories that transformers loads",
    .run = export_model,
    .min_args = 2,
    .max_args = 2,
    CS_COMMAND_OPTIONS(options, struct values),
};

/* Compares the training of a checkpoint with that of a job. */
#include "store/ckpt/ckpt_training.h"

#include <string.h>

#include "core/base/system/io.h"
#include "core/wire/wire.h"

enum cs_status cs_ckpt_check_training(const struct cs_ckpt *ckpt, const char *dir,
                                      const struct cs_spec *spec, const json_t *document,
                                      struct cs_err *err)
{
    struct cs_spec_difference d = {.path = "what it trained", .a = "not known", .b = "this"};
    const json_t *info = cs_ckpt_info(ckpt), *said = cs_msg_obj(cs_ckpt_trainer(ckpt), "trained");
    if (spec->checkpoint_dir[0] == '\0' ||
        strcmp(cs_msg_str(info, "trained_hash", ""), spec->trained_hash) == 0 ||
        strcmp(cs_msg_str(info, "spec_hash", ""), spec->hash) == 0)
        return CS_OK;
    if (said != NULL) { /* through the table again: it may have more keys by now */
        json_t *then = cs_spec_trained(said), *now = cs_spec_trained(document);
        cs_spec_compare(then, now, &d);
        json_decref(then);
        json_decref(now);
    }
    if (d.path[0] == '\0')
        return CS_OK;
    return cs_fail(err, CS_REFUSED,
                   "%.250s holds checkpoints of another training: %.100s is %.100s there and "
                   "%.100s in this job. Give this job a checkpoint.dir of its own",
                   dir, d.path, d.a, d.b);
}

enum cs_status cs_ckpt_check_newest(const char *dir, const struct cs_spec *spec,
                                    const json_t *document, struct cs_err *err)
{
    const struct cs_ckpt_search search = {.is_deep = false};
    struct cs_ckpt *ckpt = NULL;
    char path[CS_PATH_CAP];
    int64_t step = -1;
    if (cs_ckpt_latest(dir, &search, &step, path, NULL) != CS_OK ||
        cs_ckpt_open(path, &ckpt, NULL) != CS_OK)
        return CS_OK;
    enum cs_status status = cs_ckpt_check_training(ckpt, dir, spec, document, err);
    cs_ckpt_close(ckpt);
    return status;
}

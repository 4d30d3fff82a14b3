/* model convert: a model directory in another layout. */
#include <stdio.h>

#include "console/cli/command/cmd.h"
#include "console/cli/command/registry.h"
#include "core/base/say.h"
#include "core/base/units.h"
#include "core/wire/wire.h"
#include "store/convert/convert.h"

struct values {
    struct cs_cmd_common common;
    int names, experts, dtype; /* indices into the lists */
    const char *layout;
    int64_t shard;
};

static const char *const names[] = {CS_CONVERT_NAMES(CS_CONVERT_WORD) NULL};
static const char *const experts[] = {CS_CONVERT_EXPERTS(CS_CONVERT_WORD) NULL};
static const char *const dtypes[] = {"keep", "float32", "bfloat16", "float16", NULL};

#define AT(field) offsetof(struct values, field)
/* clang-format off */
static const struct cs_option options[] = {
    {"names", 0, CS_OPT_ENUM, 0, 0, "keep", NULL, names, "of the parts of a composite: saved (vision_tower., language_model.), nested (model.vision_tower., model.language_model.), v4 (saved, with vision_model. in the towers of CLIP and SigLIP)", AT(names)},
    {"experts", 0, CS_OPT_ENUM, 0, 0, "keep", NULL, experts, "a tensor for each, or one fused for all of a block", AT(experts)},
    {"layout", 0, CS_OPT_STRING, 0, 0, NULL, "MODEL_TYPE", NULL, "of InternVL: internvl (transformers) or internvl_chat (its authors)", AT(layout)},
    {"dtype", 0, CS_OPT_ENUM, 0, 0, "keep", NULL, dtypes, "type of the written weights", AT(dtype)},
    {"shard", 0, CS_OPT_SIZE, 0, INT64_MAX, "0", "BYTES", NULL, "most bytes of weights in a file; 0: one file", AT(shard)},
};

/* clang-format on */
#undef AT

static enum cs_status convert(struct cs_cmd *cmd, struct cs_err *err)
{
    const struct values *v = cmd->values;
    char text[CS_PATH_CAP + 160], bytes[CS_UNITS_CAP];
    const struct cs_convert asked = {.dir = cmd->args[0],
                                     .out = cmd->args[1],
                                     .names = (enum cs_convert_names)v->names,
                                     .experts = (enum cs_convert_experts)v->experts,
                                     .family = v->layout,
                                     .dtype = v->dtype > 0 ? dtypes[v->dtype] : NULL,
                                     .shard_bytes = v->shard};
    struct cs_convert_report report;
    CS_TRY(cs_convert_run(&asked, &report, err));
    cs_bytes_print(bytes, sizeof bytes, report.bytes);
    snprintf(text, sizeof text, "wrote %s: %d tensor%s, %lld of them renamed, %s in %d file%s",
             cmd->args[1], report.n_tensors, CS_PLURAL(report.n_tensors),
             (long long)report.n_renamed, bytes, report.n_files, CS_PLURAL(report.n_files));
    if (!cmd->json) {
        cs_say(stdout, "%s\n", text);
        return CS_OK;
    }
    json_t *doc = cs_doc_new("cornstarch.result/1");
    cs_msg_set_str(doc, "dir", cmd->args[1]);
    cs_msg_set_str(doc, "text", text);
    return cs_cmd_print_doc(doc, err);
}

const struct cs_command cs_command_model_convert = {
    .name = "model convert",
    .role = CS_ROLE_OWNER,
    .usage = "[options] DIR OUT",
    .help = "write a model directory in another layout: names, experts, type, shards",
    .run = convert,
    .min_args = 2,
    .max_args = 2,
    CS_COMMAND_OPTIONS(options, struct values),
};

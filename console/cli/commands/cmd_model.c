/* model init: a Hugging Face model directory with fresh weights. */
#include <stdio.h>
#include <string.h>

#include "console/cli/command/cmd.h"
#include "console/cli/command/registry.h"
#include "console/preflight/findings.h"
#include "core/base/say.h"
#include "core/wire/wire.h"
#include "input/make/model_init.h"

static enum cs_status print_result(const struct cs_cmd *cmd, const char *dir, const char *text,
                                   struct cs_err *err)
{
    if (!cmd->json) {
        cs_say(stdout, "%s\n", text);
        return CS_OK;
    }
    json_t *doc = cs_doc_new("cornstarch.result/1");
    cs_msg_set_str(doc, "dir", dir);
    cs_msg_set_str(doc, "text", text);
    return cs_cmd_print_doc(doc, err);
}

struct init_values {
    struct cs_cmd_common common;
    int64_t seed, vocab;
    const char *text;
};

#define AT(field) offsetof(struct init_values, field)
/* clang-format off */
static const struct cs_option options[] = {
    {"seed", 0, CS_OPT_INT, 0, INT64_MAX, "0", NULL, NULL, "decides the weights", AT(seed)},
    {"text", 0, CS_OPT_STRING, 0, 0, NULL, "FILE", NULL, "build a tokenizer from this text (language models, composites)", AT(text)},
    {"vocab", 0, CS_OPT_INT, 260, 1 << 20, "4096", NULL, NULL, "largest vocabulary of that tokenizer", AT(vocab)},
};

/* clang-format on */
#undef AT

static enum cs_status init(struct cs_cmd *cmd, struct cs_err *err)
{
    const struct init_values *v = cmd->values;
    char text[CS_PATH_CAP + 64];
    struct cs_model_init made = {.config = cmd->args[0],
                                 .dir = cmd->args[1],
                                 .text = v->text,
                                 .max_vocab = (int)v->vocab,
                                 .seed = (uint64_t)v->seed};
    struct cs_findings findings = {.arena = cs_arena_new(0)};
    struct cs_buf warnings = {0};
    made.findings = &findings;
    enum cs_status status = cs_model_init_make(&made, err);
    cs_findings_text(&findings, false, &warnings);
    if (warnings.len > 0)
        cs_say(stderr, "%s", cs_buf_str(&warnings));
    cs_buf_free(&warnings);
    cs_arena_free(findings.arena);
    if (status != CS_OK)
        return status;
    snprintf(text, sizeof text, "wrote %s (seed %lld)", cmd->args[1], (long long)v->seed);
    return print_result(cmd, cmd->args[1], text, err);
}

const struct cs_command cs_command_model_init = {
    .name = "model init",
    .role = CS_ROLE_OWNER,
    .usage = "[options] CONFIG DIR",
    .help = "make a model directory with fresh weights; a composite gets the processors that lie "
            "beside CONFIG",
    .run = init,
    .min_args = 2,
    .max_args = 2,
    CS_COMMAND_OPTIONS(options, struct init_values),
};

/* The documents of all directories of a job, and what two of them say of one thing. */
#include <string.h>

#include "core/arch/read/composite.h"
#include "input/chat/own.h"
#include "input/documents/documents.h"
#include "input/tok/tokenizer.h"
#include "store/fsio.h"

static const struct cs_spec_module *find_llm(const struct cs_spec *spec)
{
    for (int i = 0; i < spec->n_modules; i++)
        if (spec->module[i].kind == CS_MODULE_LLM)
            return &spec->module[i];
    return NULL;
}

static bool has_dir(const struct cs_spec_module *module)
{
    return module->dir != NULL && module->dir[0] != '\0';
}

static const char *tokenizer_dir(const struct cs_spec_module *llm)
{
    return llm->tokenizer != NULL && llm->tokenizer[0] != '\0' ? llm->tokenizer : llm->dir;
}

/* id of the placeholder as the composite in dir has it, -1: it is no composite */
static enum cs_status saved_token(const char *dir, int64_t *id, struct cs_err *err)
{
    char path[CS_PATH_CAP];
    json_t *root = NULL;
    struct cs_composite composite;
    *id = -1;
    CS_TRY(cs_path(path, err, "%s/config.json", dir));
    CS_TRY(cs_fs_read_json(path, &root, err));
    enum cs_status status = CS_OK;
    if (cs_composite_complete(root) && cs_composite_is(root)) {
        status = cs_composite_read(&(struct cs_config_source){path, "", root, NULL}, true,
                                   &composite, err);
        *id = status == CS_OK ? composite.image_token : -1;
    }
    json_decref(root);
    return status;
}

/* The placeholder in the text and the id that the model was trained with must be one token. */
static enum cs_status check_token(const struct cs_spec_module *encoder,
                                  const struct cs_spec_module *llm, struct cs_err *err)
{
    struct cs_tokenizer *tokenizer = NULL;
    int64_t saved = -1;
    const char *dir = tokenizer_dir(llm);
    CS_TRY(saved_token(encoder->dir, &saved, err));
    if (saved < 0 || encoder->token == NULL || !cs_tokenizer_is_in(dir))
        return CS_OK;
    CS_TRY(cs_tokenizer_open(dir, &tokenizer, err));
    const int32_t id = cs_tokenizer_id(tokenizer, encoder->token);
    cs_tokenizer_close(tokenizer);
    if (id < 0 || id == saved)
        return CS_OK; /* a token that is missing is said by who needs it */
    return cs_fail(err, CS_INVALID,
                   "the placeholder %s of %s is token %d of %s, but image_token_index of "
                   "%s/config.json is %lld: the script and the directory contradict each other",
                   encoder->token, encoder->name, id, dir, encoder->dir, (long long)saved);
}

/* Which chat template a data set is rendered by; one that cannot be used is refused here. */
static enum cs_status review_template(const struct cs_spec_module *llm,
                                      const struct cs_spec_data *data, const char *what,
                                      struct cs_findings *findings, struct cs_err *err)
{
    const char *dir = tokenizer_dir(llm);
    struct cs_arena *arena = NULL;
    struct cs_tokenizer *tok = NULL;
    struct cs_template chat;
    if (data->json == NULL || dir == NULL || dir[0] == '\0' || !cs_tokenizer_is_in(dir))
        return CS_OK;
    CS_TRY(cs_tokenizer_open(dir, &tok, err));
    arena = cs_arena_new(0);
    enum cs_status status = cs_template_choose(data->template_, dir, tok, arena, &chat, err);
    if (status == CS_OK)
        status = cs_template_check(&chat, tok, err);
    if (status == CS_OK && json_object_get(data->template_, "name") == NULL)
        cs_findings_say(findings, CS_FINDING_DEFAULT, what, "template", NULL,
                        "the chat template is %s (%s), %s%s%s", chat.name, chat.source,
                        chat.has_default_system ? "with the system turn \""
                                                : "without a system turn",
                        chat.has_default_system ? chat.default_system : "",
                        chat.has_default_system ? "\"" : "");
    cs_tokenizer_close(tok);
    cs_arena_free(arena);
    return status == CS_OK ? CS_OK : cs_wrap(err, status, "%s", what);
}

enum cs_status cs_documents_review_job(const struct cs_spec *spec, struct cs_findings *findings,
                                       struct cs_err *err)
{
    const struct cs_spec_module *llm = find_llm(spec);
    for (int i = 0; i < spec->n_modules; i++)
        if (has_dir(&spec->module[i]))
            CS_TRY(cs_documents_review(spec->module[i].dir, spec->module[i].kind, findings, err));
    for (int i = 0; i < spec->n_modules; i++) {
        const struct cs_spec_module *module = &spec->module[i];
        if (module->kind == CS_MODULE_ENCODER && has_dir(module) && llm != NULL && has_dir(llm) &&
            strcmp(module->dir, llm->dir) == 0)
            CS_TRY(check_token(module, llm, err));
    }
    if (llm == NULL)
        return CS_OK;
    CS_TRY(review_template(llm, &spec->data, "data", findings, err));
    return spec->has_eval ? review_template(llm, &spec->eval_data, "eval.data", findings, err)
                          : CS_OK;
}

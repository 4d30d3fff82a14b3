/* The job of a golden directory: its modules train, as its layout says, with the optimizer of the
 * golden. What a tower alone lacks (a projector, a language model) is there in its smallest form and
 * does not run. */
#include <stdio.h>
#include <string.h>

#include "store/fsio.h"
#include "store/hf/peft.h"
#include "worker/selftest/parts.h"

/* seen by nobody: a tower is run by itself */
static json_t *small_llm(int32_t width)
{
    return json_pack("{s:s, s:s, s:s, s:s, s:{s:s, s:i, s:i, s:i, s:i, s:i, s:i}}", "name", "llm",
                     "kind", "llm", "dir", "", "init", "random", "config", "model_type", "llama",
                     "hidden_size", (int)width, "intermediate_size", 8, "num_hidden_layers", 1,
                     "num_attention_heads", 1, "vocab_size", 8, "max_position_embeddings", 65536);
}

static const json_t *module_of(const json_t *modules, const char *kind)
{
    const json_t *module;
    size_t i;
    json_array_foreach(modules, i, module)
    {
        if (strcmp(json_string_value(json_object_get(module, "kind")), kind) == 0)
            return module;
    }
    return NULL;
}

/* of a language model that a tower's own projector feeds; another one is as small as can be */
static int32_t width_behind(const json_t *encoder)
{
    const json_t *config = json_object_get(encoder, "config");
    const json_t *out = json_object_get(config, "out_hidden_size");
    if (out == NULL && json_object_get(config, "embed_dim") != NULL) /* of Qwen2-VL */
        out = json_object_get(config, "hidden_size");
    return out != NULL ? (int32_t)json_integer_value(out) : 8;
}

/* As if it were a job's: one encoder with its projector before the language model, or that alone. */
static void complete(json_t *modules)
{
    const json_t *encoder = module_of(modules, "encoder");
    if (encoder != NULL && module_of(modules, "projector") == NULL) {
        const char *name = json_string_value(json_object_get(encoder, "name"));
        json_array_append_new(
            modules, json_pack("{s:o, s:s, s:s}", "name",
                               json_sprintf("%.*s.projector", (int)strcspn(name, "."), name),
                               "kind", "projector", "family", "linear"));
    }
    if (module_of(modules, "llm") == NULL)
        json_array_append_new(modules, small_llm(width_behind(encoder)));
}

static json_t *stages_of(const struct cs_golden_job *job, const json_t *modules)
{
    const struct cs_selftest_layout *layout = job->layout;
    json_t *parallel = json_object(), *module;
    const char *recompute = layout != NULL ? layout->recompute : NULL;
    size_t i;
    json_array_foreach((json_t *)(uintptr_t)modules, i, module)
    {
        char branch[64];
        const char *name = json_string_value(json_object_get(module, "name"));
        snprintf(branch, sizeof branch, "%.*s", (int)strcspn(name, "."), name);
        const bool is_llm = strcmp(branch, "llm") == 0;
        const int pp = layout == NULL ? 1 : is_llm ? layout->stages : layout->encoder_stages;
        const int tp = is_llm ? job->tensors : job->encoder_tensors;
        const int cp = is_llm ? job->context : job->encoder_context;
        const int zero = job->replicas > 1 || cp > 1 ? job->zero : 1;
        json_object_set_new(parallel, branch,
                            json_pack("{s:i, s:i, s:b, s:i, s:i, s:s*}", "pp", pp, "tp",
                                      tp > 1 ? tp : 1, "sp", (int)(job->splits_rows && tp > 1),
                                      "cp", cp > 1 ? cp : 1, "zero", zero > 1 ? zero : 1,
                                      "recompute", recompute));
        if (is_llm && job->experts > 1)
            json_object_set_new(json_object_get(parallel, branch), "ep",
                                json_integer(job->experts));
    }
    return parallel;
}

/* "GLOB GLOB": what trains; whatever no rule names is frozen */
static json_t *rules_of(const char *train)
{
    json_t *rules = json_array();
    for (const char *at = train + strspn(train, " "); *at != '\0'; at += strspn(at, " ")) {
        const size_t n = strcspn(at, " ");
        json_array_append_new(rules, json_pack("{s:s, s:s%}", "op", "train", "glob", at, n));
        at += n;
    }
    return rules;
}

static json_t *model_of(const struct cs_golden_job *job, json_t *modules, json_t *adapters)
{
    const char *train = job->layout != NULL ? job->layout->train : NULL;
    if (train == NULL)
        train = json_array_size(adapters) > 0 ? "" : "*";
    return json_pack("{s:o, s:o, s:o}", "modules", modules, "rules", rules_of(train), "adapters",
                     adapters);
}

static json_t *plan_of(const struct cs_golden_job *job, const json_t *modules)
{
    const struct cs_selftest_layout *l = job->layout;
    const char *modality = l != NULL && l->modality != NULL ? l->modality : "encoder-parallel";
    return json_pack("{s:s, s:s, s:s, s:o, s:i, s:i, s:i}", "cluster", "here", "modality",
                     l != NULL ? modality : "encoder-colocated", "schedule",
                     l != NULL && l->schedule != NULL ? l->schedule : "1f1b", "parallel",
                     stages_of(job, modules), "seq_tokens", (int)job->seq_tokens, "slots",
                     job->slots, "dp", job->replicas);
}

static json_t *job_of(const struct cs_golden_job *job, json_t *modules, json_t *adapters)
{
    json_t *plan = plan_of(job, modules);
    return json_pack(
        "{s:s, s:s, s:i, s:i, s:i, s:o, s:o, s:{s:s, s:s, s:s}, s:{s:s, s:f, s:[f, f], "
        "s:f, s:f, s:f, s:i}, s:{s:s}}",
        "schema", "cornstarch.job/1", "name", "selftest", "seed", 0, "steps", (int)CS_GOLDEN_STEPS,
        "batch_samples", (int)job->samples * job->slots, "model", model_of(job, modules, adapters),
        "plan", plan, "data", "format", "llava", "json", "/none", "images", "/none", "optimizer",
        "kind", "adamw", "lr", 1e-3, "betas", 0.9, 0.95, "eps", 1e-8, "weight_decay", 0.1, "clip",
        1.0, "warmup_steps", 0, "lr", "kind", "constant");
}

/* The largest item is as large as all there is to make it of, but where all are of one size. */
static json_t *items_of(const json_t *encoder, bool has_sources, int32_t seq_tokens, int64_t values)
{
    struct cs_arch arch;
    struct cs_arena *arena = cs_arena_new(0);
    int32_t grid[3] = {0, 0, 0};
    const json_t *config = json_object_get(encoder, "config");
    if (cs_arch_from_config(config, arena, &arch, NULL) == CS_OK &&
        arch.front.position == CS_POSITION_ROW)
        cs_front_fixed_grid(&arch, grid);
    cs_arena_free(arena);
    if (grid[0] > 0 && !has_sources)
        return NULL;
    if (grid[0] > 0) /* tiles */
        return json_pack("{s:i, s:i, s:i, s:i, s:b}", "rows", grid[1] * grid[2], "patches",
                         grid[1] * grid[2], "bytes",
                         arch.image_size * arch.image_size * arch.channels, "of_file", 64,
                         "sources", 1);
    return json_pack("{s:i, s:I, s:I}", "rows", (int)seq_tokens, "patches",
                     (json_int_t)values + seq_tokens, "bytes", (json_int_t)values * 4);
}

/* Pictures are mosaics where a learned row ends their lines. */
static void set_items(json_t *modules, int32_t seq_tokens, int64_t values)
{
    json_t *module;
    size_t i;
    const json_t *projector = json_object_get(module_of(modules, "projector"), "config");
    const bool has_sources = json_is_true(json_object_get(projector, "newline"));
    json_array_foreach(modules, i, module)
    {
        json_t *items = strcmp(json_string_value(json_object_get(module, "kind")), "encoder") == 0
                            ? items_of(module, has_sources, seq_tokens, values)
                            : NULL;
        if (items != NULL)
            json_object_set_new(module, "items", items);
    }
}

/* those of the module, where the file has any */
static enum cs_status add_adapters(const struct cs_peft *peft, const json_t *module, json_t *list,
                                   struct cs_err *err)
{
    json_t *rows = NULL;
    const char *name = json_string_value(json_object_get(module, "name"));
    const enum cs_status status = cs_peft_rows(peft, name, &rows, err);
    if (status == CS_OK)
        json_array_extend(list, rows);
    json_decref(rows);
    return status == CS_NOT_FOUND ? CS_OK : status;
}

static enum cs_status read_adapters(const char *dir, const json_t *modules, json_t *list,
                                    struct cs_err *err)
{
    static const char *const kinds[] = {"llm", "encoder"};
    char path[CS_PATH_CAP];
    struct cs_peft *peft = NULL;
    enum cs_status status = CS_OK;
    if (dir == NULL)
        return CS_OK;
    CS_TRY(cs_path(path, err, "%s/adapter", dir));
    CS_TRY(cs_peft_open(path, &peft, err));
    for (size_t i = 0; status == CS_OK && i < CS_ARRAY_LEN(kinds); i++)
        if (module_of(modules, kinds[i]) != NULL)
            status = add_adapters(peft, module_of(modules, kinds[i]), list, err);
    cs_peft_close(peft);
    if (status == CS_OK && json_array_size(list) == 0)
        return cs_fail(err, CS_NOT_FOUND, "%s has no adapters of the model's parts", path);
    return status;
}

enum cs_status cs_golden_document(const struct cs_golden_job *job, json_t **out, struct cs_err *err)
{
    json_t *modules = NULL, *adapters = json_array();
    enum cs_status status = cs_hfdir_modules(job->dir, &modules, err);
    if (status == CS_OK)
        status = read_adapters(job->adapter, modules, adapters, err);
    if (status != CS_OK) {
        json_decref(modules);
        json_decref(adapters);
        return status;
    }
    complete(modules);
    if (job->values > 0)
        set_items(modules, job->seq_tokens, job->values);
    *out = job_of(job, modules, adapters);
    return *out != NULL ? CS_OK
                        : cs_fail(err, CS_NO_MEMORY, "no memory for the job of %s", job->dir);
}

/* Reads the whole document: the groups in turn through the key table, then what must hold between
 * keys (check.c). */
#include "core/model/spec.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/arch/arch.h"
#include "core/base/hash.h"
#include "core/base/near.h"
#include "core/base/units.h"
#include "core/model/spec/check.h"
#include "core/model/spec/read.h"

enum { MAX_DEPTH = 32, MAX_RULES = 4096 };

/* Recursion that cannot run away: stops at MAX_DEPTH. */
static bool is_too_deep(const json_t *value, int depth)
{
    const char *key;
    json_t *child;
    size_t i;
    if (depth > MAX_DEPTH)
        return true;
    if (json_is_object(value)) {
        json_object_foreach((json_t *)(uintptr_t)value, key, child)
        {
            if (is_too_deep(child, depth + 1))
                return true;
        }
    }
    json_array_foreach(value, i, child)
    {
        if (is_too_deep(child, depth + 1))
            return true;
    }
    return false;
}

static enum cs_status check_depth(const json_t *root, struct cs_err *err)
{
    if (is_too_deep(root, 1))
        return cs_fail(err, CS_LIMIT, "the job nests deeper than %d levels", MAX_DEPTH);
    return CS_OK;
}

static enum cs_status hash_document(const json_t *root, char out[65], struct cs_err *err)
{
    char *text = json_dumps(root, JSON_SORT_KEYS | JSON_COMPACT);
    if (text == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory to encode the job");
    size_t len = strlen(text);
    cs_sha256_hex(text, len, out);
    free(text);
    if (len > CS_SPEC_MAX_BYTES)
        return cs_fail(err, CS_LIMIT, "the job is %zu bytes of JSON, the limit is %d", len,
                       CS_SPEC_MAX_BYTES);
    return CS_OK;
}

static enum cs_status hash_trained(const json_t *root, struct cs_spec *spec, struct cs_err *err)
{
    json_t *trained = cs_spec_trained(root);
    if (trained == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory to encode what is trained");
    const enum cs_status status = hash_document(trained, spec->trained_hash, err);
    json_decref(trained);
    return status;
}

static enum cs_status read_items(const struct cs_spec_reader *reader, const json_t *object,
                                 const char *where, struct cs_spec_items *out)
{
    const char *path = cs_spec_path(reader, where, "items");
    const json_t *items;
    CS_TRY(cs_spec_child(reader, where, object, "items", false, &items));
    if (items == NULL)
        return CS_OK;
    CS_TRY(cs_spec_read_object(reader, "model.modules[].items", path, NULL, items, out));
    if (out->patches < out->rows)
        return cs_fail(reader->err, CS_INVALID, "%s: %d patches cannot become %d row%s", path,
                       out->patches, out->rows, CS_PLURAL(out->rows));
    return CS_OK;
}

static enum cs_status read_module(const struct cs_spec_reader *reader, const json_t *object,
                                  const char *where, struct cs_spec_module *out)
{
    static const char *const kinds[CS_MODULE_KINDS] = {"encoder", "projector", "llm"};
    const char *kind = json_string_value(json_object_get(object, "kind"));
    int found = CS_MODULE_KINDS;
    for (int i = 0; kind != NULL && i < CS_MODULE_KINDS; i++) {
        if (strcmp(kinds[i], kind) == 0)
            found = i;
    }
    /* an unknown kind is reported by the table, which knows what is accepted */
    CS_TRY(cs_spec_read_object(reader, "model.modules[]", where,
                               found < CS_MODULE_KINDS ? kinds[found] : NULL, object, out));
    out->kind = (enum cs_module_kind)found;
    CS_TRY(read_items(reader, object, where, &out->items));
    if (out->init[0] == '\0')
        out->init = out->dir[0] != '\0' ? "weights" : "random";
    if (out->kind == CS_MODULE_PROJECTOR && out->n_layers == 0)
        out->n_layers = cs_projector_layers(out->family);
    if (out->kind == CS_MODULE_LLM && out->tokenizer[0] == '\0')
        out->tokenizer = out->dir;
    return CS_OK;
}

/* A list of objects of one group, read into an array of structs. */
static enum cs_status read_list(const struct cs_spec_reader *reader, const json_t *object,
                                const char *where, const char *key, size_t size, void **out,
                                int32_t *n)
{
    const char *group = cs_arena_printf(reader->arena, "%s.%s[]", where, key);
    const json_t *list;
    json_t *item;
    size_t i;
    CS_TRY(cs_spec_child(reader, where, object, key, true, &list));
    if (json_array_size(list) > MAX_RULES)
        return cs_fail(reader->err, CS_LIMIT, "%s.%s has %zu %s, the limit is %d", where, key,
                       json_array_size(list), CS_NOUN(json_array_size(list), "entry", "entries"),
                       MAX_RULES);
    char *at = cs_arena_alloc(reader->arena, (json_array_size(list) + 1) * size);
    memset(at, 0, (json_array_size(list) + 1) * size);
    *out = at;
    json_array_foreach(list, i, item)
    {
        const char *path = cs_arena_printf(reader->arena, "%s.%s[%zu]", where, key, i);
        CS_TRY(cs_spec_read_object(reader, group, path, NULL, item, at + i * size));
        ++*n;
    }
    return CS_OK;
}

static enum cs_status read_adapters(const struct cs_spec_reader *reader, const json_t *model,
                                    struct cs_spec *spec)
{
    void *list = NULL;
    CS_TRY(read_list(reader, model, "model", "adapters", sizeof *spec->adapters, &list,
                     &spec->n_adapters));
    spec->adapters = list;
    return CS_OK;
}

static enum cs_status read_groups(const struct cs_spec_reader *reader, const json_t *optimizer,
                                  struct cs_spec *spec)
{
    void *list = NULL;
    CS_TRY(read_list(reader, optimizer, "optimizer", "groups", sizeof *spec->groups, &list,
                     &spec->n_groups));
    spec->groups = list;
    return CS_OK;
}

static enum cs_status read_model(const struct cs_spec_reader *reader, const json_t *model,
                                 struct cs_spec *spec)
{
    const json_t *modules, *rules;
    json_t *item;
    size_t i;
    CS_TRY(cs_spec_read_object(reader, "model", "model", NULL, model, spec));
    CS_TRY(cs_spec_child(reader, "model", model, "modules", true, &modules));
    CS_TRY(cs_spec_child(reader, "model", model, "rules", true, &rules));
    if (json_array_size(modules) > CS_MAX_MODULES)
        return cs_fail(reader->err, CS_LIMIT, "model.modules has %zu modules, the limit is %d",
                       json_array_size(modules), CS_MAX_MODULES);
    if (json_array_size(rules) > MAX_RULES)
        return cs_fail(reader->err, CS_LIMIT, "model.rules has %zu rules, the limit is %d",
                       json_array_size(rules), MAX_RULES);
    json_array_foreach(modules, i, item)
    {
        const char *where = cs_arena_printf(reader->arena, "model.modules[%zu]", i);
        CS_TRY(read_module(reader, item, where, &spec->module[spec->n_modules++]));
    }
    spec->rules = CS_NEW_ARRAY(reader->arena, struct cs_spec_rule, json_array_size(rules) + 1);
    json_array_foreach(rules, i, item)
    {
        const char *where = cs_arena_printf(reader->arena, "model.rules[%zu]", i);
        CS_TRY(cs_spec_read_object(reader, "model.rules[]", where, NULL, item,
                                   &spec->rules[spec->n_rules++]));
    }
    CS_TRY(read_adapters(reader, model, spec));
    CS_TRY(cs_spec_check_modules(reader, spec));
    return cs_spec_check_rules(reader, spec);
}

static struct cs_spec_parallel *find_branch(struct cs_spec *spec, const char *branch)
{
    for (int i = 0; i < spec->n_parallel; i++) {
        if (strcmp(spec->parallel[i].branch, branch) == 0)
            return &spec->parallel[i];
    }
    return NULL;
}

static enum cs_status refuse_encoder(const struct cs_spec_reader *reader, struct cs_spec *spec,
                                     const char *name)
{
    const char *names[CS_MAX_ENCODERS + 1];
    int n = 0;
    for (int i = 0; i < spec->n_parallel; i++)
        if (strcmp(spec->parallel[i].branch, "llm") != 0)
            names[n++] = spec->parallel[i].branch;
    const char *near = cs_near(name, names, n);
    return cs_fail(reader->err, CS_INVALID,
                   "plan.encoder_rows.%.64s: plan.parallel has no encoder of that name%s%s", name,
                   near != NULL ? "; did you mean " : "", near != NULL ? near : "");
}

/* encoder_rows{branch: rows}: keys are names of encoders, so not in the table */
static enum cs_status read_encoder_rows(const struct cs_spec_reader *reader, const json_t *plan,
                                        struct cs_spec *spec)
{
    const json_t *rows;
    const char *name;
    json_t *item;
    CS_TRY(cs_spec_child(reader, "plan", plan, "encoder_rows", false, &rows));
    json_object_foreach((json_t *)(uintptr_t)rows, name, item)
    {
        struct cs_spec_parallel *branch = find_branch(spec, name);
        if (branch == NULL || strcmp(name, "llm") == 0)
            return refuse_encoder(reader, spec, name);
        int64_t n = json_integer_value(item);
        if (!json_is_integer(item) || n < 1 || n > 1 << 24)
            return cs_fail(reader->err, CS_INVALID,
                           "plan.encoder_rows.%s must be a whole number from 1 to %d", name,
                           1 << 24);
        branch->encoder_rows = n;
    }
    return CS_OK;
}

static enum cs_status read_plan(const struct cs_spec_reader *reader, const json_t *plan,
                                struct cs_spec *spec)
{
    const json_t *parallel;
    const char *name;
    json_t *item;
    CS_TRY(cs_spec_read_object(reader, "plan", "plan", NULL, plan, spec));
    CS_TRY(cs_spec_child(reader, "plan", plan, "parallel", false, &parallel));
    json_object_foreach((json_t *)(uintptr_t)parallel, name, item)
    {
        CS_TRY(cs_spec_check_branch(reader, spec, name));
        CS_ASSERT(spec->n_parallel < CS_MAX_ENCODERS + 1);
        struct cs_spec_parallel *out = &spec->parallel[spec->n_parallel++];
        out->branch = cs_arena_strdup(reader->arena, name);
        const char *where = cs_arena_printf(reader->arena, "plan.parallel.%s", name);
        CS_TRY(cs_spec_read_object(reader, "plan.parallel.*", where, NULL, item, out));
    }
    CS_TRY(read_encoder_rows(reader, plan, spec));
    return cs_spec_check_parallel(reader, spec);
}

/* A group whose keys go straight into struct cs_spec; absent: all its defaults. */
static enum cs_status read_group(const struct cs_spec_reader *reader, const json_t *root,
                                 const char *group, struct cs_spec *spec)
{
    const json_t *object;
    CS_TRY(cs_spec_child(reader, "", root, group, false, &object));
    json_t *empty = object == NULL ? json_object() : NULL;
    enum cs_status status =
        cs_spec_read_object(reader, group, group, NULL, object != NULL ? object : empty, spec);
    json_decref(empty);
    return status;
}

static enum cs_status read_data(const struct cs_spec_reader *reader, const json_t *root,
                                struct cs_spec *spec)
{
    const json_t *data, *eval;
    CS_TRY(cs_spec_child(reader, "", root, "data", false, &data));
    CS_TRY(cs_spec_read_object(reader, "data", "data", NULL, data, &spec->data));
    CS_TRY(cs_spec_child(reader, "", root, "eval", false, &eval));
    if (eval == NULL)
        return CS_OK;
    spec->has_eval = true;
    CS_TRY(cs_spec_read_object(reader, "eval", "eval", NULL, eval, spec));
    CS_TRY(cs_spec_child(reader, "eval", eval, "data", false, &data));
    return cs_spec_read_object(reader, "data", "eval.data", NULL, data, &spec->eval_data);
}

enum cs_status cs_spec_read(const json_t *root, struct cs_arena *arena, struct cs_spec **out,
                            struct cs_err *err)
{
    const struct cs_spec_reader reader = {.arena = arena, .err = err};
    const json_t *part;
    struct cs_spec *spec = CS_NEW(arena, struct cs_spec);
    if (!json_is_object(root))
        return cs_fail(err, CS_INVALID, "the job is not a JSON object");
    CS_TRY(check_depth(root, err));
    CS_TRY(hash_document(root, spec->hash, err));
    spec->root = root;
    CS_TRY(cs_spec_read_object(&reader, "", "", NULL, root, spec));
    CS_TRY(cs_spec_child(&reader, "", root, "model", false, &part));
    CS_TRY(read_model(&reader, part, spec));
    CS_TRY(cs_spec_child(&reader, "", root, "plan", false, &part));
    CS_TRY(read_plan(&reader, part, spec));
    CS_TRY(read_data(&reader, root, spec));
    CS_TRY(read_group(&reader, root, "optimizer", spec));
    CS_TRY(read_groups(&reader, json_object_get(root, "optimizer"), spec));
    CS_TRY(read_group(&reader, root, "lr", spec));
    CS_TRY(read_group(&reader, root, "checkpoint", spec));
    CS_TRY(read_group(&reader, root, "alerts", spec));
    CS_TRY(cs_spec_check_hash(&reader, spec));
    CS_TRY(hash_trained(root, spec, err));
    *out = spec;
    return CS_OK;
}

enum cs_status cs_spec_read_model(const json_t *model, struct cs_arena *arena, struct cs_spec **out,
                                  struct cs_err *err)
{
    static const char *const groups[] = {"", "plan", "optimizer", "lr", "checkpoint", "alerts"};
    const struct cs_spec_reader reader = {.arena = arena, .err = err};
    struct cs_spec *spec = CS_NEW(arena, struct cs_spec);
    CS_TRY(hash_document(model, spec->hash, err));
    for (size_t i = 0; i < CS_ARRAY_LEN(groups); i++)
        cs_spec_defaults(groups[i], spec);
    spec->root = model;
    spec->steps = spec->batch_samples = 1;
    CS_TRY(read_model(&reader, model, spec));
    *out = spec;
    return CS_OK;
}

enum cs_status cs_spec_read_plan(const json_t *plan, struct cs_arena *arena, struct cs_spec *spec,
                                 struct cs_err *err)
{
    const struct cs_spec_reader reader = {.arena = arena, .err = err};
    return read_plan(&reader, plan, spec);
}

static bool is_preview(const json_t *root)
{
    const char *schema = json_string_value(json_object_get(root, "schema"));
    return schema != NULL && strcmp(schema, "cornstarch.preview/1") == 0;
}

static enum cs_status check_preview_keys(const json_t *root, struct cs_err *err)
{
    static const char *const known[] = {"schema", "name", "model", "plan", "optimizer"};
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)root, key, value)
    {
        size_t i = 0;
        while (i < CS_ARRAY_LEN(known) && strcmp(known[i], key) != 0)
            i++;
        if (i == CS_ARRAY_LEN(known))
            return cs_fail(err, CS_INVALID,
                           "%.100s is no key of a preview; known here: schema, name, model, plan, "
                           "optimizer",
                           key);
    }
    return CS_OK;
}

enum cs_status cs_spec_read_preview(const json_t *root, struct cs_arena *arena,
                                    struct cs_spec **out, struct cs_err *err)
{
    const struct cs_spec_reader reader = {.arena = arena, .err = err};
    const json_t *plan = json_object_get(root, "plan");
    const char *name = json_string_value(json_object_get(root, "name"));
    struct cs_spec *spec = NULL;
    if (!is_preview(root))
        return cs_spec_read(root, arena, out, err);
    CS_TRY(check_preview_keys(root, err));
    CS_TRY(cs_spec_read_model(json_object_get(root, "model"), arena, &spec, err));
    CS_TRY(hash_document(root, spec->hash, err));
    spec->root = root;
    if (name != NULL)
        spec->name = cs_arena_strdup(arena, name);
    if (plan != NULL)
        CS_TRY(cs_spec_read_plan(plan, arena, spec, err));
    if (json_object_get(root, "optimizer") != NULL) {
        CS_TRY(read_group(&reader, root, "optimizer", spec));
        CS_TRY(read_groups(&reader, json_object_get(root, "optimizer"), spec));
    }
    *out = spec;
    return CS_OK;
}

bool cs_spec_evaluates_after(const struct cs_spec *spec, int64_t step)
{
    if (!spec->has_eval)
        return false;
    return step + 1 == spec->steps || (spec->eval_every > 0 && (step + 1) % spec->eval_every == 0);
}

double cs_spec_lr(const struct cs_spec *spec, int64_t step)
{
    if (step < spec->warmup_steps)
        return (double)(step + 1) / (double)spec->warmup_steps;
    int64_t rest = spec->steps - spec->warmup_steps;
    double progress = (double)(step - spec->warmup_steps) / (double)(rest > 1 ? rest : 1);
    if (progress > 1)
        progress = 1;
    double factor = 1;
    if (strcmp(spec->lr_kind, "linear") == 0)
        factor = 1 - progress;
    else if (strcmp(spec->lr_kind, "cosine") == 0)
        factor = 0.5 * (1 + cos(3.14159265358979323846 * progress));
    else
        return 1;
    return factor * (1 - spec->lr_final_ratio) + spec->lr_final_ratio;
}

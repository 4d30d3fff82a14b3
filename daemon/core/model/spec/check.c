/* What must hold between keys of a specification. */
#include "core/model/spec/check.h"

#include <string.h>

#include "core/base/glob.h"
#include "core/base/near.h"
#include "core/doc/doc.h"

enum { MAX_BRANCH_NAME = 32 };

static const char *const suffixes[CS_MODULE_KINDS] = {".encoder", ".projector", ""};

/* "vision" of "vision.encoder"; "llm" of "llm" */
static const char *branch_of(const struct cs_spec_reader *reader,
                             const struct cs_spec_module *module)
{
    size_t len = strcspn(module->name, ".");
    return cs_arena_strndup(reader->arena, module->name, len);
}

static bool is_branch_name(const char *name, size_t len)
{
    if (len == 0 || len > MAX_BRANCH_NAME || name[0] < 'a' || name[0] > 'z')
        return false;
    return strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789_") >= len;
}

static enum cs_status check_name(const struct cs_spec_reader *reader, const struct cs_spec *spec,
                                 int index)
{
    const struct cs_spec_module *module = &spec->module[index];
    const char *name = module->name, *suffix = suffixes[module->kind];
    size_t branch = strcspn(name, ".");
    bool is_llm = branch == 3 && memcmp(name, "llm", 3) == 0;
    if (!is_branch_name(name, branch) || strcmp(name + branch, suffix) != 0 ||
        is_llm != (module->kind == CS_MODULE_LLM))
        return cs_fail(
            reader->err, CS_INVALID, "model.modules[%d].name is \"%s\"; the name of %s is %s%s%s",
            index, name,
            module->kind == CS_MODULE_LLM       ? "the llm"
            : module->kind == CS_MODULE_ENCODER ? "an encoder"
                                                : "a projector",
            module->kind == CS_MODULE_LLM ? "\"llm\"" : "X", suffix,
            module->kind == CS_MODULE_LLM ? "" : " with X of a-z, 0-9 and _, at most 32, not llm");
    for (int i = 0; i < index; i++) {
        if (strcmp(spec->module[i].name, name) == 0)
            return cs_fail(reader->err, CS_INVALID,
                           "model.modules[%d].name \"%s\" is taken by model.modules[%d]", index,
                           name, i);
    }
    return CS_OK;
}

static enum cs_status check_source(const struct cs_spec_reader *reader, const struct cs_spec *spec,
                                   int index)
{
    const struct cs_spec_module *module = &spec->module[index];
    if (strcmp(module->init, "weights") == 0 && module->dir[0] == '\0')
        return cs_fail(reader->err, CS_INVALID,
                       "model.modules[%d].init is \"weights\", but \"%s\" has no dir to take them "
                       "from",
                       index, module->name);
    if (module->kind != CS_MODULE_PROJECTOR && module->config == NULL)
        return cs_fail(reader->err, CS_INVALID,
                       "model.modules[%d].config is missing: \"%s\" needs its config.json", index,
                       module->name);
    if (module->kind == CS_MODULE_PROJECTOR &&
        module->n_layers > cs_projector_layers(module->family))
        return cs_fail(reader->err, CS_INVALID,
                       "model.modules[%d].layers is %d; a projector of family %s has at most %d",
                       index, module->n_layers, module->family,
                       cs_projector_layers(module->family));
    return CS_OK;
}

static const struct cs_spec_module *find_module(const struct cs_spec *spec, const char *branch,
                                                enum cs_module_kind kind)
{
    size_t len = strlen(branch);
    for (int i = 0; i < spec->n_modules; i++) {
        const struct cs_spec_module *module = &spec->module[i];
        if (module->kind == kind && strncmp(module->name, branch, len) == 0 &&
            strcmp(module->name + len, suffixes[kind]) == 0)
            return module;
    }
    return NULL;
}

static enum cs_status check_partner(const struct cs_spec_reader *reader, const struct cs_spec *spec,
                                    const struct cs_spec_module *module)
{
    if (module->kind == CS_MODULE_LLM)
        return CS_OK;
    bool is_encoder = module->kind == CS_MODULE_ENCODER;
    const char *branch = branch_of(reader, module);
    if (find_module(spec, branch, is_encoder ? CS_MODULE_PROJECTOR : CS_MODULE_ENCODER) == NULL)
        return cs_fail(reader->err, CS_INVALID,
                       is_encoder ? "model.modules: %s has no projector; add %s.projector"
                                  : "model.modules: %s has no encoder; add %s.encoder",
                       module->name, branch);
    return CS_OK;
}

static enum cs_status check_token(const struct cs_spec_reader *reader, const struct cs_spec *spec,
                                  int index)
{
    for (int i = 0; i < index; i++) {
        const char *other = spec->module[i].token, *token = spec->module[index].token;
        if (other != NULL && token != NULL && strcmp(other, token) == 0)
            return cs_fail(reader->err, CS_INVALID,
                           "model.modules[%d].token \"%s\" is also that of %s; placeholders must "
                           "differ",
                           index, token, spec->module[i].name);
    }
    return CS_OK;
}

/* window and prefix go with the rules that read them. */
static enum cs_status check_mask(const struct cs_spec_reader *reader, const struct cs_spec *spec,
                                 int index)
{
    const struct cs_spec_module *module = &spec->module[index];

    const struct {
        const char *key, *rules, *optional;
        int32_t value;
    } of[] = {
        {"window", "window|image_bidir_window", "image_window", module->window},
        {"prefix", "prefix",                    "",             module->prefix},
    };

    for (size_t i = 0; i < CS_ARRAY_LEN(of) && module->kind == CS_MODULE_LLM; i++) {
        const bool is_asked = cs_doc_is_word(of[i].rules, module->mask);
        if (is_asked && of[i].value < 1)
            return cs_fail(reader->err, CS_INVALID,
                           "model.modules[%d].mask is \"%s\", which needs %s of at least 1 token",
                           index, module->mask, of[i].key);
        if (!is_asked && !cs_doc_is_word(of[i].optional, module->mask) && of[i].value != 0)
            return cs_fail(reader->err, CS_INVALID,
                           "model.modules[%d].%s is %d, but mask is \"%s\"; set mask to \"%s\" or "
                           "leave %s out",
                           index, of[i].key, (int)of[i].value, module->mask, of[i].key, of[i].key);
    }
    return CS_OK;
}

enum cs_status cs_spec_check_modules(const struct cs_spec_reader *reader,
                                     const struct cs_spec *spec)
{
    int count[CS_MODULE_KINDS] = {0};
    for (int i = 0; i < spec->n_modules; i++) {
        CS_TRY(check_name(reader, spec, i));
        CS_TRY(check_source(reader, spec, i));
        CS_TRY(check_token(reader, spec, i));
        CS_TRY(check_mask(reader, spec, i));
        count[spec->module[i].kind]++;
    }
    for (int i = 0; i < spec->n_modules; i++)
        CS_TRY(check_partner(reader, spec, &spec->module[i]));
    if (count[CS_MODULE_LLM] != 1)
        return cs_fail(reader->err, CS_INVALID, "model.modules has no llm; it needs exactly one");
    if (count[CS_MODULE_ENCODER] > CS_MAX_ENCODERS)
        return cs_fail(reader->err, CS_LIMIT, "model.modules has %d encoders, the limit is %d",
                       count[CS_MODULE_ENCODER], CS_MAX_ENCODERS);
    return CS_OK;
}

/* Names of the branches, the llm's too; returns the count. */
static int branch_names(const struct cs_spec_reader *reader, const struct cs_spec *spec,
                        const char *names[CS_MAX_MODULES])
{
    int n = 0;
    for (int i = 0; i < spec->n_modules; i++) {
        if (spec->module[i].kind != CS_MODULE_PROJECTOR)
            names[n++] = branch_of(reader, &spec->module[i]);
    }
    return n;
}

enum cs_status cs_spec_check_branch(const struct cs_spec_reader *reader, const struct cs_spec *spec,
                                    const char *name)
{
    const char *names[CS_MAX_MODULES];
    int n = branch_names(reader, spec, names);
    for (int i = 0; i < n; i++) {
        if (strcmp(names[i], name) == 0)
            return CS_OK;
    }
    const char *near = cs_near(name, names, n);
    char list[CS_MAX_MODULES * (MAX_BRANCH_NAME + 2)] = "";
    for (int i = 0; i < n; i++) {
        strcat(list, i > 0 ? ", " : "");
        strcat(list, names[i]);
    }
    return cs_fail(reader->err, CS_INVALID,
                   "plan.parallel.%.64s is no branch of the model%s%s%s; "
                   "branches: %s",
                   name, near != NULL ? "; did you mean \"" : "", near != NULL ? near : "",
                   near != NULL ? "\"?" : "", list);
}

enum cs_status cs_spec_check_rules(const struct cs_spec_reader *reader, const struct cs_spec *spec)
{
    for (int i = 0; i < spec->n_rules; i++) {
        const char *problem = cs_glob_problem(spec->rules[i].glob);
        if (problem != NULL)
            return cs_fail(reader->err, CS_INVALID, "model.rules[%d].glob \"%s\": %s", i,
                           spec->rules[i].glob, problem);
    }
    return CS_OK;
}

enum cs_status cs_spec_check_parallel(const struct cs_spec_reader *reader,
                                      const struct cs_spec *spec)
{
    const char *names[CS_MAX_MODULES];
    int n = branch_names(reader, spec, names);
    for (int i = 0; i < n; i++)
        if (cs_spec_parallel_of(spec, names[i]) == NULL)
            return cs_fail(reader->err, CS_INVALID,
                           "plan.parallel.%s is missing: every branch needs its pp", names[i]);
    return CS_OK;
}

enum cs_status cs_spec_check_hash(const struct cs_spec_reader *reader, const struct cs_spec *spec)
{
    size_t len = strlen(spec->plan_hash);
    if (len != 0 && (len != 64 || strspn(spec->plan_hash, "0123456789abcdef") != 64))
        return cs_fail(reader->err, CS_INVALID,
                       "plan_hash is neither empty nor 64 digits of lower-case hex");
    return CS_OK;
}

enum cs_status cs_spec_check_precision(const struct cs_spec *spec, const char *device,
                                       struct cs_err *err)
{
    const bool is_cpu = strcmp(device, "cpu") == 0;
    if (is_cpu && strcmp(spec->precision, "bf16") == 0)
        return cs_fail(err, CS_INVALID,
                       "precision is \"bf16\", but CPU ranks compute in fp32: leave precision out "
                       "(GPUs then compute in bf16), or plan for GPUs");
    if (strcmp(spec->state, "bf16") != 0 || (!is_cpu && strcmp(spec->precision, "fp32") != 0))
        return CS_OK;
    return cs_fail(err, CS_INVALID, "optimizer.state is \"bf16\", but %s: leave state out, or %s",
                   is_cpu ? "CPU ranks compute in fp32" : "precision is \"fp32\"",
                   is_cpu ? "plan for GPUs" : "leave precision out");
}

bool cs_spec_moves_heads(const struct cs_spec *spec)
{
    return spec->context_exchange != NULL && strcmp(spec->context_exchange, "heads") == 0;
}

bool cs_spec_chooses_exchange(const struct cs_spec *spec)
{
    return spec->context_exchange != NULL && strcmp(spec->context_exchange, "auto") == 0;
}

const struct cs_spec_parallel *cs_spec_parallel_of(const struct cs_spec *spec, const char *branch)
{
    for (int i = 0; i < spec->n_parallel; i++)
        if (strcmp(spec->parallel[i].branch, branch) == 0)
            return &spec->parallel[i];
    return NULL;
}

const struct cs_placement_info *cs_spec_placement(const struct cs_spec *spec, const char *branch)
{
    const struct cs_spec_parallel *given = cs_spec_parallel_of(spec, branch);
    if (given != NULL && given->place != NULL && strcmp(given->place, CS_PLACE_DEFAULT) != 0)
        return cs_placement_find(given->place);
    return cs_placement_of_modality(spec->modality);
}

static int64_t at_least_one(int32_t n)
{
    return n > 1 ? n : 1;
}

int64_t cs_spec_ranks(const struct cs_spec *spec)
{
    int64_t own = 0, most = 0;
    for (int i = 0; i < spec->n_parallel; i++) {
        const struct cs_spec_parallel *branch = &spec->parallel[i];
        const int64_t ranks = branch->pp * at_least_one(branch->tp) * at_least_one(branch->cp) *
                              at_least_one(branch->dp > 0 ? branch->dp : spec->dp);
        const struct cs_placement_info *placement = cs_spec_placement(spec, branch->branch);
        if (strcmp(branch->branch, "llm") != 0 && placement != NULL && placement->has_own_ranks)
            own += ranks;
        else /* encoders without ranks of their own use those of the LLM; every replica has its own */
            most = ranks > most ? ranks : most;
    }
    return own + most;
}

/* Reads LoRA adapters of PEFT's; see peft.h. */
#include "store/hf/peft.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/buf.h"
#include "core/base/glob.h"
#include "core/doc/doc.h"
#include "store/fsio.h"
#include "store/hf/peft_parts.h"

static const char wrapper[] = "base_model.model.";

#define NOT(name, only_, why)                                                                      \
    {                                                                                              \
        .names = name, .types = CS_DOC_ANY, .use = CS_DOC_REFUSED, .only = only_, .text = why      \
    }

/* clang-format off */
static const struct cs_doc_key keys[] = {
    {.names = "peft_type", .types = CS_DOC_STRING, .accept = "LORA"},
    {.names = "r", .types = CS_DOC_INT, .min = 1, .max = 4096},
    {.names = "lora_alpha", .types = CS_DOC_NUMBER, .min = 0, .max = 1e6},
    {.names = "rank_pattern", .types = CS_DOC_OBJECT},
    {.names = "alpha_pattern", .types = CS_DOC_OBJECT},
    {.names = "use_rslora", .types = CS_DOC_BOOL},
    {.names = "target_modules|exclude_modules|layers_to_transform|layers_pattern", .types = CS_DOC_ANY, .use = CS_DOC_HARMLESS}, /* the tensors say it */
    NOT("lora_dropout", "0.0", "dropout in adapters is not supported"),
    NOT("bias", "\"none\"", "trained biases beside adapters are not supported"),
    NOT("lora_bias", "false", "biases of adapters are not supported"),
    NOT("use_dora", "false", "DoRA is not supported"),
    NOT("use_qalora", "false", "QALoRA is not supported"),
    NOT("use_bdlora", "null", "block-diagonal adapters are not supported"),
    NOT("fan_in_fan_out", "false", "matrices stored the other way are not supported"),
    {.names = "modules_to_save", .types = CS_DOC_LIST},
    NOT("layer_replication", "null", "replicated layers are not supported"),
    NOT("target_parameters", "null", "adapters of parameters that are no layers are not supported"),
    NOT("trainable_token_indices", "null", "trained rows of the embedding are not supported"),
    NOT("megatron_config", "null", "adapters cut by Megatron are not supported"),
    {.names = "*", .types = CS_DOC_ANY, .use = CS_DOC_HARMLESS},
};
/* clang-format on */
static const struct cs_doc_table table = CS_DOC_TABLE(keys, NULL);

/* An empty list names nothing, as null does. */
static void drop_empty_lists(json_t *config)
{
    const char *key;
    json_t *value;
    void *next;
    json_object_foreach_safe(config, next, key, value)
    {
        if (json_is_array(value) && json_array_size(value) == 0)
            json_object_del(config, key);
    }
}

static enum cs_status open_files(struct cs_peft *p, const char *dir, struct cs_err *err)
{
    char path[CS_PATH_CAP];
    CS_TRY(cs_path(path, err, "%s/adapter_config.json", dir));
    enum cs_status status = cs_fs_read_json(path, &p->config, err);
    if (status != CS_OK)
        return cs_wrap(err, status, "%s is no adapter directory of PEFT's", dir);
    drop_empty_lists(p->config);
    CS_TRY(cs_doc_review(
        &(struct cs_doc){.name = path, .where = "", .json = p->config, .table = &table}, NULL,
        err));
    CS_TRY(cs_path(path, err, "%s/adapter_model.safetensors", dir));
    return cs_st_open(path, &p->file, err);
}

enum cs_status cs_peft_open(const char *dir, struct cs_peft **out, struct cs_err *err)
{
    struct cs_peft *p = calloc(1, sizeof *p);
    *out = NULL;
    if (p == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory to open %s", dir);
    p->dir = strdup(dir);
    const enum cs_status status = p->dir != NULL
                                      ? open_files(p, dir, err)
                                      : cs_fail(err, CS_NO_MEMORY, "no memory to open %s", dir);
    if (status != CS_OK) {
        cs_peft_close(p);
        return status;
    }
    *out = p;
    return CS_OK;
}

void cs_peft_close(struct cs_peft *peft)
{
    if (peft == NULL)
        return;
    cs_st_close(peft->file);
    json_decref(peft->config);
    free(peft->dir);
    free(peft);
}

int cs_peft_count(const struct cs_peft *peft)
{
    return cs_st_count(peft->file);
}

/* The component's own name of what the whole model calls `name`; false: it is of another part. */
static bool own_name(const struct cs_composite_family *family, enum cs_module_kind kind,
                     const char *name, char out[CS_PEFT_NAME])
{
    /* in memory the parts of composites lie under these names, whatever the files call them */
    static const struct cs_part_name memory[] = {
        {CS_MODULE_LLM,       "model.language_model.",        "model."},
        {CS_MODULE_LLM,       "language_model.model.",        "model."},
        {CS_MODULE_LLM,       "model.text_model.",            "model."},
        {CS_MODULE_ENCODER,   "model.vision_tower.",          ""      },
        {CS_MODULE_ENCODER,   "model.vision_model.",          ""      },
        {CS_MODULE_ENCODER,   "model.visual.",                ""      },
        {CS_MODULE_ENCODER,   "model.audio_tower.",           ""      },
        {CS_MODULE_PROJECTOR, "model.multi_modal_projector.", ""      },
    };
    const struct cs_part_name *row = family != NULL ? cs_composite_name(family, name) : NULL;
    for (size_t i = 0; row == NULL && i < CS_ARRAY_LEN(memory); i++)
        if (strncmp(name, memory[i].disk, strlen(memory[i].disk)) == 0)
            row = &memory[i];
    if (row != NULL && row->kind != kind)
        return false;
    snprintf(out, CS_PEFT_NAME, "%s%s", row != NULL ? row->component : "",
             name + (row != NULL ? strlen(row->disk) : 0));
    return true;
}

/* "model.layers.0.self_attn.q_proj.lora_A.weight" without what PEFT puts before it; NULL: none of its */
static const char *unwrapped(const struct cs_st_tensor *t)
{
    const bool is_wrapped = strncmp(t->name, wrapper, sizeof wrapper - 1) == 0;
    return is_wrapped ? t->name + sizeof wrapper - 1 : NULL;
}

const struct cs_st_tensor *cs_peft_find(const struct cs_peft *peft,
                                        const struct cs_composite_family *family,
                                        enum cs_module_kind kind, const char *tensor)
{
    char own[CS_PEFT_NAME];
    for (int i = 0; i < cs_st_count(peft->file); i++) {
        const struct cs_st_tensor *t = cs_st_at(peft->file, i);
        const char *name = unwrapped(t);
        if (name != NULL && own_name(family, kind, name, own) && strcmp(own, tensor) == 0)
            return t;
    }
    return NULL;
}

/* PEFT's patterns name the ends of layers, or are regular expressions of that. */
static double by_pattern(const json_t *patterns, const char *layer, double fallback)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)patterns, key, value)
    {
        const size_t len = strlen(key), all = strlen(layer);
        if (strcmp(key, layer) == 0 ||
            (all > len && layer[all - len - 1] == '.' && strcmp(layer + all - len, key) == 0))
            return json_number_value(value);
    }
    return fallback;
}

/* the row with that rank and scale, a new one at the end of the list where there is none */
static json_t *row_of(json_t *list, const char *dir, const char *module, int64_t rank, double alpha,
                      bool is_root)
{
    json_t *row;
    size_t i;
    json_array_foreach(list, i, row)
    {
        if (json_integer_value(json_object_get(row, "rank")) == rank &&
            fabs(json_number_value(json_object_get(row, "alpha")) - alpha) < 1e-9)
            return row;
    }
    row = json_pack("{s:s, s:s, s:I, s:f, s:b, s:s}", "module", module, "targets", "", "rank",
                    (json_int_t)rank, "alpha", alpha, "rslora", (int)is_root, "dir", dir);
    json_array_append_new(list, row);
    return row;
}

static void add_target(json_t *row, const char *layer)
{
    const char *before = json_string_value(json_object_get(row, "targets"));
    json_object_set_new(row, "targets",
                        json_sprintf("%s%s%s", before, *before != '\0' ? "|" : "", layer));
}

static bool ends_with(const char *name, const char *end)
{
    const size_t len = strlen(name), n = strlen(end);
    return len > n && strcmp(name + len - n, end) == 0;
}

static bool is_factor(const struct cs_st_tensor *t)
{
    return t->n_dims == 2 &&
           (ends_with(t->name, ".lora_A.weight") || ends_with(t->name, ".lora_B.weight"));
}

/* The layer of a tensor ends as PEFT's list of layers that are saved whole says. */
static bool is_saved_whole(const struct cs_peft *peft, const char *name)
{
    const char *dot = strrchr(name, '.');
    const size_t len = dot != NULL ? (size_t)(dot - name) : 0;
    const json_t *layer;
    size_t i;
    json_array_foreach(json_object_get(peft->config, "modules_to_save"), i, layer)
    {
        const char *word = json_string_value(layer);
        const size_t n = word != NULL ? strlen(word) : 0;
        if (n > 0 && n <= len && strncmp(name + len - n, word, n) == 0 &&
            (n == len || name[len - n - 1] == '.'))
            return true;
    }
    return false;
}

/* PEFT also writes an embedding whose rows have grown, and its head, unasked. */
static bool is_kept(const struct cs_peft *peft, const char *name)
{
    return strstr(name, "lora_") == NULL &&
           (is_saved_whole(peft, name) || ends_with(name, ".embed_tokens.weight") ||
            strcmp(name, "lm_head.weight") == 0);
}

/* The file holds pairs of matrices of linear layers, and layers as a whole. */
static enum cs_status check_tensors(const struct cs_peft *peft, struct cs_err *err)
{
    for (int i = 0; i < cs_st_count(peft->file); i++) {
        const struct cs_st_tensor *t = cs_st_at(peft->file, i);
        const char *name = unwrapped(t);
        if (name == NULL || (!is_factor(t) && !is_kept(peft, name)))
            return cs_fail(err, CS_UNSUPPORTED,
                           "%s: %s is no factor of the adapter of a linear layer, nor of a layer "
                           "of modules_to_save: others are not supported",
                           cs_st_path(peft->file), t->name);
    }
    return CS_OK;
}

/* A head that is the embedding once more: a tied model has one matrix for both. */
static bool is_tied_head(const struct cs_peft *peft, const struct cs_st_tensor *head)
{
    const char *name = unwrapped(head);
    if (strcmp(name, "lm_head.weight") != 0)
        return false;
    for (int i = 0; i < cs_st_count(peft->file); i++) {
        const struct cs_st_tensor *t = cs_st_at(peft->file, i);
        if (ends_with(t->name, ".embed_tokens.weight") && t->count == head->count &&
            t->dtype == head->dtype &&
            memcmp(t->data, head->data, (size_t)t->count * cs_dtype_bytes(t->dtype)) == 0)
            return true;
    }
    return false;
}

void cs_peft_rules(const struct cs_peft *peft, const char *module, json_t *rules)
{
    const enum cs_module_kind kind = strcmp(module, "llm") == 0 ? CS_MODULE_LLM : CS_MODULE_ENCODER;
    for (int i = 0; i < cs_st_count(peft->file); i++) {
        char own[CS_PEFT_NAME];
        const struct cs_st_tensor *t = cs_st_at(peft->file, i);
        const char *name = unwrapped(t);
        if (name == NULL || is_factor(t) || !is_saved_whole(peft, name) || is_tied_head(peft, t) ||
            !own_name(NULL, kind, name, own))
            continue;
        json_array_append_new(rules, json_pack("{s:s, s:o}", "op", "train", "glob",
                                               json_sprintf("%s/%s", module, own)));
    }
}

enum cs_status cs_peft_rows(const struct cs_peft *peft, const char *module, json_t **out,
                            struct cs_err *err)
{
    static const char end[] = ".lora_A.weight";
    const enum cs_module_kind kind = strcmp(module, "llm") == 0 ? CS_MODULE_LLM : CS_MODULE_ENCODER;
    const double alpha = json_number_value(json_object_get(peft->config, "lora_alpha"));
    CS_TRY(check_tensors(peft, err));
    json_t *list = json_array();
    for (int i = 0; i < cs_st_count(peft->file); i++) {
        char own[CS_PEFT_NAME];
        const struct cs_st_tensor *t = cs_st_at(peft->file, i);
        const char *name = unwrapped(t);
        if (!ends_with(name, end) || !own_name(NULL, kind, name, own))
            continue;
        own[strlen(own) - (sizeof end - 1)] = '\0';
        json_t *row = row_of(list, peft->dir, module, t->dim[0],
                             by_pattern(json_object_get(peft->config, "alpha_pattern"), own, alpha),
                             json_is_true(json_object_get(peft->config, "use_rslora")));
        add_target(row, own);
    }
    if (json_array_size(list) > 0) {
        *out = list;
        return CS_OK;
    }
    json_decref(list);
    return cs_fail(err, CS_NOT_FOUND, "%s has no adapters of module %s", peft->dir, module);
}

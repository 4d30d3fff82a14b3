/* Projectors: what a specification or a projector's own config.json says of one, as an architecture. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/arch/read/config.h"

enum { MAX_WIDTH = 1 << 20 };

/* clang-format off */
static const struct cs_doc_key keys[] = {
    {.names = "n_layers", .types = CS_DOC_INT, .min = 1, .max = 3, .text = "linear layers"},
    {.names = "activation", .types = CS_DOC_STRING, .accept = CS_ACT_WORDS "|none|linear", .text = "between two layers"},
    {.names = "bias", .types = CS_DOC_BOOL, .text = "whether the layers have one"},
    {.names = "in_width", .types = CS_DOC_INT, .min = 1, .max = MAX_WIDTH, .text = "of the encoder"},
    {.names = "out_width", .types = CS_DOC_INT, .min = 1, .max = MAX_WIDTH, .text = "of the language model"},
    {.names = "feature_layer", .types = CS_DOC_INT, .min = -4096, .max = 4096, .text = "hidden state of the encoder that it was trained on"},
    /* how many rows become one, as composites say it: patches a side, rows of a picture, the ratio of the sides */
    {.names = "merge", .types = CS_DOC_INT, .min = 1, .max = 64, .text = "patches a side that become one row"},
    {.names = "tokens", .types = CS_DOC_INT, .min = 1, .max = 1 << 20, .text = "rows of a picture"},
    {.names = "downsample_ratio", .types = CS_DOC_POSITIVE, .max = 1, .text = "of the rows a side to the patches a side"},
    {.names = "pool|standardize", .types = CS_DOC_ANY, .use = CS_DOC_HARMLESS}, /* the encoder's own */
    {.names = "newline", .types = CS_DOC_BOOL, .text = "a learned row stands behind every line of a picture"},
    {.names = "group", .types = CS_DOC_INT, .min = 0, .max = 4096, .text = "rows of the encoder that become one"},
    {.names = "norm_eps", .types = CS_DOC_NUMBER, .min = 0, .max = 1, .text = "of its norm"},
    {.names = "keeps_class", .types = CS_DOC_BOOL, .text = "the encoder's class row is a row like others"},
    {.names = "final_norm", .types = CS_DOC_BOOL, .text = "it was trained on the state after the encoder's final norm"},
};

/* clang-format on */
static const struct cs_doc_table table = CS_DOC_TABLE(keys, &cs_model_common);

const struct cs_doc_table *cs_projector_keys(void)
{
    return &table;
}

/* D drops class rows, N norms, C concatenates, W weaves, M means, L multiplies, A activates. */
static const struct kind {
    const char *family, *chain;
    enum cs_norm_kind norm;
    float eps, offset;

    enum { BEFORE, AFTER } inner; /* width between matrices: as before them, or as behind them */

    int32_t least, most; /* matrices */
    bool is_transposed;
} kinds[] = {
    {"linear",             "DCL",    CS_ARCH_LAYER_NORM, 0,     0, AFTER,  1, 1, false},
    {"mlp",                "DCLAL",  CS_ARCH_LAYER_NORM, 0,     0, AFTER,  1, 2, false},
    {"qwen2_vl_merger",    "NCLAL",  CS_ARCH_LAYER_NORM, 1e-6F, 0, BEFORE, 2, 2, false},
    {"qwen2_5_vl_merger",  "NCLAL",  CS_ARCH_RMS_NORM,   1e-6F, 0, BEFORE, 2, 2, false},
    {"qwen3_vl_merger",    "NCLAL",  CS_ARCH_LAYER_NORM, 1e-6F, 0, BEFORE, 2, 2, false},
    {"internvl_projector", "DCNLAL", CS_ARCH_LAYER_NORM, 1e-5F, 0, AFTER,  2, 2, false},
    {"mistral3_projector", "NWLLAL", CS_ARCH_RMS_NORM,   1e-5F, 0, AFTER,  3, 3, false},
    {"gemma3_projector",   "MNL",    CS_ARCH_RMS_NORM,   1e-6F, 1, AFTER,  1, 1, true },
    {"gemma4_projector",   "NL",     CS_ARCH_RMS_NORM,   1e-6F, 0, AFTER,  1, 1, false},
    {"voxtral_projector",  "CLAL",   CS_ARCH_LAYER_NORM, 0,     0, AFTER,  2, 2, false},
    {"smolvlm_connector",  "CL",     CS_ARCH_LAYER_NORM, 0,     0, AFTER,  1, 1, false},
};

static const struct kind *kind_of(const char *family)
{
    for (size_t i = 0; i < CS_ARRAY_LEN(kinds); i++)
        if (strcmp(kinds[i].family, family) == 0)
            return &kinds[i];
    return NULL;
}

int32_t cs_projector_layers(const char *family)
{
    const struct kind *kind = kind_of(family);
    return kind != NULL ? kind->most : 0;
}

static enum cs_status check(const struct cs_projector *p, const char *at, struct cs_err *err)
{
    char list[256] = "";
    const struct kind *kind = kind_of(p->family);
    for (size_t i = 0; i < CS_ARRAY_LEN(kinds); i++) {
        strcat(list, i > 0 ? ", " : "");
        strcat(list, kinds[i].family);
    }
    if (kind == NULL)
        return cs_fail(err, CS_INVALID, "%sprojector family \"%.64s\" is not known; these are: %s",
                       at, p->family, list);
    if (p->n_layers < kind->least || p->n_layers > kind->most)
        return cs_fail(err, CS_INVALID, "%sa projector of family %s has %d%s, not %d", at,
                       p->family, kind->least,
                       kind->most > kind->least ? " or 2 layers"
                       : kind->least > 1        ? " layers"
                                                : " layer",
                       p->n_layers);
    if (p->n_layers > 1 && !cs_doc_is_word(CS_ACT_WORDS, p->activation))
        return cs_fail(err, CS_UNSUPPORTED,
                       "%sactivation \"%.64s\" is not supported; these are: %s", at, p->activation,
                       CS_ACT_WORDS);
    if (p->group < 0 || p->group > 4096)
        return cs_fail(err, CS_INVALID, "%s%d rows become one: 1 to 4096 can", at, p->group);
    return CS_OK;
}

/* Matrices end at the width of the LLM, but for the first of Mistral's, which only merges, and Qwen's,
 * which is as wide as what is joined. */
static void set_widths(const struct kind *kind, int32_t n_linears, int32_t out_width,
                       struct cs_chain *chain)
{
    for (int32_t i = 0; i < n_linears; i++)
        chain->linear[i] = out_width;
    if (n_linears == 3)
        chain->linear[0] = chain->in_width;
    if (n_linears == 2 && kind->inner == BEFORE)
        chain->linear[0] = chain->in_width * chain->group;
}

enum cs_status cs_arch_projector(const struct cs_projector *projector, int32_t in_width,
                                 int32_t out_width, struct cs_arch *out, struct cs_err *err)
{
    CS_TRY(check(projector, "", err));
    CS_ASSERT(in_width > 0 && out_width > 0);
    const struct kind *kind = kind_of(projector->family);
    const int32_t group = projector->group > 1 ? projector->group : 1;
    *out = (struct cs_arch){
        .kind = CS_MODULE_PROJECTOR,
        .family = kind->family,
        .width = out_width,
        .in_width = in_width,
        .n_layers = projector->n_layers,
        .norm = kind->norm,
        .norm_eps = projector->norm_eps > 0 ? projector->norm_eps : kind->eps,
        .norm_offset = kind->offset,
        .embed_scale = 1,
        .has_mlp_bias = projector->has_bias,
        .front = {.merge = 1, .pool = 1, .patch_frames = 1, .keeps_class = projector->keeps_class},
 /* LeCun: rows keep their scale. 0.02 starves a narrow LLM of the picture for long */
        .initializer_range = (float)(1.0 / sqrt((double)in_width * group)),
    };
    cs_chain_make(kind->chain + (projector->keeps_class && kind->chain[0] == 'D'),
                  projector->n_layers, group, in_width, &out->chain);
    out->chain.is_transposed = kind->is_transposed;
    out->chain.has_newline = projector->has_newline;
    set_widths(kind, projector->n_layers, out_width, &out->chain);
    out->ffn_width = out->chain.linear[0];
    if (projector->n_layers > 1)
        out->act = cs_act_named(projector->activation);
    if (kind->inner == BEFORE) /* Qwen's, whatever the tower has */
        out->act = CS_ARCH_GELU;
    out->chain.act = (int)out->act;
    return CS_OK;
}

void cs_projector_settle(const struct cs_arch *encoder, struct cs_projector *projector)
{
    int32_t grid[3];
    cs_front_fixed_grid(encoder, grid);
    const int64_t patches = (int64_t)grid[1] * grid[2];
    if (projector->tokens > 0 && patches % projector->tokens == 0)
        projector->group = (int32_t)(patches / projector->tokens);
    if (strcmp(projector->family, "voxtral_projector") == 0 && projector->group == 0)
        projector->group = encoder->ffn_width / encoder->width;
}

bool cs_arch_own_projector(const struct cs_arch *encoder, struct cs_projector *out)
{
    static const struct {
        const char *encoder, *family;
    } own[] = {
        {"qwen2_vl_vision",   "qwen2_vl_merger"  },
        {"qwen2_5_vl_vision", "qwen2_5_vl_merger"},
        {"qwen3_vl_vision",   "qwen3_vl_merger"  },
    };

    for (size_t i = 0; i < CS_ARRAY_LEN(own); i++) {
        if (strcmp(own[i].encoder, encoder->family) != 0)
            continue;
        *out = (struct cs_projector){.family = own[i].family,
                                     .n_layers = 2,
                                     .activation = "gelu",
                                     .has_bias = true,
                                     .group = cs_front_group(encoder)};
        return true;
    }
    return false;
}

/* A step that would do nothing. */
static void leave_away_first(struct cs_chain *chain)
{
    for (int32_t i = 1; i < chain->n; i++)
        chain->op[i - 1] = chain->op[i];
    chain->n--;
}

enum cs_status cs_arch_join(struct cs_arch *encoder, struct cs_arch *projector, struct cs_err *err)
{
    struct cs_front *f = &encoder->front;
    const int32_t group = projector->chain.group;
    const int32_t side = (int32_t)lround(sqrt((double)group));
    f->keeps_class = projector->front.keeps_class;
    if (!f->has_class && projector->chain.op[0] == CS_CHAIN_DROP_CLASS)
        leave_away_first(&projector->chain);
    if (group == 1 || cs_front_group(encoder) == group)
        return CS_OK;
    if (f->stem != CS_STEM_FRAMES && side * side != group)
        return cs_fail(err, CS_INVALID,
                       "%d patches become one row: rows are joined in squares of patches", group);
    f->merge = f->stem == CS_STEM_FRAMES ? group : side;
    return CS_OK;
}

void cs_arch_fills(struct cs_arch *projector)
{
    struct cs_chain *chain = &projector->chain;
    CS_ASSERT(chain->n > 0 && chain->n < CS_CHAIN_STEPS);
    chain->op[chain->n++] = CS_CHAIN_FILL;
}

bool cs_projector_is(const json_t *config)
{
    const char *type = json_string_value(json_object_get(config, "model_type"));
    return type != NULL && kind_of(type) != NULL;
}

/* The value of a key, or NULL after saying which default is taken. */
static const json_t *look_up(const struct cs_config_source *config, const char *key,
                             const char *fallback)
{
    const json_t *value = cs_doc_get(config->json, key, NULL);
    if (value == NULL)
        cs_model_say_default(config, key, fallback, "the default of a projector");
    return value;
}

/* 0: the config does not say it. */
static int32_t read_group(const json_t *config)
{
    const int32_t merge = (int32_t)json_integer_value(cs_doc_get(config, "merge", NULL));
    const double ratio = json_number_value(cs_doc_get(config, "downsample_ratio", NULL));
    const int32_t side = ratio > 0 ? (int32_t)lround(1 / ratio) : merge;
    return side > 0 ? side * side : (int32_t)json_integer_value(cs_doc_get(config, "group", NULL));
}

enum cs_status cs_projector_read(const struct cs_config_source *config, struct cs_projector *out,
                                 int32_t widths[2], struct cs_err *err)
{
    static const char *const width_keys[] = {"in_width", "out_width"};
    char at[512], layers[16];
    cs_model_at(config, at);
    if (!cs_projector_is(config->json))
        return cs_fail(err, CS_INVALID,
                       "%smodel_type of a projector is \"mlp\", \"linear\" or that of a composite; "
                       "this is no projector",
                       at);
    CS_TRY(cs_doc_review(&(struct cs_doc){config->document, config->where, config->json, &table},
                         config->findings, err));
    *out = (struct cs_projector){
        .family = json_string_value(json_object_get(config->json, "model_type")),
        .activation = "gelu",
    };
    snprintf(layers, sizeof layers, "%d", kind_of(out->family)->most);
    const json_t *n_layers = look_up(config, "n_layers", layers);
    const json_t *bias = look_up(config, "bias", "true");
    out->n_layers = n_layers != NULL ? (int32_t)json_integer_value(n_layers) : layers[0] - '0';
    out->has_bias = bias == NULL || json_is_true(bias);
    if (out->n_layers > 1) {
        const json_t *act = look_up(config, "activation", "gelu");
        out->activation = act != NULL ? json_string_value(act) : "gelu";
    }
    out->group = read_group(config->json);
    out->tokens = (int32_t)json_integer_value(cs_doc_get(config->json, "tokens", NULL));
    out->norm_eps = (float)json_number_value(cs_doc_get(config->json, "norm_eps", NULL));
    out->has_newline = json_is_true(cs_doc_get(config->json, "newline", NULL));
    out->keeps_class = json_is_true(cs_doc_get(config->json, "keeps_class", NULL));
    for (int i = 0; widths != NULL && i < 2; i++)
        widths[i] = (int32_t)json_integer_value(cs_doc_get(config->json, width_keys[i], NULL));
    return check(out, at, err);
}

enum cs_status cs_arch_read_projector(const struct cs_config_source *config, struct cs_arch *out,
                                      struct cs_err *err)
{
    struct cs_projector projector;
    int32_t widths[2];
    char at[512];
    CS_TRY(cs_projector_read(config, &projector, widths, err));
    if (widths[0] == 0 || widths[1] == 0)
        return cs_fail(err, CS_INVALID, "%s%s is missing: a projector says both of its widths",
                       cs_model_at(config, at), widths[0] == 0 ? "in_width" : "out_width");
    return cs_arch_projector(&projector, widths[0], widths[1], out, err);
}

json_t *cs_projector_config(const struct cs_arch *arch)
{
    json_t *config = json_pack("{s:s, s:i, s:i, s:i, s:b}", "model_type", arch->family, "n_layers",
                               (int)arch->n_layers, "in_width", (int)arch->in_width, "out_width",
                               (int)arch->width, "bias", (int)arch->has_mlp_bias);
    if (config != NULL && arch->n_layers > 1)
        json_object_set_new(config, "activation", json_string(cs_act_word(arch->act)));
    if (config != NULL && arch->chain.group > 1)
        json_object_set_new(config, "group", json_integer(arch->chain.group));
    if (config != NULL && arch->norm_eps > 0)
        json_object_set_new(config, "norm_eps", json_real((double)arch->norm_eps));
    if (config != NULL && arch->chain.has_newline)
        json_object_set_new(config, "newline", json_true());
    if (config != NULL && arch->front.keeps_class)
        json_object_set_new(config, "keeps_class", json_true());
    return config;
}

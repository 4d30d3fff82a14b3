/* Projectors: what a specification or a projector's own config.json says of one, as an architecture. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/arch/config.h"

enum { MAX_WIDTH = 1 << 20 };

/* clang-format off */
static const struct cs_doc_key keys[] = {
    {.names = "n_layers", .types = CS_DOC_INT, .min = 1, .max = 2, .text = "linear layers"},
    {.names = "activation", .types = CS_DOC_STRING, .accept = CS_ACT_WORDS "|none|linear", .text = "between two layers"},
    {.names = "bias", .types = CS_DOC_BOOL, .text = "whether the layers have one"},
    {.names = "in_width", .types = CS_DOC_INT, .min = 1, .max = MAX_WIDTH, .text = "of the encoder"},
    {.names = "out_width", .types = CS_DOC_INT, .min = 1, .max = MAX_WIDTH, .text = "of the language model"},
    {.names = "feature_layer", .types = CS_DOC_INT, .min = -4096, .max = 4096, .text = "hidden state of the encoder that it was trained on"},
    {.names = "final_norm", .types = CS_DOC_BOOL, .text = "it was trained on the state after the encoder's final norm"},
};

/* clang-format on */
static const struct cs_doc_table table = CS_DOC_TABLE(keys, &cs_model_common);

const struct cs_doc_table *cs_projector_keys(void)
{
    return &table;
}

static bool is_linear(const char *family)
{
    return strcmp(family, "linear") == 0;
}

static enum cs_status check(const struct cs_projector *p, const char *at, struct cs_err *err)
{
    if (!is_linear(p->family) && strcmp(p->family, "mlp") != 0)
        return cs_fail(err, CS_INVALID, "%sprojector family \"%.64s\" is neither mlp nor linear",
                       at, p->family);
    if (p->n_layers < 1 || p->n_layers > (is_linear(p->family) ? 1 : 2))
        return cs_fail(err, CS_INVALID, "%sa projector of family %s has %s, not %d", at, p->family,
                       is_linear(p->family) ? "1 layer" : "1 or 2 layers", p->n_layers);
    if (p->n_layers > 1 && !cs_doc_is_word(CS_ACT_WORDS, p->activation))
        return cs_fail(err, CS_UNSUPPORTED,
                       "%sactivation \"%.64s\" is not supported; these are: %s", at, p->activation,
                       CS_ACT_WORDS);
    return CS_OK;
}

enum cs_status cs_arch_projector(const struct cs_projector *projector, int32_t in_width,
                                 int32_t out_width, struct cs_arch *out, struct cs_err *err)
{
    CS_TRY(check(projector, "", err));
    CS_ASSERT(in_width > 0 && out_width > 0);
    *out = (struct cs_arch){
        .kind = CS_MODULE_PROJECTOR,
        .family = is_linear(projector->family) ? "linear" : "mlp",
        .width = out_width,
        .in_width = in_width,
        .ffn_width = out_width, /* LLaVA: both linears end at the LLM's width */
        .n_layers = projector->n_layers,
        .embed_scale = 1,
        .has_mlp_bias = projector->has_bias,
        /* LeCun: rows keep their scale. 0.02 starves a narrow LLM of the picture for long */
        .initializer_range = (float)(1.0 / sqrt((double)in_width)),
    };
    if (projector->n_layers > 1)
        out->act = cs_act_named(projector->activation);
    return CS_OK;
}

bool cs_projector_is(const json_t *config)
{
    const char *type = json_string_value(json_object_get(config, "model_type"));
    return type != NULL && cs_doc_is_word("mlp|linear", type);
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

enum cs_status cs_projector_read(const struct cs_config_source *config, struct cs_projector *out,
                                 int32_t widths[2], struct cs_err *err)
{
    static const char *const width_keys[] = {"in_width", "out_width"};
    char at[512], layers[16];
    cs_model_at(config, at);
    if (!cs_projector_is(config->json))
        return cs_fail(err, CS_INVALID,
                       "%smodel_type of a projector is \"mlp\" or \"linear\"; this is no projector",
                       at);
    CS_TRY(cs_doc_review(&(struct cs_doc){config->document, config->where, config->json, &table},
                         config->findings, err));
    *out = (struct cs_projector){json_string_value(json_object_get(config->json, "model_type")), 1,
                                 "gelu", true};
    snprintf(layers, sizeof layers, "%d", is_linear(out->family) ? 1 : 2);
    const json_t *n_layers = look_up(config, "n_layers", layers);
    const json_t *bias = look_up(config, "bias", "true");
    out->n_layers = n_layers != NULL ? (int32_t)json_integer_value(n_layers) : layers[0] - '0';
    out->has_bias = bias == NULL || json_is_true(bias);
    if (out->n_layers > 1) {
        const json_t *act = look_up(config, "activation", "gelu");
        out->activation = act != NULL ? json_string_value(act) : "gelu";
    }
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
    return config;
}

/* Fills the options of an architecture from a config.json through rows of keys. */
#include "core/arch/read/config.h"

#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    enum cs_arch_act act;
} activations[] = {
    {"gelu",              CS_ARCH_GELU      },
    {"gelu_pytorch_tanh", CS_ARCH_GELU_TANH },
    {"gelu_new",          CS_ARCH_GELU_TANH },
    {"gelu_fast",         CS_ARCH_GELU_TANH },
    {"quick_gelu",        CS_ARCH_QUICK_GELU},
    {"silu",              CS_ARCH_SILU      },
    {"swish",             CS_ARCH_SILU      },
    {"relu",              CS_ARCH_RELU      },
};

enum cs_arch_act cs_act_named(const char *word)
{
    for (size_t i = 0; i < CS_ARRAY_LEN(activations); i++)
        if (strcmp(activations[i].name, word) == 0)
            return activations[i].act;
    CS_ASSERT(!"a word of CS_ACT_WORDS");
    return CS_ARCH_ACT_NONE;
}

const char *cs_act_word(enum cs_arch_act act)
{
    for (size_t i = 0; i < CS_ARRAY_LEN(activations); i++)
        if (activations[i].act == act)
            return activations[i].name;
    return "none";
}

const char *cs_model_at(const struct cs_config_source *config, char out[512])
{
    snprintf(out, 512, "%.300s: %.200s%s", config->document, config->where,
             config->where[0] != '\0' ? "." : "");
    return out;
}

void cs_model_say_default(const struct cs_config_source *config, const char *key, const char *value,
                          const char *source)
{
    char path[256];
    if (config->findings == NULL || key[0] == '\0')
        return;
    snprintf(path, sizeof path, "%s%s%s", config->where, config->where[0] != '\0' ? "." : "", key);
    cs_findings_say(config->findings, CS_FINDING_DEFAULT, config->document, path, NULL,
                    "%s is not given: %s, %s", path, value, source);
}

static int32_t *int_at(struct cs_arch *arch, size_t offset)
{
    return (int32_t *)(void *)((char *)arch + offset);
}

static void store(const struct cs_config_key *key, double number, enum cs_arch_act act,
                  struct cs_arch *arch)
{
    char *at = (char *)arch + key->field;
    switch (key->store) {
    case CS_KEY_INT:
    case CS_KEY_WORD:
        *(int32_t *)(void *)at = number >= INT32_MAX   ? INT32_MAX
                                 : number <= INT32_MIN ? INT32_MIN
                                                       : (int32_t)number;
        break;
    case CS_KEY_FLOAT:
        *(float *)(void *)at = (float)number;
        break;
    case CS_KEY_BOOL:
        *(bool *)at = number > 0;
        break;
    case CS_KEY_ACT:
        arch->act = act;
        break;
    case CS_KEY_NONE:
        break;
    }
}

/* The place of a word in "a|b|c", which it is one of. */
static int place_of(const char *words, const char *word)
{
    const size_t n = strlen(word);
    int place = 0;
    while (strncmp(words, word, n) != 0 || (words[n] != '\0' && words[n] != '|')) {
        words = strchr(words, '|') + 1;
        place++;
    }
    return place;
}

static const char *word_at(const char *words, int place, int *n)
{
    for (; place > 0; place--)
        words = strchr(words, '|') + 1;
    *n = (int)strcspn(words, "|");
    return words;
}

static void say_default(const struct cs_config_source *config, const struct cs_config_key *key,
                        const char *name, const char *source, double number)
{
    char value[64];
    int n;
    const char *word = key->store == CS_KEY_WORD ? word_at(key->doc.accept, (int)number, &n) : NULL;
    if (word != NULL)
        snprintf(value, sizeof value, "%.*s", n, word);
    else if (key->store == CS_KEY_BOOL)
        snprintf(value, sizeof value, "%s", number > 0 ? "true" : "false");
    else if (key->store == CS_KEY_ACT)
        snprintf(value, sizeof value, "%s", cs_act_word((enum cs_arch_act)number));
    else
        snprintf(value, sizeof value, "%.7g", number);
    cs_model_say_default(config, name, value, source);
}

static enum cs_status take_default(const struct cs_config_source *config,
                                   const struct cs_config_key *key, const char *name,
                                   const char *model_type, struct cs_arch *arch, struct cs_err *err)
{
    char at[512], source[96];
    const int32_t n_heads = arch->attention[0].n_heads;
    bool is_null = json_is_null(json_object_get(config->json, name));
    double number = key->number;
    snprintf(source, sizeof source, "the default of %.60s", model_type);
    if (key->fallback == CS_DEFAULT_PER_HEAD ||
        (key->fallback == CS_DEFAULT_NULL_PER_HEAD && is_null)) {
        if (arch->width % n_heads != 0)
            return cs_fail(err, CS_INVALID,
                           "%shidden_size %d does not divide by num_attention_heads %d, and there "
                           "is no head_dim",
                           cs_model_at(config, at), arch->width, n_heads);
        number = arch->width / n_heads;
        snprintf(source, sizeof source, "hidden_size / num_attention_heads");
    }
    if (key->fallback == CS_DEFAULT_FIELD || (key->fallback == CS_DEFAULT_MIXED && is_null))
        number = *int_at(arch, key->other);
    if (key->fallback == CS_DEFAULT_OR_NONE && is_null)
        number = 0;
    store(key, number, (enum cs_arch_act)number, arch);
    say_default(config, key, name, source, number);
    return CS_OK;
}

/* The value is known to be of the row's type. */
static void take(const struct cs_config_key *key, const json_t *value, struct cs_arch *arch)
{
    if (json_is_array(value)) /* of equal numbers: front_read.c */
        value = json_array_get(value, 0);
    double number = json_is_boolean(value) ? json_is_true(value) : json_number_value(value);
    if (key->store == CS_KEY_WORD)
        number = place_of(key->doc.accept, json_string_value(value));
    store(key, number,
          key->store == CS_KEY_ACT ? cs_act_named(json_string_value(value)) : CS_ARCH_ACT_NONE,
          arch);
}

enum cs_status cs_model_fill(const struct cs_config_source *config,
                             const struct cs_doc_table *table, const char *model_type,
                             struct cs_arch *out, struct cs_err *err)
{
    const struct cs_config_key *keys = table->rows;
    for (int i = 0; i < table->n; i++) {
        char name[CS_DOC_NAME] = "";
        if (keys[i].store == CS_KEY_NONE)
            continue;
        const json_t *value = cs_doc_get(config->json, keys[i].doc.names, name);
        if (value != NULL)
            take(&keys[i], value, out);
        else
            CS_TRY(take_default(config, &keys[i], name, model_type, out, err));
    }
    return CS_OK;
}

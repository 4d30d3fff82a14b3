/* From the directory of a model to the document of a job. */
#include "support/golden_document.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "support/spec.h"
#include "support/tmpdir.h"

const char *golden_path(const char *family, const char *file)
{
    static char path[4096];
    const bool is_path = family[0] == '/';
    snprintf(path, sizeof path, "%s%s%s%s", is_path ? "" : "tests/golden/models/", family,
             *file ? "/" : "", file);
    return is_path ? path : source_path(path);
}

json_t *golden_config(const char *family)
{
    size_t bytes;
    char *text = tmpdir_read(golden_path(family, "config.json"), &bytes);
    assert_non_null(text);
    json_t *config = json_loadb(text, bytes, 0, NULL);
    assert_non_null(config);
    free(text);
    return config;
}

static json_t *module_of(json_t *root, const char *name)
{
    json_t *modules = json_object_get(json_object_get(root, "model"), "modules");
    for (size_t i = 0; i < json_array_size(modules); i++) {
        json_t *m = json_array_get(modules, i);
        if (strcmp(json_string_value(json_object_get(m, "name")), name) == 0)
            return m;
    }
    return NULL;
}

static void use_weights(json_t *root, const char *module, const char *family, const json_t *config)
{
    char dir[4096];
    json_t *m = module_of(root, module);
    assert_non_null(m);
    if (realpath(golden_path(family, ""), dir) == NULL)
        fail_msg("no directory %s", golden_path(family, ""));
    json_object_set_new(m, "dir", json_string(dir));
    json_object_set_new(m, "init", json_string("weights"));
    if (config != NULL)
        json_object_set_new(m, "config", json_deep_copy(config));
}

/* what the goldens' optimizer was */
static void use_optimizer(json_t *root)
{
    json_object_set_new(root, "optimizer",
                        json_pack("{s:s, s:f, s:[f, f], s:f, s:f, s:f, s:i}", "kind", "adamw", "lr",
                                  1e-3, "betas", 0.9, 0.95, "eps", 1e-8, "weight_decay", 0.1,
                                  "clip", 1.0, "warmup_steps", 0));
    json_object_set_new(root, "lr", json_pack("{s:s}", "kind", "constant"));
}

json_t *golden_document(const char *family)
{
    json_t *config = golden_config(family);
    const char *type = json_string_value(json_object_get(config, "model_type"));
    const bool is_llava = strcmp(type, "llava") == 0, is_llm = strncmp(family, "siglip", 6) != 0;
    const struct cs_test_spec options = {
        .n_encoders = is_llava || !is_llm ? 1 : -1,
        .has_feature_layer = is_llava,
        .feature_layer = -2,
        .is_tied = true,
        .seq_tokens = 256,
    };
    json_t *root = cs_test_spec_json(&options);
    use_optimizer(root);
    if (is_llava) {
        use_weights(root, "vision.encoder", family, json_object_get(config, "vision_config"));
        use_weights(root, "vision.projector", family, NULL);
        use_weights(root, "llm", family, json_object_get(config, "text_config"));
    } else {
        use_weights(root, is_llm ? "llm" : "vision.encoder", family, config);
    }
    json_decref(config);
    return root;
}

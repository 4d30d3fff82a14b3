/* Fuzz target: configurations of every family that are nearly right. The first bytes say which config.json of
 * the golden models (this project's, and those beside it) or of tests/golden/configs.json is changed. A
 * composite is taken apart as its directory would be. What is read has tensors of sensible shapes. */
#include <glob.h>
#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>

#include "core/arch/read/composite.h"
#include "fuzz/edit.h"
#include "support/tmpdir.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { LAYERS = 200 };

/* All configurations there are to change, made once. */
static const json_t *originals(void)
{
    static json_t *list;
    glob_t found = {0};
    const json_t *one = NULL;
    size_t i = 0;

    if (list != NULL)
        return list;
    list = json_array();
    (void)!glob(source_path("tests/golden/models/*/config.json"), 0, NULL, &found);
    (void)!glob(source_path("../shared/golden/models/*/config.json"), GLOB_APPEND, NULL, &found);
    for (i = 0; i < found.gl_pathc; i++)
        json_array_append_new(list, json_load_file(found.gl_pathv[i], 0, NULL));
    globfree(&found);
    json_t *file = json_load_file(source_path("tests/golden/configs.json"), 0, NULL);
    json_array_foreach(file, i, one) json_array_append(list, json_object_get(one, "config"));
    json_decref(file);
    fuzz_must(json_array_size(list) > 20);
    return list;
}

static void read_model(const struct cs_config_source *source, struct cs_arena *arena)
{
    struct cs_tensor_info *tensors = NULL;
    struct cs_arch arch = {0};
    struct cs_err err = {0};

    if (cs_arch_read(source, arena, &arch, &err) != CS_OK) {
        fuzz_must(err.text[0] != '\0');
        return;
    }
    if (arch.n_layers > LAYERS)
        return;
    const int n = cs_arch_tensors(&arch, arena, &tensors);
    fuzz_must(n > 0);
    for (int i = 0; i < n; i++)
        for (int d = 0; d < tensors[i].n_dims; d++)
            fuzz_must(tensors[i].dim[d] > 0);
}

static void read_part(const struct cs_config_source *root, const char *key, struct cs_arena *arena)
{
    const struct cs_config_source source = {
        "config.json", key, key[0] != '\0' ? json_object_get(root->json, key) : root->json,
        root->findings};

    if (json_is_object(source.json))
        read_model(&source, arena);
}

static void read_composite(const struct cs_composite_family *family,
                           const struct cs_config_source *source, struct cs_arena *arena)
{
    struct cs_composite composite = {0};
    struct cs_err err = {0};

    if (cs_composite_read(source, true, &composite, &err) != CS_OK) {
        fuzz_must(err.text[0] != '\0');
        return;
    }
    json_t *projector = cs_composite_projector(&composite, source->json);
    struct cs_projector read;
    int32_t widths[2];
    if (projector != NULL && cs_projector_is(projector)) {
        const struct cs_config_source own = {"projector", "", projector, source->findings};
        (void)!cs_projector_read(&own, &read, widths, &err);
    }
    json_decref(projector);
    read_part(source, family->encoder_key, arena);
    if (family->text_key != NULL)
        read_part(source, family->text_key, arena);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_bytes bytes = {data, size};
    const uint32_t which = fuzz_take(&bytes, (uint32_t)json_array_size(originals()));
    json_t *document = json_deep_copy(json_array_get(originals(), which));
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_findings findings = {.arena = arena};
    const struct cs_config_source source = {"config.json", "", document, &findings};

    fuzz_edit(document, &bytes);
    const struct cs_composite_family *family = cs_composite_of(document);
    if (family != NULL)
        read_composite(family, &source, arena);
    else
        read_model(&source, arena);
    json_decref(document);
    cs_arena_free(arena);
    return 0;
}

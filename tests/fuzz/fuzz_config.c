/* Fuzz target: configurations of models, processors and chat templates that are nearly right. What is
 * accepted must have tensors of sizes that can be counted. */
#include "core/arch/arch.h"
#include "fuzz/edit.h"
#include "input/chat/template.h"
#include "input/media/processor.h"
#include "support/spec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const processor_text =
    "{\"image_processor_type\":\"SiglipImageProcessor\",\"do_resize\":true,\"size\":{\"height\":28,"
    "\"width\":28},\"resample\":3,\"do_rescale\":true,\"rescale_factor\":0.00392156862745098,"
    "\"do_normalize\":true,\"image_mean\":[0.5,0.5,0.5],\"image_std\":[0.5,0.5,0.5],"
    "\"do_center_crop\":false}";
static const char *const template_text =
    "{\"name\":\"own\",\"bos\":\"<s>\",\"default_system\":\"x\",\"system\":{\"prefix\":\"a\","
    "\"suffix\":"
    "\"b\"},\"user\":{\"prefix\":\"u\"},\"assistant\":{\"prefix\":\"p\",\"lead\":\"l\",\"end\":"
    "\"e\","
    "\"suffix\":\"s\"},\"trim\":true,\"train_on\":\"last\",\"missing_placeholder\":\"reject\"}";

static void model(json_t *config, struct cs_arena *arena, struct cs_err *err)
{
    struct cs_findings findings = {.arena = arena};
    const struct cs_config_source source = {"config.json", "", config, &findings};
    struct cs_tensor_info *tensors = NULL;
    struct cs_arch arch;

    if (cs_arch_read(&source, arena, &arch, err) != CS_OK)
        return;
    if (arch.n_layers > 0 && arch.n_layers < 100)
        fuzz_must(cs_arch_tensors(&arch, arena, &tensors) > 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_bytes bytes = {data, size};
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_err err = {0};
    struct cs_processor processor;
    struct cs_template chat;
    const uint32_t kind = fuzz_take(&bytes, 6);
    json_t *document = kind == 0   ? cs_test_siglip_config(3, 48)
                       : kind == 1 ? json_loads(processor_text, 0, NULL)
                       : kind == 2 ? json_loads(template_text, 0, NULL)
                                   : cs_test_llm_config(3, 48, kind == 3, kind == 4);

    fuzz_must(document != NULL);
    fuzz_edit(document, &bytes);
    if (kind == 1)
        (void)!cs_processor_read(document, &processor, &err);
    else if (kind == 2)
        (void)!cs_template_read(document, arena, &chat, &err);
    else
        model(document, arena, &err);
    json_decref(document);
    cs_arena_free(arena);
    return 0;
}

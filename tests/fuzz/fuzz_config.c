/* Fuzz target: configurations of models, processors and chat templates that are nearly right. What is
 * accepted must have tensors of sizes that can be counted. */
#include "core/arch/arch.h"
#include "fuzz/edit.h"
#include "input/chat/template.h"
#include "input/media/layout.h"
#include "support/spec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define COMMON                                                                                     \
    "\"do_resize\":true,\"resample\":3,\"do_rescale\":true,\"rescale_factor\":0.0039,"             \
    "\"do_normalize\":true,\"image_mean\":[0.5,0.5,0.5],\"image_std\":[0.5,0.5,0.5]"
/* one of each kind, at sides of 28 with patches of 14 */
static const char *const processor_texts[] = {
    "{\"image_processor_type\":\"CLIPImageProcessor\",\"size\":{\"shortest_edge\":30},"
    "\"crop_size\":{\"height\":28,\"width\":28},\"do_center_crop\":true," COMMON "}",
    "{\"image_processor_type\":\"LlavaImageProcessor\",\"size\":{\"height\":28,\"width\":28},"
    "\"do_pad\":true,\"do_center_crop\":false," COMMON "}",
    "{\"image_processor_type\":\"Qwen2VLImageProcessor\",\"size\":{\"shortest_edge\":784,"
    "\"longest_edge\":7840},\"patch_size\":14,\"merge_size\":1,\"temporal_patch_size\":1," COMMON
    "}",
    "{\"image_processor_type\":\"PixtralImageProcessor\",\"size\":{\"longest_edge\":64},"
    "\"patch_size\":{\"height\":14,\"width\":14}," COMMON "}",
    "{\"image_processor_type\":\"Siglip2ImageProcessor\",\"patch_size\":14,\"max_num_patches\":"
    "20," COMMON "}",
    "{\"image_processor_type\":\"Gemma4ImageProcessor\",\"patch_size\":14,\"max_soft_tokens\":20,"
    "\"pooling_kernel_size\":1," COMMON "}",
    "{\"image_processor_type\":\"GotOcr2ImageProcessor\",\"size\":{\"height\":28,\"width\":28},"
    "\"crop_to_patches\":true,\"min_patches\":1,\"max_patches\":6," COMMON "}",
    "{\"image_processor_type\":\"Gemma3ImageProcessor\",\"size\":{\"height\":28,\"width\":28},"
    "\"do_pan_and_scan\":true,\"pan_and_scan_min_crop_size\":8,\"pan_and_scan_max_num_crops\":3,"
    "\"pan_and_scan_min_ratio_to_activate\":1.2," COMMON "}",
    "{\"image_processor_type\":\"LlavaNextImageProcessor\",\"size\":{\"shortest_edge\":28},"
    "\"crop_size\":{\"height\":28,\"width\":28},\"do_center_crop\":true,"
    "\"image_grid_pinpoints\":[[28,56],[56,28],[56,56]]," COMMON "}",
    "{\"image_processor_type\":\"SmolVLMImageProcessor\",\"size\":{\"longest_edge\":84},"
    "\"max_image_size\":{\"longest_edge\":28},\"do_image_splitting\":true," COMMON "}",
};
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

/* What it makes of pictures of any size stays within what it says beforehand. */
static void processor(const json_t *config, struct fuzz_bytes *bytes, struct cs_arena *arena,
                      struct cs_err *err)
{
    const struct cs_media_encoder encoder = {
        .family = "fuzz", .side = 28, .patch = 14, .merge = 1, .frames = 1, .channels = 3};
    struct cs_processor p;
    struct cs_media_bounds bounds;
    struct cs_media_layout layout;

    if (cs_processor_read(config, &p, err) != CS_OK ||
        cs_media_bounds_of(&p, &encoder, &bounds, err) != CS_OK)
        return;
    const struct cs_medium medium = {.kind = CS_ITEM_IMAGE,
                                     .width = 1 + (int32_t)fuzz_take(bytes, 9999),
                                     .height = 1 + (int32_t)fuzz_take(bytes, 9999),
                                     .n_frames = 1,
                                     .n_of_sample = 1 + (int32_t)fuzz_take(bytes, 2)};
    if (bounds.items > 300 || bounds.placeholders > 100000 ||
        cs_media_layout_make(&p, &encoder, &medium, arena, &layout, err) != CS_OK)
        return;
    fuzz_must(layout.n_items >= 1 && layout.n_items <= bounds.items);
    fuzz_must(layout.n_rows >= 1 && layout.n_rows <= bounds.placeholders);
    for (int i = 0; i < layout.n_items; i++)
        fuzz_must(layout.items[i].shape.rows <= bounds.item_rows &&
                  layout.items[i].shape.bytes <= bounds.item_bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_bytes bytes = {data, size};
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_err err = {0};
    struct cs_template chat;
    const uint32_t kind = fuzz_take(&bytes, 6);
    const uint32_t row = fuzz_take(&bytes, CS_ARRAY_LEN(processor_texts));
    json_t *document = kind == 0   ? cs_test_siglip_config(3, 48)
                       : kind == 1 ? json_loads(processor_texts[row], 0, NULL)
                       : kind == 2 ? json_loads(template_text, 0, NULL)
                                   : cs_test_llm_config(3, 48, kind == 3, kind == 4);

    fuzz_must(document != NULL);
    fuzz_edit(document, &bytes);
    if (kind == 1)
        processor(document, &bytes, arena, &err);
    else if (kind == 2)
        (void)!cs_template_read(document, arena, &chat, &err);
    else
        model(document, arena, &err);
    json_decref(document);
    cs_arena_free(arena);
    return 0;
}

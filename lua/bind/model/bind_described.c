/* The keys are those of a config.json of the type cornstarch_vision (core/arch/families/own.c), which has the defaults;
 * what is wrong with their values is said here, at the line of the script. */
#include "lua/bind/model/bind_described.h"

#include "core/arch/arch.h"
#include "input/make/model_init.h"
#include "input/media/processor.h"
#include "lua/bind/bind.h"

/* clang-format off */
#define COUNT(key, most, fallback, help)   {key, CS_ARG_INT, false, NULL, 1, most, 0, fallback, help}
#define FLAG(key, fallback, help)          {key, CS_ARG_BOOL, false, NULL, 0, 0, 0, fallback, help}
#define WORD(key, words, fallback, help)   {key, CS_ARG_STRING, false, words, 0, 0, 0, fallback, help}
#define NUMBER(key, lo, hi, fallback, help) {key, CS_ARG_NUMBER, false, NULL, lo, hi, 0, fallback, help}

const struct cs_arg cs_lua_described_args[CS_LUA_N_DESCRIBED_ARGS] = {
    COUNT("hidden_size", 1 << 20, "768", "width of a row"),
    COUNT("intermediate_size", 1 << 20, "3072", "inner width of the MLPs"),
    COUNT("num_hidden_layers", 4096, "12", "blocks"),
    COUNT("num_attention_heads", 4096, "12", "heads of queries"),
    COUNT("num_key_value_heads", 4096, "num_attention_heads", "heads of keys and values"),
    COUNT("head_dim", 1024, "hidden_size / num_attention_heads", "width of a head"),
    {"image_size", CS_ARG_INT, false, NULL, 0, 4096, 0, "224", "pixels a side of its pictures; 0: they have any size, as processor says"},
    COUNT("patch_size", 4096, "16", "pixels a side of a patch"),
    WORD("positions", "none|row|bicubic|area|corners|buckets", "\"row\"", "learned positions: one for every patch of image_size, or a square table that is resized to the grid of a picture, as in DINOv2 (bicubic), SigLIP 2 (area), Qwen3-VL (corners), SmolVLM (buckets: not resized, the place at the same share)"),
    {"num_positions", CS_ARG_INT, false, NULL, 1, 1 << 16, 0, "the patches of image_size", "rows of that table"},
    NUMBER("rope_theta", 1e-3, 1e15, NULL, "queries and keys are turned by their place in the grid, as in Pixtral; absent: they are not"),
    WORD("norm_type", "layer_norm|rms_norm", "\"layer_norm\"", "kind of all norms"),
    NUMBER("norm_eps", 1e-12, 1, "1e-6", "of all norms"),
    WORD("qk_norm", "none|head|width", "\"none\"", "RMS norms of queries and keys: of every head, or over all of them"),
    WORD("hidden_act", "gelu|gelu_pytorch_tanh|relu|silu|quick_gelu", "\"gelu\"", "of the MLPs"),
    FLAG("gated_mlp", "false", "the activation of one product times another (gate_proj, up_proj) instead of one (fc1)"),
    FLAG("qkv_bias", "true", "whether queries, keys and values have biases"),
    FLAG("out_bias", "true", "whether what leaves the attention has one"),
    FLAG("mlp_bias", "true", "whether the MLPs have them"),
    FLAG("patch_bias", "true", "whether the patches have one"),
    FLAG("class_row", "false", "a learned row before the patches, which projectors drop"),
    FLAG("pre_norm", "false", "a norm before the first block, as in CLIP"),
    FLAG("final_norm", "true", "a norm behind the last block"),
    FLAG("layer_scale", "false", "what a half of a block adds is multiplied with a learned vector, as in DINOv2"),
    NUMBER("initializer_range", 0, 10, "0.02", "standard deviation of fresh weights"),
    {"processor", CS_ARG_TABLE, false, NULL, 0, 0, 0, "pictures are resized to image_size, values from -1 to 1", "what is done to pictures, as in a preprocessor_config.json: { image_processor_type = \"CLIPImageProcessor\", ... }"},
};

/* clang-format on */
static const struct cs_lua_function function = {
    "cs.encoder", "", "", cs_lua_described_args, CS_LUA_N_DESCRIBED_ARGS, NULL, NULL};

static enum cs_status check(const json_t *config, struct cs_arch *arch, struct cs_err *err)
{
    struct cs_arena *arena = cs_arena_new(0);
    const struct cs_config_source source = {"cs.encoder", "", config, NULL};
    const enum cs_status status = cs_arch_read(&source, arena, arch, err);
    cs_arena_free(arena);
    return status;
}

/* the script's, else one that follows from the size of pictures; into value */
static void set_processor(lua_State *L, const struct cs_arch *arch, struct cs_lua_value *value)
{
    struct cs_processor ignored;
    struct cs_err err;
    json_t *given = cs_lua_args_json(L, "processor", &function);
    if (given == NULL && arch->image_size == 0)
        cs_lua_error(L, "cs.encoder: pictures of any size need processor = { image_processor_type "
                        "= ... }, or image_size says the one that they have");
    if (given != NULL && cs_processor_read(given, &ignored, &err) != CS_OK)
        cs_lua_raise(L, "cs.encoder: processor", &err);
    json_object_set_new(value->json, "processor",
                        given ? json_incref(given) : cs_model_init_processor(arch));
}

int cs_lua_described(lua_State *L)
{
    struct cs_arch arch;
    struct cs_err err;
    cs_lua_args_check(L, &function);
    struct cs_lua_value *value = cs_lua_value_new(L, CS_LUA_HF, NULL);
    const int self = lua_gettop(L);
    json_t *config = json_pack("{s:s}", "model_type", "cornstarch_vision");
    value->json = json_pack("{s:s, s:s, s:o, s:b}", "dir", "", "init", "random", "config", config,
                            "has_tokenizer", 0);
    cs_lua_args_copy(L, &function, config);
    if (check(config, &arch, &err) != CS_OK)
        return cs_lua_error(L, "%s", err.text);
    set_processor(L, &arch, value);
    json_object_set_new(value->json, "ends_in_norm", json_boolean(arch.has_final_norm));
    lua_settop(L, self);
    return 1;
}

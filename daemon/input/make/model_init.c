/* Writes a new model directory: configuration, fresh weights, tokenizer or processor. */
#include "input/make/model_init.h"

#include <dirent.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/arch/arch.h"
#include "core/base/hash.h"
#include "core/base/io.h"
#include "core/base/philox.h"
#include "input/make/bpe_train.h"
#include "store/safetensors.h"

enum { MAX_CONFIG_BYTES = 1 << 20, MAX_TEXT_BYTES = 64 << 20 };

static const char *const special_tokens[] = {"<|endoftext|>", "<|im_start|>", "<|im_end|>",
                                             "<image>", "<audio>"};

static enum cs_status save_json(const char *dir, const char *name, const json_t *json,
                                struct cs_err *err)
{
    char path[CS_PATH_CAP];
    CS_TRY(cs_path(path, err, "%s/%s", dir, name));
    char *text = json_dumps(json, JSON_INDENT(2));
    if (!text)
        return cs_fail(err, CS_INTERNAL, "%s cannot be written as JSON", name);
    enum cs_status status = cs_write_file_atomic(path, text, strlen(text), 0666, err);
    free(text);
    return status;
}

static enum cs_status load_json(const char *path, json_t **out, struct cs_err *err)
{
    struct cs_buf text = {0};
    json_error_t where;
    CS_TRY(cs_read_file(path, MAX_CONFIG_BYTES, &text, err));
    *out = json_loadb(cs_buf_str(&text), text.len, JSON_REJECT_DUPLICATES, &where);
    cs_buf_free(&text);
    if (!*out)
        return cs_fail(err, CS_INVALID, "%s:%d: %s", path, where.line, where.text);
    return CS_OK;
}

static enum cs_status fresh_dir(const char *dir, struct cs_err *err)
{
    CS_TRY(cs_mkdirs_shared(dir, err));
    DIR *d = opendir(dir);
    if (!d)
        return cs_fail_errno(err, "opening %s", dir);
    int n = 0;
    while (readdir(d))
        n++;
    closedir(d);
    if (n > 2)
        return cs_fail(err, CS_EXISTS, "%s is not empty; choose a new directory", dir);
    return CS_OK;
}

/* Tokenizer files; the configuration learns vocabulary and special ids. */
static enum cs_status add_tokenizer(const struct cs_model_init *init, json_t *config,
                                    struct cs_err *err)
{
    struct cs_buf text = {0};
    json_t *tokenizer = NULL, *about = NULL;
    CS_TRY(cs_read_file(init->text, MAX_TEXT_BYTES, &text, err));
    enum cs_status status =
        cs_bpe_train(cs_buf_str(&text), text.len, init->max_vocab, special_tokens,
                     CS_ARRAY_LEN(special_tokens), &tokenizer, err);
    if (status != CS_OK)
        goto out;
    const json_t *added = json_object_get(tokenizer, "added_tokens");
    json_int_t first = json_integer_value(json_object_get(json_array_get(added, 0), "id"));
    json_int_t n = first + (json_int_t)json_array_size(added);
    json_object_set_new(config, "vocab_size", json_integer((n + 15) / 16 * 16));
    json_object_set_new(config, "bos_token_id", json_integer(first));
    json_object_set_new(config, "eos_token_id", json_integer(first + 2));
    json_object_set_new(config, "pad_token_id", json_integer(first));
    about = json_pack("{s:s s:s s:s s:s s:b s:i s:b}", "tokenizer_class", "PreTrainedTokenizerFast",
                      "bos_token", "<|endoftext|>", "eos_token", "<|im_end|>", "pad_token",
                      "<|endoftext|>", "add_bos_token", 0, "model_max_length", 4096,
                      "clean_up_tokenization_spaces", 0);
    status = save_json(init->dir, "tokenizer.json", tokenizer, err);
    if (status == CS_OK)
        status = save_json(init->dir, "tokenizer_config.json", about, err);
out:
    json_decref(tokenizer);
    json_decref(about);
    cs_buf_free(&text);
    return status;
}

json_t *cs_model_init_processor(const struct cs_arch *encoder)
{
    if (encoder->front.stem != CS_STEM_PATCHES || encoder->image_size == 0)
        return NULL;
    return json_pack("{s:s s:b s:b s:b s:b s:i s:f s:{s:i s:i} s:[f f f] s:[f f f]}",
                     "image_processor_type", "SiglipImageProcessor", "do_resize", 1, "do_rescale",
                     1, "do_normalize", 1, "do_convert_rgb", 1, "resample", 3, "rescale_factor",
                     1.0 / 255.0, "size", "height", encoder->image_size, "width",
                     encoder->image_size, "image_mean", 0.5, 0.5, 0.5, "image_std", 0.5, 0.5, 0.5);
}

static enum cs_status add_processor(const char *dir, const struct cs_arch *arch, struct cs_err *err)
{
    json_t *processor = cs_model_init_processor(arch);
    enum cs_status status =
        processor ? save_json(dir, "preprocessor_config.json", processor, err) : CS_OK;
    json_decref(processor);
    return status;
}

/* Standard deviation of a fresh weight. Positions start as strong as the patches beside them, else
 * attention by place is learned late; outputs of a block start small, so that its residual stream
 * keeps its scale (GPT-2: 1 / sqrt(2 layers)). */
static double spread(const struct cs_tensor_info *info, const struct cs_arch *arch)
{
    double std = (double)arch->initializer_range;
    if (info->role == CS_PARAM_POSITION)
        return std * sqrt((double)(arch->channels * arch->patch_size * arch->patch_size));
    if (info->role == CS_PARAM_O_W || info->role == CS_PARAM_DOWN_W ||
        info->role == CS_PARAM_MIX_OUT_W || info->role == CS_PARAM_EXPERT_DOWN_W)
        return std / sqrt(2.0 * arch->n_layers);
    return std;
}

static void fill(const struct cs_tensor_info *info, const struct cs_arch *arch, uint64_t seed,
                 int64_t n, float *out)
{
    uint64_t name = cs_fnv1a64(info->name, strlen(info->name));
    if (info->init == CS_INIT_NORMAL)
        cs_philox_fill_normal(seed, name, 0, n, spread(info, arch), out);
    else if (info->init == CS_INIT_DECAY)
        cs_philox_fill_decay(seed, name, n, out);
    else
        for (int64_t i = 0; i < n; i++)
            out[i] = info->init == CS_INIT_ONE ? 1.0f : 0.0f;
}

static enum cs_status save_weights(const struct cs_model_init *init, const struct cs_arch *arch,
                                   struct cs_arena *arena, struct cs_err *err)
{
    struct cs_tensor_info *info;
    char path[CS_PATH_CAP];
    int n = cs_arch_tensors(arch, arena, &info);
    struct cs_st_out *out = CS_NEW_ARRAY(arena, struct cs_st_out, n);
    for (int i = 0; i < n; i++) {
        int64_t count = 1;
        out[i] =
            (struct cs_st_out){.name = info[i].name, .dtype = CS_F32, .n_dims = info[i].n_dims};
        for (int d = 0; d < info[i].n_dims; d++) {
            out[i].dim[d] = info[i].dim[d];
            count *= info[i].dim[d];
        }
        float *values = CS_NEW_ARRAY(arena, float, count);
        fill(&info[i], arch, init->seed, count, values);
        out[i].data = values;
        out[i].is_f32 = 1;
    }
    CS_TRY(cs_path(path, err, "%s/model.safetensors", init->dir));
    return cs_st_write(path, out, n, NULL, NULL, err);
}

enum cs_status cs_model_init_make(const struct cs_model_init *init, struct cs_err *err)
{
    json_t *config = NULL;
    struct cs_arch arch;
    struct cs_arena *arena = cs_arena_new(0);
    enum cs_status status = load_json(init->config, &config, err);
    if (status == CS_OK)
        status = fresh_dir(init->dir, err);
    if (status == CS_OK && init->text)
        status = add_tokenizer(init, config, err);
    if (status == CS_OK)
        status = cs_arch_read(&(struct cs_config_source){init->config, "", config, init->findings},
                              arena, &arch, err);
    if (status != CS_OK) {
        status = cs_wrap(err, status, "making a model from %s", init->config);
        goto out;
    }
    json_object_set_new(config, "dtype", json_string("float32"));
    if (arch.kind == CS_MODULE_ENCODER)
        status = add_processor(init->dir, &arch, err);
    if (status == CS_OK)
        status = save_weights(init, &arch, arena, err);
    if (status == CS_OK) /* last: a directory with a config is complete */
        status = save_json(init->dir, "config.json", config, err);
out:
    json_decref(config);
    cs_arena_free(arena);
    return status;
}

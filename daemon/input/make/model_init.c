/* Writes a new model directory: configuration, fresh weights, tokenizer or processor. */
#include "input/make/model_init.h"

#include <dirent.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/system/io.h"
#include "input/make/bpe_train.h"
#include "input/make/model_parts.h"

enum { MAX_CONFIG_BYTES = 1 << 20, MAX_TEXT_BYTES = 64 << 20 };

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

/* Tokenizer files; the configuration learns vocabulary and special ids, the root of a composite (family) those of
 * its placeholders. */
static enum cs_status add_tokenizer(const struct cs_model_init *init,
                                    const struct cs_composite_family *family, json_t *root,
                                    struct cs_arena *arena, struct cs_err *err)
{
    const char *tokens[CS_MAKE_TOKENS];
    json_t *config = family != NULL ? json_object_get(root, family->text_key) : root;
    struct cs_buf text = {0};
    json_t *tokenizer = NULL, *about = NULL;
    CS_TRY(cs_read_file(init->text, MAX_TEXT_BYTES, &text, err));
    enum cs_status status = cs_bpe_train(cs_buf_str(&text), text.len, init->max_vocab, tokens,
                                         cs_make_tokens(family, arena, tokens), &tokenizer, err);
    if (status != CS_OK)
        goto out;
    cs_make_token_ids(family, tokenizer, root);
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

static enum cs_status save_weights(const struct cs_model_init *init, const struct cs_arch *arch,
                                   struct cs_arena *arena, struct cs_err *err)
{
    char path[CS_PATH_CAP];
    struct cs_st_out *out = NULL;
    const int n = cs_make_weights(arch, NULL, init->seed, arena, &out);
    CS_TRY(cs_path(path, err, "%s/model.safetensors", init->dir));
    return cs_st_write(path, out, n, NULL, NULL, err);
}

static enum cs_status make_plain(const struct cs_model_init *init, json_t *config,
                                 struct cs_arena *arena, struct cs_err *err)
{
    struct cs_arch arch;
    if (init->text != NULL)
        CS_TRY(add_tokenizer(init, NULL, config, arena, err));
    CS_TRY(cs_arch_read(&(struct cs_config_source){init->config, "", config, init->findings}, arena,
                        &arch, err));
    json_object_set_new(config, "dtype", json_string("float32"));
    if (arch.kind == CS_MODULE_ENCODER)
        CS_TRY(add_processor(init->dir, &arch, err));
    CS_TRY(save_weights(init, &arch, arena, err));
    return save_json(init->dir, "config.json", config, err); /* last: then it is complete */
}

/* The parts are read as those of a directory, so its config.json comes first; it goes where they fail. */
static enum cs_status make_whole(const struct cs_model_init *init,
                                 const struct cs_composite_family *family, json_t *root,
                                 struct cs_arena *arena, struct cs_err *err)
{
    char path[CS_PATH_CAP];
    if (!json_is_object(json_object_get(root, family->text_key)))
        return cs_fail(err, CS_INVALID, "%s is missing or not an object", family->text_key);
    CS_TRY(cs_path(path, err, "%s/config.json", init->dir));
    if (init->text != NULL)
        CS_TRY(add_tokenizer(init, family, root, arena, err));
    CS_TRY(cs_make_copies(init, err));
    json_object_set_new(root, "dtype", json_string("float32"));
    CS_TRY(save_json(init->dir, "config.json", root, err));
    const enum cs_status status = cs_make_whole(init, arena, err);
    if (status != CS_OK)
        (void)unlink(path);
    return status;
}

enum cs_status cs_model_init_make(const struct cs_model_init *init, struct cs_err *err)
{
    json_t *config = NULL;
    struct cs_arena *arena = cs_arena_new(0);
    enum cs_status status = load_json(init->config, &config, err);
    const struct cs_composite_family *family = cs_composite_of(config);
    if (status == CS_OK)
        status = fresh_dir(init->dir, err);
    if (status == CS_OK)
        status = family != NULL && family->text_key != NULL
                     ? make_whole(init, family, config, arena, err)
                     : make_plain(init, config, arena, err);
    if (status != CS_OK)
        status = cs_wrap(err, status, "making a model from %s", init->config);
    json_decref(config);
    cs_arena_free(arena);
    return status;
}

/* cs.data.*: what is trained on. */
#include <string.h>

#include "core/base/units.h"
#include "core/model/spec.h"
#include "lua/base/json.h"
#include "lua/base/paths.h"
#include "lua/bind/bind.h"

static int call_llava(lua_State *L);

/* clang-format off */
static const struct cs_arg llava_args[] = {
    {"json", CS_ARG_STRING, true, NULL, 0, 0, 0, NULL, "the samples: JSON, JSON lines, Parquet, CSV or tar; a file, a folder, or a pattern of names"},
    {"images", CS_ARG_STRING, false, NULL, 0, 0, 0, NULL, "folder that paths of pictures are relative to, and that they must lie in; \"/\": absolute paths, anywhere"},
    {"follow_links", CS_ARG_BOOL, false, NULL, 0, 0, 0, "false", "symbolic links among the pictures may lead out of the folder, as in caches of Hugging Face and DVC"},
    {"mix", CS_ARG_LIST, false, NULL, 0, 0, 0, "{}", "further sources, trained as one with the first: { json = ..., images = ..., weight = ..., name = ... } each"},
    {"weight", CS_ARG_NUMBER, false, NULL, 0, 1e9, 0, "samples of all sources are drawn alike", "share of the first source beside those of mix"},
    {"name", CS_ARG_STRING, false, NULL, 0, 0, 0, NULL, "channel of samples that name none"},
    {"template", CS_ARG_NAMED, false, NULL, 0, 0, 0, "the tokenizer's own, where it has none chatml", "chat template: a built-in name or typed segments"},
    {"cache", CS_ARG_TABLE, false, NULL, 0, 0, 0, "none", "where decoded and resized media are kept for later epochs and other jobs: { dir = \"DIR\", size = \"20 GB\" }"},
    {"on_bad_sample", CS_ARG_STRING, false, "skip|fail", 0, 0, 0, "\"skip\"", "what a broken sample does"},
    {"max_bad_fraction", CS_ARG_NUMBER, false, NULL, 0, 1, 0, "0.01", "share of broken samples that ends the job"},
    {"max_picture_pixels", CS_ARG_INT, false, NULL, 1, CS_SPEC_PIXELS_MOST, 0, "64000000", "a picture of more is a bad sample"},
    {"shuffle_images", CS_ARG_BOOL, false, NULL, 0, 0, 0, "false", "a control: give every sample another sample's picture"},
};
static const struct cs_lua_function functions[] = {
    {"cs.data.llava", "samples: conversations with pictures, videos and sounds, in JSON (LLaVA's, messages, sharegpt, alpaca, OpenAI's blocks), Parquet, CSV or tar", "cs.data", llava_args, CS_ARRAY_LEN(llava_args), call_llava, NULL},
};

/* clang-format on */

struct cs_lua_area cs_lua_area_data(void)
{
    return (struct cs_lua_area){functions, CS_ARRAY_LEN(functions)};
}

static void set_path(lua_State *L, const struct cs_lua_function *f, const char *key, json_t *object)
{
    char path[PATH_MAX];
    const char *given = cs_lua_args_string(L, key, NULL);
    if (!given)
        return;
    if (!cs_lua_path_there(given, path))
        cs_lua_error(L, "%s: %s '%s' not found; is the path relative to where you started?",
                     f->name, key, given);
    json_object_set_new(object, key, json_string(path));
}

/* The paths of every source of a mixture, from where the script was started. */
static void set_mix(lua_State *L, const struct cs_lua_function *f, json_t *object)
{
    static const char *const keys[] = {"json", "images"};
    json_t *list = cs_lua_args_json(L, "mix", f), *source;
    char path[PATH_MAX];
    size_t i;
    if (!list)
        return;
    json_array_foreach(list, i, source) for (size_t k = 0; k < CS_ARRAY_LEN(keys); k++)
    {
        const char *given = json_string_value(json_object_get(source, keys[k]));
        if (!given)
            continue;
        if (!cs_lua_path_there(given, path))
            cs_lua_error(
                L, "%s: mix[%d].%s '%s' not found; is the path relative to where you started?",
                f->name, (int)i + 1, keys[k], given);
        json_object_set_new(source, keys[k], json_string(path));
    }
    json_object_set(object, "mix", list);
}

/* { dir = "DIR", size = "20 GB" or bytes } */
static void set_cache(lua_State *L, const struct cs_lua_function *f, json_t *object)
{
    const json_t *cache = cs_lua_args_json(L, "cache", f), *size = json_object_get(cache, "size"),
                 *value;
    const char *dir = json_string_value(json_object_get(cache, "dir")), *key;
    uint64_t bytes = 0;
    if (!cache)
        return;
    json_object_foreach((json_t *)(uintptr_t)cache, key,
                        value) if (strcmp(key, "dir") != 0 && strcmp(key, "size") != 0)
        cs_lua_error(L, "%s: cache.%s: unknown key; there are dir and size", f->name, key);
    if (!dir || dir[0] == '\0')
        cs_lua_error(L, "%s: cache.dir: the folder is missing", f->name);
    json_object_set_new(object, "cache_dir", cs_lua_path_from_here(L, f->name, dir));
    if (json_is_integer(size))
        bytes = (uint64_t)json_integer_value(size);
    else if (size && (!json_is_string(size) || !cs_bytes_parse(json_string_value(size), &bytes)))
        cs_lua_error(L, "%s: cache.size: a size such as \"20 GB\" expected", f->name);
    if (size && (bytes < CS_SPEC_CACHE_LEAST || bytes > CS_SPEC_CACHE_MOST))
        cs_lua_error(L, "%s: cache.size: must lie between 1 MB and 1000 TB", f->name);
    if (size)
        json_object_set_new(object, "cache_bytes", json_integer((json_int_t)bytes));
}

static int call_llava(lua_State *L)
{
    const struct cs_lua_function *f = &functions[0];
    cs_lua_args_check(L, f);
    struct cs_lua_value *value = cs_lua_value_new(L, CS_LUA_DATA, NULL);
    int self = lua_gettop(L);
    value->json = json_pack("{s:s s:s}", "format", "llava", "images", "");
    cs_lua_args_copy(L, f, value->json);
    set_path(L, f, "json", value->json);
    set_path(L, f, "images", value->json);
    set_mix(L, f, value->json);
    set_cache(L, f, value->json);
    json_t *chat = cs_lua_args_json(L, "template", f);
    if (chat)
        json_object_set(value->json, "template", chat);
    lua_settop(L, self);
    return 1;
}

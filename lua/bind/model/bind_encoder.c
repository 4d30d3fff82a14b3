/* One encoder of cs.mllm with its projector, as two modules of the document. What is saved beside the
 * weights holds; a script that says something else is refused with both values. */
#include "lua/bind/model/bind_encoder.h"

#include <stdio.h>
#include <string.h>

#include "core/doc/doc.h"
#include "input/media/processor.h"
#include "input/media/video/video_processor.h"
#include "lua/base/args.h"
#include "lua/bind/bind.h"

/* clang-format off */
static const struct cs_arg encoder_args[] = {
    {"from", CS_ARG_VALUE, true, NULL, 0, 0, CS_LUA_HF, NULL, "the encoder, cs.hf \"DIR\""},
    {"projector", CS_ARG_VALUE, true, NULL, 0, 0, CS_LUA_PROJECTOR, NULL, "cs.projector.mlp { ... }"},
    {"token", CS_ARG_STRING, false, NULL, 0, 0, 0, "the directory's, or \"<image>\"", "placeholder in the conversations"},
    {"key", CS_ARG_STRING, false, NULL, 0, 0, 0, "image, where it is the only encoder", "the key of a sample that holds its files, also with an s; of several encoders each has the word of its token, or its name"},
    {"video", CS_ARG_TABLE, false, NULL, 0, 0, 0, NULL, "reads videos as well, as the directory's video processor says; keys here stand above its own: { fps = 2, max_frames = 32 }, { num_frames = 8 }"},
    {"feature_layer", CS_ARG_INT, false, NULL, -64, -1, 0, "the directory's, or -1", "hidden state handed on, as in LLaVA: -1 the last block's; of cs.encoder that after its final norm, unless it is given"},
    {"deepstack", CS_ARG_BOOL, false, NULL, 0, 0, 0, "true", "false: the encoder hands on its last rows alone, none from between its blocks (Qwen3-VL); for a language model of another width"},
    {"final_norm", CS_ARG_BOOL, false, NULL, 0, 0, 0, "false", "hand on the state after the encoder's final norm instead"},
};
static const struct cs_lua_function encoder_function = {"cs.mllm: encoder", "", "", encoder_args, CS_ARRAY_LEN(encoder_args), NULL, NULL};

/* clang-format on */

static void contradiction(lua_State *L, const char *key, const char *here, const char *there,
                          const json_t *from)
{
    cs_lua_error(
        L,
        "cs.mllm: encoder: %s is %s here and %s in %s, which the weights were trained with: "
        "leave it away, or take the parts from directories of their own",
        key, here, there, json_string_value(json_object_get(from, "dir")));
}

/* Hidden states that can feed a projector: that after the final norm, or one of n_blocks + 1, of which
 * -1 and n_blocks are one. */
struct features {
    bool is_said, is_final;
    json_int_t layer;
};

static const char *features_text(const struct features *f, char out[32])
{
    snprintf(out, 32, f->is_final ? "the final norm" : "layer %lld", (long long)f->layer);
    return out;
}

static json_int_t from_behind(json_int_t layer, const json_t *config)
{
    const json_t *n = json_object_get(config, "num_hidden_layers");
    return layer >= 0 && json_is_integer(n) ? layer - json_integer_value(n) - 1 : layer;
}

static bool are_same(const struct features *a, const struct features *b, const json_t *config)
{
    return a->is_final == b->is_final &&
           (a->is_final || from_behind(a->layer, config) == from_behind(b->layer, config));
}

static struct features saved_features(const json_t *from)
{
    const json_t *saved = json_object_get(from, "saved");
    const json_t *layer = cs_doc_get(saved, "feature_layer", NULL);
    bool is_final = json_is_true(json_object_get(saved, "final_norm"));
    return (struct features){layer != NULL || is_final, is_final, json_integer_value(layer)};
}

static struct features asked_features(lua_State *L)
{
    bool is_final = cs_lua_args_bool(L, "final_norm", false);
    if (is_final && cs_lua_args_has(L, "feature_layer"))
        cs_lua_error(L, "cs.mllm: encoder: feature_layer and final_norm exclude each other");
    return (struct features){is_final || cs_lua_args_has(L, "feature_layer"), is_final,
                             (json_int_t)cs_lua_args_int(L, "feature_layer", -1)};
}

/* The script, the encoder's directory and the projector's: those that say anything must agree. */
static struct features choose_features(lua_State *L, const json_t *hf, const json_t *projector)
{
    char here[32], there[32];
    const json_t *from[] = {hf, projector}, *config = json_object_get(hf, "config");
    struct features out = asked_features(L);
    const bool asks_final = out.is_final;
    for (size_t i = 0; i < CS_ARRAY_LEN(from); i++) {
        const struct features saved = saved_features(from[i]);
        if (saved.is_final && !asks_final && cs_lua_args_has(L, "final_norm"))
            contradiction(L, "final_norm", "false", "true", from[i]);
        if (saved.is_said && out.is_said && !are_same(&saved, &out, config))
            contradiction(L, "the hidden state that feeds the projector", features_text(&out, here),
                          features_text(&saved, there), from[i]);
        if (saved.is_said)
            out = saved;
    }
    if (!out.is_said && json_is_true(json_object_get(hf, "ends_in_norm")))
        out = (struct features){true, true, -1};
    cs_lua_args_default(L, &encoder_function, "feature_layer", out.is_said ? NULL : "-1");
    return out;
}

/* The script's, else the directory's. Another word for it than that which the weights of the language model
 * know is a contradiction; a language model from elsewhere has words of its own. */
static const char *choose_token(lua_State *L, const json_t *hf, const json_t *llm)
{
    const json_t *saved = json_object_get(json_object_get(hf, "saved"), "token");
    const char *token = cs_lua_args_string(L, "token", NULL);
    cs_lua_args_default(L, &encoder_function, "token", token || saved ? NULL : "\"<image>\"");
    if (!saved || (token && !json_equal(json_object_get(hf, "dir"), json_object_get(llm, "dir"))))
        return token ? token : "<image>";
    if (token && strcmp(token, json_string_value(saved)) != 0)
        contradiction(L, "token", token, json_string_value(saved), hf);
    return json_string_value(saved);
}

/* How many frames are taken is said in one way: what is said here takes the place of all that the directory
 * says. */
static void choose_frames(json_t *video, const json_t *said)
{
    const bool has_fps = json_object_get(said, "fps"), has_n = json_object_get(said, "num_frames");
    if (!has_fps && !has_n)
        return;
    json_object_set_new(video, has_fps ? "num_frames" : "fps", json_null());
    if (!json_object_get(said, "do_sample_frames"))
        json_object_set_new(video, "do_sample_frames", json_true());
}

/* The directory's video processor with what the script says; NULL: the encoder reads no videos. */
static json_t *choose_video(lua_State *L, const json_t *hf, struct cs_err *err)
{
    struct cs_video_processor ignored;
    const json_t *said = cs_lua_args_json(L, "video", &encoder_function);
    if (!said)
        return NULL;
    json_t *video = json_deep_copy(json_object_get(hf, "video"));
    if (!video)
        video = json_object();
    if (json_is_object(said)) {
        json_object_update(video, (json_t *)(uintptr_t)said);
        choose_frames(video, said);
    }
    const struct cs_doc doc = {.name = "video", .where = "", .json = video};
    const enum cs_status status = cs_video_processor_read(&doc, NULL, &ignored, err);
    if (status == CS_OK)
        return video;
    json_decref(video);
    return NULL;
}

/* The encoder's configuration; without what is handed on from between its blocks, where the script asks for
 * that. New reference. */
static json_t *choose_config(lua_State *L, const json_t *hf)
{
    json_t *config = json_deep_copy(json_object_get(hf, "config"));
    if (!cs_lua_args_bool(L, "deepstack", true))
        json_object_set_new(config, "deepstack_visual_indexes", json_array());
    return config;
}

int cs_lua_add_encoder(lua_State *L)
{
    json_t *modules = lua_touserdata(L, 2);
    const json_t *llm = lua_touserdata(L, 4);
    char name[128];
    snprintf(name, sizeof(name), "%s", lua_tostring(L, 3));
    cs_lua_args_check(L, &encoder_function);
    const json_t *hf = cs_lua_args_value(L, "from")->json;
    const json_t *projector = cs_lua_args_value(L, "projector")->json;
    const char *token = choose_token(L, hf, llm);
    const struct features features = choose_features(L, hf, projector);
    struct cs_err err = {0};
    json_t *video = choose_video(L, hf, &err);
    if (!video && err.text[0] != '\0')
        return cs_lua_error(L, "cs.mllm: encoder: %s", err.text);
    json_t *encoder =
        json_pack("{s:o s:s s:O s:O s:o s:s}", "name", json_sprintf("%s.encoder", name), "kind",
                  "encoder", "dir", json_object_get(hf, "dir"), "init", json_object_get(hf, "init"),
                  "config", choose_config(L, hf), "token", token);
    if (!encoder) {
        json_decref(video);
        return cs_lua_error(L, "cs.mllm: encoder: the token or name is not valid UTF-8");
    }
    if (json_object_get(hf, "processor")) {
        json_t *processor = json_deep_copy(json_object_get(hf, "processor"));
        cs_processor_say_colours(processor);
        json_object_set_new(encoder, "processor", processor);
    }
    if (video)
        json_object_set_new(encoder, "video", video);
    if (cs_lua_args_string(L, "key", "")[0] != '\0')
        json_object_set_new(encoder, "key", json_string(cs_lua_args_string(L, "key", "")));
    if (!features.is_final)
        json_object_set_new(encoder, "feature_layer", json_integer(features.layer));
    json_array_append_new(modules, encoder);
    json_t *p = json_deep_copy(projector);
    json_object_del(p, "saved");
    json_object_set_new(p, "name", json_sprintf("%s.projector", name));
    json_object_set_new(p, "kind", json_string("projector"));
    json_array_append_new(modules, p);
    return 0;
}

/* Conversions between layouts: every value arrives under its new name, every layout reads as the same model,
 * and the way back gives the directory that it came from. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/base/arena.h"
#include "store/convert/parts.h"
#include "support/tmpdir.h"

static int make(void **state)
{
    *state = tmpdir_new();
    return *state == NULL;
}

static int drop(void **state)
{
    tmpdir_free(*state);
    return 0;
}

static const char *ours(const char *name)
{
    char path[400];
    snprintf(path, sizeof path, "tests/golden/models/%s", name);
    return source_path(path);
}

/* A golden that lies beside the project; NULL: it does not. */
static const char *beside(const char *name)
{
    static char path[4096];
    struct stat st;
    const char *given = getenv("CORNSTARCH_GOLDEN");
    snprintf(path, sizeof path, "%s/models/%s",
             given != NULL ? given : source_path("../shared/golden"), name);
    return stat(path, &st) == 0 ? path : NULL;
}

static struct cs_convert_report must(struct cs_convert asked)
{
    struct cs_err err = {0};
    struct cs_convert_report report;
    if (cs_convert_run(&asked, &report, &err) != CS_OK)
        fail_msg("%s: %s", asked.out, err.text);
    return report;
}

static struct cs_hfdir *open_part(const char *path, const char *part)
{
    struct cs_err err = {0};
    struct cs_hfdir *dir = NULL;
    if (cs_hfdir_open(path, part, &dir, &err) != CS_OK)
        fail_msg("%s: %s", path, err.text);
    return dir;
}

static void same_values(const struct cs_st_tensor *a, const struct cs_st_tensor *b)
{
    float *values = calloc(2 * (size_t)a->count + 1, sizeof *values);
    assert_int_equal(a->count, b->count);
    assert_int_equal(cs_st_read_f32(a, 0, a->count, values, NULL), CS_OK);
    assert_int_equal(cs_st_read_f32(b, 0, b->count, values + a->count, NULL), CS_OK);
    if (memcmp(values, values + a->count, (size_t)a->count * sizeof *values) != 0)
        fail_msg("%s and %s are not the same", a->name, b->name);
    free(values);
}

/* All parts of both directories read as the same tensors of the same architecture. */
static void read_the_same(const char *a, const char *b)
{
    const char *parts[CS_MODULE_KINDS];
    struct cs_arena *arena = cs_arena_new(0);
    int n = 0;
    assert_int_equal(cs_hfdir_list(a, parts, &n, NULL), CS_OK);
    for (int i = 0; i < n; i++) {
        struct cs_hfdir *one = open_part(a, parts[i]), *other = open_part(b, parts[i]);
        struct cs_tensor_info *info = NULL;
        struct cs_arch arch;
        struct cs_err err = {0};
        assert_int_equal(cs_hfdir_arch(one, NULL, arena, &arch, NULL), CS_OK);
        if (cs_hfdir_check(other, &arch, &err) != CS_OK)
            fail_msg("%s", err.text);
        const int n_info = cs_arch_tensors(&arch, arena, &info);
        for (int k = 0; k < n_info; k++)
            same_values(cs_hfdir_tensor(one, info[k].name, info[k].alt),
                        cs_hfdir_tensor(other, info[k].name, info[k].alt));
        assert_int_equal(cs_hfdir_count(one), cs_hfdir_count(other));
        cs_hfdir_close(one);
        cs_hfdir_close(other);
    }
    cs_arena_free(arena);
}

/* The files hold the same tensors under the same names. */
static void same_file(const char *a, const char *b)
{
    struct cs_st_file *one = NULL, *other = NULL;
    assert_int_equal(cs_st_open(a, &one, NULL), CS_OK);
    assert_int_equal(cs_st_open(b, &other, NULL), CS_OK);
    assert_int_equal(cs_st_count(one), cs_st_count(other));
    for (int i = 0; i < cs_st_count(one); i++) {
        const struct cs_st_tensor *x = cs_st_at(one, i), *y = cs_st_at(other, i);
        assert_string_equal(x->name, y->name);
        assert_int_equal(x->n_dims, y->n_dims);
        assert_memory_equal(x->dim, y->dim, sizeof x->dim);
        same_values(x, y);
    }
    cs_st_close(one);
    cs_st_close(other);
}

static bool has_name(const char *path, const char *name)
{
    struct cs_st_file *file = NULL;
    assert_int_equal(cs_st_open(path, &file, NULL), CS_OK);
    const bool is_there = cs_st_find(file, name) != NULL;
    cs_st_close(file);
    return is_there;
}

/* DIR/NAME in the test's folder, in a buffer of its own */
#define AT(name)      cs_arena_strdup(arena, tmpdir_path(tmp, name))
#define IN(dir, name) cs_arena_printf(arena, "%s/%s", dir, name)

static void experts_go_together_and_apart_again(void **state)
{
    static const char *const models[] = {"mixtral", "qwen3-moe"};
    const char *tmp = *state;
    struct cs_arena *arena = cs_arena_new(0);
    for (size_t i = 0; i < CS_ARRAY_LEN(models); i++) {
        const char *from = cs_arena_strdup(arena, ours(models[i]));
        const char *fused = IN(AT(models[i]), "fused"), *each = IN(AT(models[i]), "each"),
                   *kept = IN(AT(models[i]), "kept");
        must((struct cs_convert){.dir = from, .out = fused, .experts = CS_CONVERT_EXPERTS_fused});
        assert_true(
            has_name(IN(fused, "model.safetensors"), "model.layers.1.mlp.experts.gate_up_proj"));
        read_the_same(from, fused);
        must((struct cs_convert){.dir = fused, .out = kept});
        same_file(IN(fused, "model.safetensors"), IN(kept, "model.safetensors"));
        must((struct cs_convert){.dir = fused, .out = each, .experts = CS_CONVERT_EXPERTS_each});
        same_file(IN(from, "model.safetensors"), IN(each, "model.safetensors"));
    }
    cs_arena_free(arena);
}

static void parts_of_a_composite_have_all_prefixes(void **state)
{
    static const struct {
        enum cs_convert_names names;
        const char *tower, *llm;
    } rows[] = {
        {CS_CONVERT_NAMES_saved,  "vision_tower.encoder.layers.0.mlp.fc1.weight",
         "language_model.model.norm.weight"},
        {CS_CONVERT_NAMES_nested, "model.vision_tower.encoder.layers.0.mlp.fc1.weight",
         "model.language_model.norm.weight"},
        {CS_CONVERT_NAMES_v4,     "vision_tower.vision_model.encoder.layers.0.mlp.fc1.weight",
         "language_model.model.norm.weight"},
    };

    const char *tmp = *state;
    struct cs_arena *arena = cs_arena_new(0);
    const char *first = cs_arena_strdup(arena, ours("llava-siglip-qwen2")), *from = first;
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        const char *out = AT(cs_arena_printf(arena, "out%zu", i));
        must((struct cs_convert){.dir = from, .out = out, .names = rows[i].names});
        assert_true(has_name(IN(out, "model.safetensors"), rows[i].tower));
        assert_true(has_name(IN(out, "model.safetensors"), rows[i].llm));
        read_the_same(first, out);
        from = out; /* each from the one before */
    }
    const char *back = AT("back");
    must((struct cs_convert){.dir = from, .out = back, .names = CS_CONVERT_NAMES_saved});
    same_file(IN(first, "model.safetensors"), IN(back, "model.safetensors"));
    cs_arena_free(arena);
}

/* names that transformers reads: all of a tower have its prefix of version 4 where there was one, and a tensor that
 * has a name of its own keeps it */
static void names_are_those_that_composites_know(void **state)
{
    static const struct {
        const char *model;
        enum cs_convert_names names;
        const char *name;
    } rows[] = {
        {"llava-onevision", CS_CONVERT_NAMES_saved,  "image_newline"                                         },
        {"llava-onevision", CS_CONVERT_NAMES_nested, "model.image_newline"                                   },
        {"llava-onevision", CS_CONVERT_NAMES_v4,
         "vision_tower.vision_model.encoder.layers.0.layer_norm1.weight"                                     },
        {"qwen2-vl",        CS_CONVERT_NAMES_v4,     "visual.blocks.0.attn.qkv.weight"                       },
        {"qwen3-vl",        CS_CONVERT_NAMES_nested, "model.visual.blocks.0.attn.qkv.weight"                 },
        {"smolvlm",         CS_CONVERT_NAMES_v4,     "model.vision_model.encoder.layers.0.layer_norm1.weight"},
        {"voxtral",         CS_CONVERT_NAMES_v4,     "audio_tower.conv1.weight"                              },
    };

    const char *tmp = *state;
    if (beside("smolvlm") == NULL)
        skip();
    struct cs_arena *arena = cs_arena_new(0);
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        const char *from = cs_arena_strdup(arena, beside(rows[i].model));
        const char *out = AT(cs_arena_printf(arena, "out%zu", i));
        must((struct cs_convert){.dir = from, .out = out, .names = rows[i].names});
        if (!has_name(IN(out, "model.safetensors"), rows[i].name))
            fail_msg("row %zu: %s has no %s", i, rows[i].model, rows[i].name);
        read_the_same(from, out);
    }
    cs_arena_free(arena);
}

static void shards_have_an_index_and_are_no_larger_than_asked(void **state)
{
    const char *tmp = *state;
    struct cs_arena *arena = cs_arena_new(0);
    const char *from = cs_arena_strdup(arena, ours("llava-siglip-qwen2"));
    const char *out = AT("out"), *one = AT("one");
    const struct cs_convert_report report =
        must((struct cs_convert){.dir = from, .out = out, .shard_bytes = 100000});
    assert_true(report.n_files > 3);
    assert_true(tmpdir_has(tmp, "out/model.safetensors.index.json"));
    assert_false(tmpdir_has(tmp, "out/model.safetensors"));
    read_the_same(from, out);
    must((struct cs_convert){.dir = out, .out = one});
    same_file(IN(from, "model.safetensors"), IN(one, "model.safetensors"));
    cs_arena_free(arena);
}

static void types_are_rounded_and_said(void **state)
{
    const char *tmp = *state;
    struct cs_arena *arena = cs_arena_new(0);
    const char *from = cs_arena_strdup(arena, ours("qwen2"));
    const char *half = AT("half"), *again = AT("again");
    json_t *config = NULL;
    must((struct cs_convert){.dir = from, .out = half, .dtype = "float16"});
    assert_int_equal(cs_fs_read_json(IN(half, "config.json"), &config, NULL), CS_OK);
    assert_string_equal(json_string_value(json_object_get(config, "dtype")), "float16");
    json_decref(config);
    must((struct cs_convert){.dir = half, .out = again, .dtype = "float32"});
    struct cs_hfdir *a = open_part(from, ""), *b = open_part(again, "");
    for (int i = 0; i < cs_hfdir_count(a); i++) {
        float x, y;
        const struct cs_st_tensor *t = cs_hfdir_at(a, i);
        assert_int_equal(cs_st_read_f32(t, 1, 1, &x, NULL), CS_OK);
        assert_int_equal(cs_st_read_f32(cs_hfdir_tensor(b, t->name, NULL), 1, 1, &y, NULL), CS_OK);
        assert_true(y == cs_f32_from_f16(cs_f16_from_f32(x)));
    }
    cs_hfdir_close(a);
    cs_hfdir_close(b);
    cs_arena_free(arena);
}

static void internvl_has_two_layouts(void **state)
{
    const char *tmp = *state;
    struct cs_arena *arena;
    if (beside("internvl") == NULL)
        skip();
    arena = cs_arena_new(0);
    const char *from = cs_arena_strdup(arena, beside("internvl"));
    const char *chat = AT("chat"), *back = AT("back"), *again = AT("again");
    must((struct cs_convert){.dir = from, .out = chat, .family = "internvl_chat"});
    assert_true(
        has_name(IN(chat, "model.safetensors"), "vision_model.encoder.layers.0.attn.qkv.weight"));
    assert_true(has_name(IN(chat, "model.safetensors"), "mlp1.3.bias"));
    must((struct cs_convert){.dir = chat, .out = back, .family = "internvl"});
    same_file(IN(from, "model.safetensors"), IN(back, "model.safetensors"));
    must((struct cs_convert){.dir = back, .out = again, .family = "internvl_chat"});
    same_file(IN(chat, "model.safetensors"), IN(again, "model.safetensors"));
    struct cs_hfdir *dir = open_part(chat, "vision"); /* pictures become tiles all the same */
    assert_string_equal(
        json_string_value(json_object_get(cs_hfdir_processor(dir), "image_processor_type")),
        "GotOcr2ImageProcessor");
    cs_hfdir_close(dir);
    cs_arena_free(arena);
}

static void what_cannot_be_converted_is_refused(void **state)
{
    static const struct {
        const char *model;
        struct cs_convert asked;
        enum cs_status status;
        const char *text;
    } rows[] = {
        {"qwen2",              {.dtype = "int4"},           CS_INVALID,     "float16"             },
        {"qwen2",              {.family = "internvl_chat"}, CS_UNSUPPORTED, "no composite"        },
        {"llava-siglip-qwen2", {.family = "internvl"},      CS_UNSUPPORTED, "layouts of one model"},
        {"nothing",            {0},                         CS_NOT_FOUND,   "nothing"             },
    };

    const char *tmp = *state;
    struct cs_arena *arena = cs_arena_new(0);
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        struct cs_convert asked = rows[i].asked;
        struct cs_convert_report report;
        struct cs_err err = {0};
        asked.dir = cs_arena_strdup(arena, ours(rows[i].model));
        asked.out = AT("out");
        assert_int_equal(cs_convert_run(&asked, &report, &err), rows[i].status);
        if (strstr(err.text, rows[i].text) == NULL)
            fail_msg("%s", err.text);
        assert_false(tmpdir_has(tmp, "out"));
    }
    cs_arena_free(arena);
}

/* A family that has experts, in a model none of whose blocks has any: there is nothing to put together or apart,
 * whatever else is converted. */
static void experts_are_asked_for_where_blocks_have_some(void **state)
{
    const char *tmp = *state;
    struct cs_arena *arena = cs_arena_new(0);
    const char *from = AT("dense"), *out = AT("out");
    json_t *config = NULL, *list = json_array();
    assert_int_equal(mkdir(from, 0755), 0);
    assert_int_equal(
        cs_fs_copy(ours("qwen3/model.safetensors"), IN(from, "model.safetensors"), NULL), CS_OK);
    assert_int_equal(cs_fs_read_json(ours("qwen3/config.json"), &config, NULL), CS_OK);
    const json_int_t n = json_integer_value(json_object_get(config, "num_hidden_layers"));
    assert_true(n > 0);
    for (json_int_t i = 0; i < n; i++)
        json_array_append_new(list, json_integer(i));
    json_object_update_new(config, json_pack("{s:s s:[s] s:i s:i s:i s:o}", "model_type",
                                             "qwen3_moe", "architectures", "Qwen3MoeForCausalLM",
                                             "num_experts", 4, "num_experts_per_tok", 2,
                                             "moe_intermediate_size", 8, "mlp_only_layers", list));
    assert_int_equal(json_dump_file(config, IN(from, "config.json"), 0), 0);
    json_decref(config);
    for (int asked = CS_CONVERT_EXPERTS_each; asked <= CS_CONVERT_EXPERTS_fused; asked++) {
        struct cs_convert_report report;
        struct cs_err err = {0};
        const struct cs_convert convert = {
            .dir = from, .out = out, .experts = (enum cs_convert_experts)asked};
        assert_int_equal(cs_convert_run(&convert, &report, &err), CS_INVALID);
        if (strstr(err.text, "no block of") == NULL || strstr(err.text, "together") != NULL)
            fail_msg("%s", err.text);
        assert_false(tmpdir_has(tmp, "out"));
    }
    must((struct cs_convert){.dir = from, .out = out});
    same_file(IN(from, "model.safetensors"), IN(out, "model.safetensors"));
    cs_arena_free(arena);
}

/* Projectors too, whose widths are those of their neighbours. */
static void every_part_of_every_golden_is_whole(void **state)
{
    char root[4096];
    struct dirent **entry = NULL;
    (void)state;
    if (beside("llama") == NULL)
        skip();
    snprintf(root, sizeof root, "%.*s", (int)(strlen(beside("llama")) - strlen("/llama")),
             beside("llama"));
    const int n = scandir(root, &entry, NULL, alphasort);
    for (int i = 0; i < n; i++) {
        if (entry[i]->d_name[0] != '.') {
            char path[8192];
            snprintf(path, sizeof path, "%s/%s", root, entry[i]->d_name);
            read_the_same(path, path);
        }
        free(entry[i]);
    }
    free(entry);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(experts_go_together_and_apart_again, make, drop),
        cmocka_unit_test_setup_teardown(experts_are_asked_for_where_blocks_have_some, make, drop),
        cmocka_unit_test_setup_teardown(parts_of_a_composite_have_all_prefixes, make, drop),
        cmocka_unit_test_setup_teardown(names_are_those_that_composites_know, make, drop),
        cmocka_unit_test_setup_teardown(shards_have_an_index_and_are_no_larger_than_asked, make,
                                        drop),
        cmocka_unit_test_setup_teardown(types_are_rounded_and_said, make, drop),
        cmocka_unit_test_setup_teardown(internvl_has_two_layouts, make, drop),
        cmocka_unit_test(every_part_of_every_golden_is_whole),
        cmocka_unit_test_setup_teardown(what_cannot_be_converted_is_refused, make, drop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

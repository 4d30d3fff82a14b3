/* Export: the directories hold the keys, values and configuration that transformers itself
 * writes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/arena.h"
#include "store/hf/export_parts.h"
#include "support/tmpdir.h"

#define MODEL "tests/golden/models/llava-siglip-qwen2"

enum { VISION, PROJECTOR, LLM, MODULES };

/* A graph made by hand from the golden llava directory: two of its three vision blocks, no final
 * norm (feature layer -2), the projector, the whole LLM. */
struct model {
    char *tmp;
    struct cs_arena *arena;
    struct cs_hfdir *dir[MODULES];
    struct cs_spec spec;
    struct cs_graph graph;
    struct cs_module module[MODULES];
    struct cs_branch branch[2];
    float scale; /* of every value */
    struct cs_export_report report;
};

static const char *golden(const char *name)
{
    char path[400];
    snprintf(path, sizeof(path), MODEL "%s%s", *name ? "/" : "", name);
    return source_path(path);
}

static void add_params(struct model *m, int module, bool is_trimmed)
{
    struct cs_tensor_info *info = NULL;
    struct cs_arch arch = m->module[module].arch;
    if (is_trimmed) {
        arch.n_layers--;
        arch.has_final_norm = false;
    }
    int n = cs_arch_tensors(&arch, m->arena, &info);
    for (int i = 0; i < n; i++) {
        struct cs_param *p = &m->graph.params[m->graph.n_params];
        *p = (struct cs_param){.id = m->graph.n_params++,
                               .tensor = info[i].name,
                               .alt = info[i].alt,
                               .role = info[i].role,
                               .module = module,
                               .n_dims = info[i].n_dims,
                               .count = 1};
        p->name = cs_arena_printf(m->arena, "%s/%s", m->module[module].name, info[i].name);
        memcpy(p->dim, info[i].dim, sizeof(p->dim));
        for (int d = 0; d < p->n_dims; d++)
            p->count *= p->dim[d];
    }
    if (is_trimmed)
        m->module[module].arch = arch;
}

static int make_model(void **state)
{
    static const char *const names[] = {"vision.encoder", "vision.projector", "llm"};

    static const enum cs_module_kind kinds[] = {CS_MODULE_ENCODER, CS_MODULE_PROJECTOR,
                                                CS_MODULE_LLM};
    struct model *m = calloc(1, sizeof(*m));
    struct cs_err err = {0};
    if (!m)
        return -1;
    m->tmp = tmpdir_new();
    m->arena = cs_arena_new(0);
    m->scale = 1;
    m->spec.n_modules = MODULES;
    m->graph = (struct cs_graph){.modules = m->module,
                                 .branches = m->branch,
                                 .n_modules = MODULES,
                                 .n_branches = 2,
                                 .llm = 1,
                                 .n_encoders = 1,
                                 .is_tied = true};
    m->graph.params = CS_NEW_ARRAY(m->arena, struct cs_param, 400);
    m->branch[0] = (struct cs_branch){.name = "vision"};
    m->branch[1] = (struct cs_branch){.name = "llm", .encoder = -1};
    for (int i = 0; i < MODULES; i++) {
        struct cs_spec_module *spec = &m->spec.module[i];
        if (cs_hfdir_open_kind(golden(""), kinds[i], &m->dir[i], &err) != CS_OK)
            fail_msg("%s", err.text);
        *spec = (struct cs_spec_module){.name = names[i],
                                        .dir = cs_arena_strdup(m->arena, golden("")),
                                        .init = "weights",
                                        .token = "<image>",
                                        .tokenizer = "",
                                        .kind = kinds[i],
                                        .config = cs_hfdir_config(m->dir[i])};
        m->module[i] = (struct cs_module){
            .name = names[i], .kind = kinds[i], .spec = spec, .branch = i == LLM};
        if (i != PROJECTOR &&
            cs_arch_from_config(spec->config, m->arena, &m->module[i].arch, &err) != CS_OK)
            fail_msg("%s", err.text);
    }
    m->spec.module[VISION].has_feature_layer = true;
    m->spec.module[VISION].feature_layer = -2;
    assert_int_equal(cs_arch_projector(&(struct cs_projector){.family = "mlp",
                                                              .n_layers = 2,
                                                              .activation = "gelu",
                                                              .has_bias = true},
                                       48, 48, &m->module[PROJECTOR].arch, &err),
                     CS_OK);
    add_params(m, VISION, true);
    add_params(m, PROJECTOR, false);
    add_params(m, LLM, false);
    *state = m;
    return 0;
}

static int drop_model(void **state)
{
    struct model *m = *state;
    for (int i = 0; i < MODULES; i++)
        cs_hfdir_close(m->dir[i]);
    cs_arena_free(m->arena);
    tmpdir_free(m->tmp);
    free(m);
    return 0;
}

static enum cs_status give(void *user, const struct cs_param *param, float *out, struct cs_err *err)
{
    struct model *m = user;
    const struct cs_st_tensor *t =
        cs_hfdir_tensor(m->dir[param->module], param->tensor, param->alt);
    if (!t)
        return cs_fail(err, CS_NOT_FOUND, "%s", param->name);
    CS_TRY(cs_st_read_f32(t, 0, t->count, out, err));
    for (int64_t i = 0; i < t->count; i++)
        out[i] *= m->scale;
    return CS_OK;
}

static void export_to(struct model *m, const char *dtype, const char *name, struct cs_err *err)
{
    enum cs_status st = cs_export_model(&m->spec, &m->graph, give, m, dtype,
                                        tmpdir_path(m->tmp, name), &m->report, err);
    if (st != CS_OK)
        fail_msg("%s", err->text);
}

static struct cs_st_file *open_file(const char *path)
{
    struct cs_err err = {0};
    struct cs_st_file *file = NULL;
    if (cs_st_open(path, &file, &err) != CS_OK)
        fail_msg("%s", err.text);
    return file;
}

static void llava_directory_equals_the_golden_one(void **state)
{
    struct model *m = *state;
    struct cs_err err = {0};
    export_to(m, "float32", "out", &err);
    assert_null(m->report.no_whole);
    struct cs_st_file *ours = open_file(tmpdir_path(m->tmp, "out/llava/model.safetensors"));
    struct cs_st_file *theirs = open_file(golden("model.safetensors"));
    assert_int_equal(cs_st_count(ours), cs_st_count(theirs));
    for (int i = 0; i < cs_st_count(ours); i++) {
        const struct cs_st_tensor *a = cs_st_at(ours, i), *b = cs_st_at(theirs, i);
        assert_string_equal(a->name, b->name);
        assert_int_equal(a->dtype, b->dtype);
        assert_int_equal(a->n_dims, b->n_dims);
        assert_memory_equal(a->dim, b->dim, sizeof(a->dim));
        assert_memory_equal(a->data, b->data, (size_t)a->count * 4);
    }
    cs_st_close(ours);
    cs_st_close(theirs);
    assert_int_equal(tmpdir_count(m->tmp), 1); /* no temporary directory stays */
}

/* every key of want is in got with the same value, but for those named in except */
static void holds(const json_t *got, const json_t *want, const char *const *except)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)want, key, value)
    {
        bool is_excepted = false;
        for (int i = 0; except[i]; i++)
            is_excepted = is_excepted || strcmp(key, except[i]) == 0;
        if (!is_excepted && !json_equal(json_object_get(got, key), value))
            fail_msg("key %s differs", key);
    }
}

static void llava_configuration_says_what_transformers_says(void **state)
{
    static const char *const outer[] = {"image_seq_length", "transformers_version", NULL};
    struct model *m = *state;
    struct cs_err err = {0};
    json_t *ours = NULL, *theirs = NULL, *processor = NULL;
    export_to(m, "float32", "out", &err);
    assert_int_equal(cs_fs_read_json(tmpdir_path(m->tmp, "out/llava/config.json"), &ours, &err),
                     CS_OK);
    assert_int_equal(cs_fs_read_json(golden("config.json"), &theirs, &err), CS_OK);
    holds(ours, theirs, outer);
    assert_int_equal(json_integer_value(json_object_get(ours, "image_token_id")), 198);
    assert_int_equal(json_integer_value(json_object_get(ours, "image_seq_length")), 16);
    /* nothing extra inside either: equal both ways */
    static const char *const nothing[] = {"architectures", NULL};
    holds(json_object_get(theirs, "text_config"), json_object_get(ours, "text_config"), nothing);
    holds(json_object_get(theirs, "vision_config"), json_object_get(ours, "vision_config"),
          nothing);
    assert_int_equal(
        cs_fs_read_json(tmpdir_path(m->tmp, "out/llava/processor_config.json"), &processor, &err),
        CS_OK);
    assert_int_equal(json_integer_value(json_object_get(processor, "patch_size")), 7);
    assert_string_equal(
        json_string_value(json_object_get(processor, "vision_feature_select_strategy")), "full");
    json_decref(ours);
    json_decref(theirs);
    json_decref(processor);
}

static void component_directories_open_and_fit(void **state)
{
    static const char *const folders[] = {"out/vision", "out/projector", "out/llm"};
    static const char *const classes[] = {"SiglipVisionModel", NULL, "Qwen2ForCausalLM"};
    struct model *m = *state;
    struct cs_err err = {0};
    m->scale = 2;
    export_to(m, "float32", "out", &err);
    for (int i = 0; i < MODULES; i++) {
        struct cs_hfdir *hf = NULL;
        struct cs_arch arch = m->module[PROJECTOR].arch;
        if (cs_hfdir_open(tmpdir_path(m->tmp, folders[i]), "", &hf, &err) != CS_OK)
            fail_msg("%s", err.text);
        const json_t *class_name =
            json_array_get(json_object_get(cs_hfdir_config(hf), "architectures"), 0);
        if (classes[i])
            assert_string_equal(json_string_value(class_name), classes[i]);
        if (i != PROJECTOR &&
            cs_arch_from_config(cs_hfdir_config(hf), m->arena, &arch, &err) != CS_OK)
            fail_msg("%s", err.text);
        if (cs_hfdir_check(hf, &arch, &err) != CS_OK) /* with the dropped block and final norm */
            fail_msg("%s", err.text);
        assert_int_equal(cs_hfdir_count(hf), cs_hfdir_count(m->dir[i]));
        cs_hfdir_close(hf);
    }
    struct cs_st_file *llm = open_file(tmpdir_path(m->tmp, "out/llm/model.safetensors"));
    float ours = 0, theirs = 0;
    static const char norm[] = "model.norm.weight";
    assert_null(cs_st_find(llm, "lm_head.weight")); /* tied */
    assert_int_equal(cs_st_read_f32(cs_st_find(llm, norm), 5, 1, &ours, &err), CS_OK);
    assert_int_equal(cs_st_read_f32(cs_hfdir_tensor(m->dir[LLM], norm, NULL), 5, 1, &theirs, &err),
                     CS_OK);
    assert_true(ours == 2 * theirs); /* from the source callback, not copied */
    cs_st_close(llm);
}

static void bfloat16_export_is_rounded_and_says_so(void **state)
{
    struct model *m = *state;
    struct cs_err err = {0};
    json_t *config = NULL;
    export_to(m, "bfloat16", "out", &err);
    struct cs_st_file *ours = open_file(tmpdir_path(m->tmp, "out/llava/model.safetensors"));
    struct cs_st_file *theirs = open_file(golden("model.safetensors"));
    for (int i = 0; i < cs_st_count(ours); i++) {
        float a = 0, b = 0;
        assert_int_equal(cs_st_at(ours, i)->dtype, CS_BF16);
        assert_int_equal(cs_st_read_f32(cs_st_at(ours, i), 0, 1, &a, NULL), CS_OK);
        assert_int_equal(cs_st_read_f32(cs_st_at(theirs, i), 0, 1, &b, NULL), CS_OK);
        assert_true(a == cs_f32_from_bf16(cs_bf16_from_f32(b)));
    }
    cs_st_close(ours);
    cs_st_close(theirs);
    assert_int_equal(cs_fs_read_json(tmpdir_path(m->tmp, "out/vision/config.json"), &config, &err),
                     CS_OK);
    assert_string_equal(json_string_value(json_object_get(config, "dtype")), "bfloat16");
    json_decref(config);
    assert_int_equal(cs_export_model(&m->spec, &m->graph, give, m, "int4",
                                     tmpdir_path(m->tmp, "other"), &m->report, &err),
                     CS_INVALID);
}

static void tokenizer_is_copied_to_the_byte_and_names_the_image_token(void **state)
{
    static const char tokenizer[] = "{ \"added_tokens\": [{\"id\": 77, \"content\": "
                                    "\"<image>\"}],\n\"model\":{\"vocab\":{}}}  ";
    struct model *m = *state;
    struct cs_err err = {0};
    json_t *config = NULL;
    size_t size = 0;
    assert_int_equal(mkdir(tmpdir_path(m->tmp, "tok"), 0755), 0);
    tmpdir_write(tmpdir_path(m->tmp, "tok/tokenizer.json"), tokenizer, sizeof(tokenizer) - 1);
    tmpdir_write(tmpdir_path(m->tmp, "tok/chat_template.jinja"), "{{ x }}\r\n", 9);
    m->spec.module[LLM].tokenizer = cs_arena_strdup(m->arena, tmpdir_path(m->tmp, "tok"));
    json_t *processor = json_pack("{s:i}", "size", 28);
    m->spec.module[VISION].processor = processor;
    export_to(m, "float32", "out", &err);
    static const char *const copies[] = {"out/llm/tokenizer.json", "out/llava/tokenizer.json"};
    for (int i = 0; i < 2; i++) {
        char *copy = tmpdir_read(tmpdir_path(m->tmp, copies[i]), &size);
        assert_int_equal(size, sizeof(tokenizer) - 1);
        assert_string_equal(copy, tokenizer);
        free(copy);
    }
    assert_true(tmpdir_has(m->tmp, "out/llava/chat_template.jinja"));
    assert_true(tmpdir_has(m->tmp, "out/llava/preprocessor_config.json"));
    assert_true(tmpdir_has(m->tmp, "out/vision/preprocessor_config.json"));
    assert_int_equal(cs_fs_read_json(tmpdir_path(m->tmp, "out/llava/config.json"), &config, &err),
                     CS_OK);
    assert_int_equal(json_integer_value(json_object_get(config, "image_token_index")), 77);
    json_decref(config);
    m->spec.module[VISION].token = "<picture>";
    export_to(m, "float32", "second", &err);
    assert_non_null(strstr(m->report.no_whole, "not in the tokenizer"));
    assert_false(tmpdir_has(m->tmp, "second/llava"));
    m->spec.module[VISION].processor = NULL;
    json_decref(processor);
}

static void what_llava_cannot_say_is_said(void **state)
{
    struct model *m = *state;
    struct cs_err err = {0};
    m->spec.module[VISION].has_feature_layer = false;
    export_to(m, "float32", "out", &err);
    assert_non_null(strstr(m->report.no_whole, "final norm"));
    assert_false(tmpdir_has(m->tmp, "out/llava"));
    assert_true(tmpdir_has(m->tmp, "out/vision") && tmpdir_has(m->tmp, "out/llm"));
    m->graph.n_encoders = 0; /* a language model alone lacks nothing */
    export_to(m, "float32", "text", &err);
    assert_null(m->report.no_whole);
    assert_null(m->report.whole);
}

static void fresh_encoder_gets_its_unused_block_and_no_pool(void **state)
{
    struct model *m = *state;
    struct cs_err err = {0};
    json_t *config = NULL;
    m->spec.module[VISION].dir = "";
    m->spec.module[VISION].init = "random";
    export_to(m, "float32", "out", &err);
    struct cs_st_file *file = open_file(tmpdir_path(m->tmp, "out/vision/model.safetensors"));
    float f = -1;
    assert_null(cs_st_find(file, "head.probe"));
    assert_int_equal(
        cs_st_read_f32(cs_st_find(file, "encoder.layers.2.mlp.fc1.weight"), 7, 1, &f, &err), CS_OK);
    assert_true(f == 0);
    assert_int_equal(cs_st_read_f32(cs_st_find(file, "post_layernorm.weight"), 7, 1, &f, &err),
                     CS_OK);
    assert_true(f == 1);
    cs_st_close(file);
    assert_int_equal(cs_fs_read_json(tmpdir_path(m->tmp, "out/vision/config.json"), &config, &err),
                     CS_OK);
    assert_true(json_is_false(json_object_get(config, "vision_use_head")));
    json_decref(config);
}

static void existing_directory_is_refused_unless_empty(void **state)
{
    struct model *m = *state;
    struct cs_err err = {0};
    assert_int_equal(mkdir(tmpdir_path(m->tmp, "out"), 0755), 0);
    export_to(m, "float32", "out/", &err);
    assert_true(tmpdir_has(m->tmp, "out/llava"));
    assert_int_equal(cs_export_model(&m->spec, &m->graph, give, m, "float32",
                                     tmpdir_path(m->tmp, "out"), &m->report, &err),
                     CS_EXISTS);
    assert_non_null(strstr(err.text, "not empty"));
    assert_int_equal(tmpdir_count(m->tmp), 1);
    export_to(m, "float32", "new/deep/out", &err); /* parents are made */
}

static enum cs_status give_up(void *user, const struct cs_param *param, float *out,
                              struct cs_err *err)
{
    (void)user;
    (void)out;
    return cs_fail(err, CS_NOT_FOUND, "no value of %s", param->name);
}

static void failing_export_leaves_nothing(void **state)
{
    struct model *m = *state;
    struct cs_err err = {0};
    int status = 0;
    const char *path = tmpdir_path(m->tmp, "out");
    assert_int_equal(
        cs_export_model(&m->spec, &m->graph, give_up, m, "float32", path, &m->report, &err),
        CS_NOT_FOUND);
    assert_non_null(strstr(err.text, "no value of vision.encoder/"));
    assert_int_equal(tmpdir_count(m->tmp), 0);
    pid_t pid = fork();
    if (pid == 0) {
        struct rlimit size = {400000, 400000}; /* enough for a component, not for llava */
        signal(SIGXFSZ, SIG_IGN);
        setrlimit(RLIMIT_FSIZE, &size);
        enum cs_status st =
            cs_export_model(&m->spec, &m->graph, give, m, "float32", path, &m->report, &err);
        _exit(strstr(err.text, "bytes needed") ? (int)st : 99);
    }
    waitpid(pid, &status, 0);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), CS_NO_SPACE);
    assert_int_equal(tmpdir_count(m->tmp), 0);
}

/* a number that no process has: that of a child which is gone */
static long gone_pid(void)
{
    pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    waitpid(pid, NULL, 0);
    return (long)pid;
}

static void leftovers_of_killed_exports_go_with_the_next(void **state)
{
    struct model *m = *state;
    struct cs_err err = {0};
    char gone[64], alive[64], other[64];
    snprintf(gone, sizeof gone, "out.tmp-%ld", gone_pid());
    snprintf(alive, sizeof alive, "out.tmp-%ld", (long)getppid());
    snprintf(other, sizeof other, "out2.tmp-%ld", gone_pid());
    const char *const dirs[] = {gone, alive, other, "out.tmp-", "out.tmp-1x"};
    for (size_t i = 0; i < CS_ARRAY_LEN(dirs); i++)
        assert_int_equal(mkdir(tmpdir_path(m->tmp, dirs[i]), 0755), 0);
    tmpdir_write(tmpdir_path(m->tmp, cs_arena_printf(m->arena, "%s/half", gone)), "x", 1);
    export_to(m, "float32", "out", &err);
    assert_false(tmpdir_has(m->tmp, gone));
    for (size_t i = 1; i < CS_ARRAY_LEN(dirs); i++)
        assert_true(tmpdir_has(m->tmp, dirs[i]));
}

static enum cs_status give_bad(void *user, const struct cs_param *param, float *out,
                               struct cs_err *err)
{
    CS_TRY(give(user, param, out, err));
    if (strcmp(param->tensor, "model.norm.weight") == 0)
        out[3] = NAN;
    if (strcmp(param->tensor, "linear_1.bias") == 0)
        out[1] = 3.4e38f; /* finite as fp32, infinite as bf16 */
    return CS_OK;
}

static void values_that_are_no_numbers_are_reported(void **state)
{
    struct model *m = *state;
    struct cs_err err = {0};
    struct cs_export_report *report = &m->report;
    assert_int_equal(cs_export_model(&m->spec, &m->graph, give_bad, m, "float32",
                                     tmpdir_path(m->tmp, "out"), report, &err),
                     CS_OK);
    assert_int_equal(report->n_not_finite, 1); /* though llava holds it once more */
    assert_int_equal(report->n_params, m->graph.n_params);
    assert_string_equal(report->not_finite, "llm/model.norm.weight, element 3 of 48");
    assert_int_equal(cs_export_model(&m->spec, &m->graph, give_bad, m, "bfloat16",
                                     tmpdir_path(m->tmp, "out16"), report, &err),
                     CS_OK);
    assert_int_equal(report->n_not_finite, 2);
    export_to(m, "float32", "good", &err);
    assert_int_equal(report->n_not_finite, 0);
}

static void a_place_is_tried_before_the_work(void **state)
{
    struct model *m = *state;
    struct cs_err err = {0};
    assert_int_equal(cs_export_try(tmpdir_path(m->tmp, "new/out/"), &err), CS_OK);
    assert_int_equal(tmpdir_count(tmpdir_path(m->tmp, "new")), 0); /* parents alone */
    tmpdir_write(tmpdir_path(m->tmp, "file"), "x", 1);
    assert_int_equal(cs_export_try(tmpdir_path(m->tmp, "file/out"), &err), CS_EXISTS);
    assert_int_equal(cs_export_try(tmpdir_path(m->tmp, ""), &err), CS_EXISTS);
    assert_non_null(strstr(err.text, "not empty"));
    assert_int_not_equal(cs_export_try("/proc/out", &err), CS_OK);
    assert_non_null(strstr(err.text, "/proc/out"));
}

/* The weights of a model of a petabyte: nothing of it is read or written. */
static void a_model_that_does_not_fit_is_refused_before_it_is_written(void **state)
{
    static const struct {
        const char *dtype, *need;
    } rows[] = {
        {"float32",  "2.00 PiB as float32" }, /* llava holds it once more */
        {"bfloat16", "1.00 PiB as bfloat16"},
    };
    struct model *m = *state;
    struct cs_err err = {0};
    for (int i = 0; i < m->graph.n_params; i++)
        if (strcmp(m->graph.params[i].tensor, "model.norm.weight") == 0)
            m->graph.params[i].dim[0] = INT64_C(1) << 48;
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        assert_int_equal(cs_export_model(&m->spec, &m->graph, give, m, rows[i].dtype,
                                         tmpdir_path(m->tmp, "new/out"), &m->report, &err),
                         CS_NO_SPACE);
        if (!strstr(err.text, rows[i].need) || !strstr(err.text, "are free") ||
            !strstr(err.text, "new/out"))
            fail_msg("%s", err.text);
        assert_int_equal(tmpdir_count(tmpdir_path(m->tmp, "new")), 0);
    }
}

static void files_are_as_open_as_the_umask_leaves_them(void **state)
{
    static const char *const files[] = {"out", "out/llm", "out/llm/model.safetensors",
                                        "out/llm/config.json", "out/llava/model.safetensors"};
    static const mode_t masks[] = {077, 002};
    struct model *m = *state;
    struct cs_err err = {0};
    for (size_t i = 0; i < CS_ARRAY_LEN(masks); i++) {
        const char *top = i == 0 ? "a" : "b";
        const mode_t old = umask(masks[i]);
        export_to(m, "float32", cs_arena_printf(m->arena, "%s/out", top), &err);
        umask(old);
        for (size_t k = 0; k < CS_ARRAY_LEN(files); k++) {
            struct stat info;
            assert_int_equal(
                stat(tmpdir_path(m->tmp, cs_arena_printf(m->arena, "%s/%s", top, files[k])), &info),
                0);
            assert_int_equal(info.st_mode & 0777,
                             (S_ISDIR(info.st_mode) ? 0777u : 0666u) & ~masks[i]);
        }
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_model, drop_model)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(llava_directory_equals_the_golden_one),
        TEST(llava_configuration_says_what_transformers_says),
        TEST(component_directories_open_and_fit),
        TEST(bfloat16_export_is_rounded_and_says_so),
        TEST(tokenizer_is_copied_to_the_byte_and_names_the_image_token),
        TEST(what_llava_cannot_say_is_said),
        TEST(fresh_encoder_gets_its_unused_block_and_no_pool),
        TEST(existing_directory_is_refused_unless_empty),
        TEST(failing_export_leaves_nothing),
        TEST(leftovers_of_killed_exports_go_with_the_next),
        TEST(values_that_are_no_numbers_are_reported),
        TEST(a_place_is_tried_before_the_work),
        TEST(a_model_that_does_not_fit_is_refused_before_it_is_written),
        TEST(files_are_as_open_as_the_umask_leaves_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Fuzz target: jobs that are nearly right, read, planned and lowered; and plans of them that are nearly
 * right, read back. */
#include "core/model/spec.h"
#include "core/plan/json/plan_json.h"
#include "core/plan/make/planner.h"
#include "core/sched/lower/lower.h"
#include "core/wire/wire.h"
#include "fuzz/edit.h"
#include "support/spec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static json_t *job(struct fuzz_bytes *bytes)
{
    static const char *const schedules[] = {"1f1b", "gpipe", "interleaved", "zb-h1"};
    static const char *const modalities[] = {"encoder-parallel", "encoder-colocated",
                                             "encoder-first"};
    const struct cs_test_spec spec = {.n_encoders = 1 + (int)fuzz_take(bytes, 2),
                                      .llm_layers = 2 + (int)fuzz_take(bytes, 4),
                                      .llm_pp = 1 + (int)fuzz_take(bytes, 3),
                                      .dp = 1 + (int)fuzz_take(bytes, 2),
                                      .is_qwen3 = fuzz_take(bytes, 2),
                                      .schedule = schedules[fuzz_take(bytes, 4)],
                                      .modality = modalities[fuzz_take(bytes, 3)]};

    return cs_test_spec_json(&spec);
}

static void plan(const struct cs_spec *spec, const struct cs_graph *graph, struct cs_arena *arena,
                 struct fuzz_bytes *bytes)
{
    struct cs_cluster cluster = {cs_device_class_find("cpu"), 1, 8};
    struct cs_plan *made = NULL, *back = NULL;
    struct cs_program *program = NULL;
    struct cs_err err = {0};

    if (cs_plan_make(spec, graph, &cluster, arena, &made, &err) != CS_OK) {
        fuzz_must(err.text[0] != '\0');
        return;
    }
    if (made->slots <= 64)
        (void)!cs_program_make(made, graph, made->slots, false, arena, &program, &err);
    json_t *document = cs_plan_json(made, graph);
    fuzz_must(cs_plan_read(document, graph, arena, &back, &err) == CS_OK);
    fuzz_edit(document, bytes);
    if (cs_plan_read(document, graph, arena, &back, &err) != CS_OK)
        fuzz_must(err.text[0] != '\0');
    json_decref(document);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_bytes bytes = {data, size};
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_spec *spec = NULL;
    struct cs_graph *graph = NULL;
    struct cs_err err = {0};
    const bool is_of_plan = fuzz_take(&bytes, 4) == 0;
    json_t *root = job(&bytes);

    if (!is_of_plan)
        fuzz_edit(root, &bytes);
    if (cs_spec_read(root, arena, &spec, &err) == CS_OK &&
        cs_graph_build(spec, true, arena, &graph, &err) == CS_OK)
        plan(spec, graph, arena, &bytes);
    else
        fuzz_must(err.text[0] != '\0');
    json_decref(root);
    cs_arena_free(arena);
    return 0;
}

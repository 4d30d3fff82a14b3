/* The planner: how long a search takes from 64 to 4096 ranks, with how much memory, and what it
 * finds. The model of lua/examples/omni-4096.lua: two frozen encoders, an LLM of 70 billion
 * parameters that trains. Prints; asserts nothing about time. Usage: bench_plan */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#include "core/search/search.h"

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static json_t *encoder(const char *name, const char *token, int width, int layers, int image)
{
    return json_pack("{s:s s:s s:s s:s s:s s:i s:{s:s s:i s:i s:i s:i s:i s:i s:i s:s}}", "name",
                     name, "kind", "encoder", "dir", "", "init", "random", "token", token,
                     "feature_layer", -1, "config", "model_type", "siglip_vision_model",
                     "hidden_size", width, "intermediate_size", 4 * width, "num_hidden_layers",
                     layers, "num_attention_heads", width / 64, "image_size", image, "patch_size",
                     14, "num_channels", 3, "hidden_act", "gelu_pytorch_tanh");
}

static json_t *projector(const char *name)
{
    return json_pack("{s:s s:s s:s s:i}", "name", name, "kind", "projector", "family", "mlp",
                     "layers", 2);
}

static json_t *document(void)
{
    json_t *llm =
        json_pack("{s:s s:s s:s s:s s:{s:s s:i s:i s:i s:i s:i s:i s:i s:f s:s}}", "name", "llm",
                  "kind", "llm", "dir", "", "init", "random", "config", "model_type", "llama",
                  "hidden_size", 8192, "intermediate_size", 28672, "num_hidden_layers", 80,
                  "num_attention_heads", 64, "num_key_value_heads", 8, "vocab_size", 128256,
                  "max_position_embeddings", 131072, "rms_norm_eps", 1e-5, "hidden_act", "silu");
    json_t *modules =
        json_pack("[o o o o o]", encoder("audio.encoder", "<audio>", 1280, 32, 336),
                  projector("audio.projector"), encoder("vision.encoder", "<image>", 3072, 48, 448),
                  projector("vision.projector"), llm);
    return json_pack(
        "{s:s s:s s:i s:i s:i s:{s:o s:[{s:s s:s} {s:s s:s}]} s:{s:s s:{s:{s:i} s:{s:i} s:{s:i}} "
        "s:i s:i s:{s:i s:i}} s:{s:s s:s s:s} s:{s:s s:f}}",
        "schema", "cornstarch.job/1", "name", "omni", "seed", 0, "steps", 1, "batch_samples", 1,
        "model", "modules", modules, "rules", "op", "train", "glob", "*.projector", "op", "train",
        "glob", "llm", "plan", "cluster", "here", "parallel", "vision", "pp", 1, "audio", "pp", 1,
        "llm", "pp", 1, "seq_tokens", 8192, "slots", 4, "encoder_rows", "vision", 4096, "audio",
        2304, "data", "format", "llava", "json", "/none", "images", "", "optimizer", "kind",
        "adamw", "lr", 1e-3);
}

static void search(const struct cs_spec *spec, const struct cs_graph *graph, int32_t nodes)
{
    struct cs_cluster cluster = {cs_device_class_find("h100-80g"), nodes, 8};
    struct cs_search_options options = {.batch_slots = 1024};
    struct cs_search_result result;
    struct cs_err err;
    struct rusage usage;
    struct cs_arena *arena = cs_arena_new(0);
    double begin = now_ms();
    enum cs_status status = cs_search(spec, graph, &cluster, NULL, &options, arena, &result, &err);
    double ms = now_ms() - begin;
    getrusage(RUSAGE_SELF, &usage);
    printf("%6d %9.1f %9.1f ", nodes * 8, ms, (double)usage.ru_maxrss / 1024);
    if (status != CS_OK) {
        printf("%s\n", err.text);
    } else {
        const struct cs_search_plan *p = &result.plan[0];
        const struct cs_branch_layout *llm = &p->layout.branch[p->layout.n_branches - 1];
        printf("%8lld %9d %9.2f  %5d  %s dp %d, llm tp %d cp %d pp %d %s, %.2fx over blind\n",
               (long long)result.n_scored, result.n_simulated, (double)p->step_ns / 1e9, p->n_ranks,
               p->schedule, p->layout.dp, llm->tp, llm->cp, llm->pp,
               cs_recompute_name(llm->recompute),
               result.blind ? (double)result.blind->step_ns / (double)p->step_ns : 1.0);
    }
    cs_arena_free(arena);
}

int main(void)
{
    struct cs_err err;
    struct cs_spec *spec = NULL;
    struct cs_graph *graph = NULL;
    struct cs_arena *arena = cs_arena_new(0);
    json_t *root = document();
    enum cs_status status = cs_spec_read(root, arena, &spec, &err);
    if (status == CS_OK)
        status = cs_graph_build(spec, true, arena, &graph, &err);
    if (status == CS_OK) {
        printf(" ranks        ms   max MiB   scored simulated    step s   used  fastest plan\n");
        for (int32_t nodes = 8; nodes <= 512; nodes *= 2)
            search(spec, graph, nodes);
    } else {
        fprintf(stderr, "%s\n", err.text);
    }
    json_decref(root);
    cs_arena_free(arena);
    return status == CS_OK ? 0 : 1;
}

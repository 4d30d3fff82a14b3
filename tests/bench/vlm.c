/* SigLIP + MLP + Llama as benchmarks run them: options, document, plan, slots, ranks. */
#include "bench/vlm.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/philox.h"
#include "core/base/system/clock.h"
#include "core/plan/make/planner.h"
#include "store/hf/hfdir.h"

enum { BLOCK = 1 << 20 };

const struct cs_vlm_setting cs_vlm_settings[CS_VLM_SETTINGS] = {
    {"all train",      false, false, false},
    {"encoder frozen", true,  false, false},
    {"projector only", true,  false, true },
    {"llm frozen",     false, false, true },
};

const struct cs_vlm_llm cs_vlm_llm_1b = {"1b", 2048, 8192, 16, 32, 8, 64, true, 0, 0};
static const struct cs_vlm_llm llm_8b = {"8b", 4096, 14336, 32, 32, 8, 128, false, 0, 0},
                               llm_30b = {"30b-a3b", 2048, 768, 48, 32, 4, 128, false, 128, 8};
/* what one of two, or four, ranks that share its matrices has of it */
static const struct cs_vlm_llm half_8b = {"8b/2", 4096, 7168, 32, 16, 4, 128, false, 0, 0},
                               quarter_8b = {"8b/4", 4096, 3584, 32, 8, 2, 128, false, 0, 0};
static const struct cs_vlm_llm *const llms[] = {&cs_vlm_llm_1b, &llm_8b, &half_8b, &quarter_8b,
                                                &llm_30b};

static void refuse(const char *what, const char *which)
{
    fprintf(stderr, "%s: %s%s\n", program_invocation_short_name, what, which);
    exit(1);
}

void cs_vlm_must(enum cs_status status, const struct cs_err *err)
{
    if (status != CS_OK)
        refuse(err->text, "");
}

/* ---- options ---- */

static void read_option(struct cs_vlm_options *o, const char *arg)
{
    const struct {
        const char *name;
        int *number;
        char *text;
        size_t cap;
    } table[] = {
        {"device",    NULL,        o->device,    sizeof o->device   },
        {"class",     NULL,        o->class,     sizeof o->class    },
        {"precision", NULL,        o->precision, sizeof o->precision},
        {"schedule",  NULL,        o->schedule,  sizeof o->schedule },
        {"modality",  NULL,        o->modality,  sizeof o->modality },
        {"recompute", NULL,        o->recompute, sizeof o->recompute},
        {"offload",   NULL,        o->offload,   sizeof o->offload  },
        {"zero",      &o->zero,    NULL,         0                  },
        {"stages",    NULL,        o->stages,    sizeof o->stages   },
        {"state",     NULL,        o->state,     sizeof o->state    },
        {"size",      NULL,        o->size,      sizeof o->size     },
        {"profile",   NULL,        o->profile,   sizeof o->profile  },
        {"save",      NULL,        o->save,      sizeof o->save     },
        {"model",     NULL,        o->model,     sizeof o->model    },
        {"picture",   &o->picture, NULL,         0                  },
        {"vision",    &o->vision,  NULL,         0                  },
        {"llm",       &o->llm,     NULL,         0                  },
        {"dp",        &o->dp,      NULL,         0                  },
        {"cp",        &o->cp,      NULL,         0                  },
        {"tp",        &o->tp,      NULL,         0                  },
        {"ep",        &o->ep,      NULL,         0                  },
        {"sp",        &o->sp,      NULL,         0                  },
        {"sums",      &o->sums,    NULL,         0                  },
        {"layers",    &o->layers,  NULL,         0                  },
        {"vocab",     &o->vocab,   NULL,         0                  },
        {"slots",     &o->slots,   NULL,         0                  },
        {"seq",       &o->seq,     NULL,         0                  },
        {"images",    &o->images,  NULL,         0                  },
        {"warm",      &o->warm,    NULL,         0                  },
        {"steps",     &o->steps,   NULL,         0                  },
        {"case",      &o->only,    NULL,         0                  },
        {"scale",     &o->scale,   NULL,         0                  },
        {"ops",       &o->ops,     NULL,         0                  },
        {"tune",      &o->tune,    NULL,         0                  },
    };

    const char *value = strchr(arg, '=');
    for (size_t i = 0; value != NULL && i < CS_ARRAY_LEN(table); i++) {
        if (strncmp(arg, table[i].name, (size_t)(value - arg)) != 0 ||
            strlen(table[i].name) != (size_t)(value - arg))
            continue;
        if (table[i].number != NULL)
            *table[i].number = atoi(value + 1);
        else
            snprintf(table[i].text, table[i].cap, "%s", value + 1);
        return;
    }
    refuse("unknown option ", arg);
}

/* What leaves the encoder of the pictures. */
static void read_picture(struct cs_vlm_options *o)
{
    char path[300];
    o->image_rows = CS_VLM_IMAGE_ROWS;
    if (o->model[0] == '\0')
        return;
    snprintf(path, sizeof path, "%s/config.json", o->model);
    json_t *config = json_load_file(path, 0, NULL);
    const json_t *vision = json_object_get(config, "vision_config");
    const json_int_t patch = json_integer_value(json_object_get(vision, "patch_size"));
    const json_int_t merge = json_integer_value(json_object_get(vision, "spatial_merge_size"));
    json_decref(config);
    if (patch < 1 || merge < 1 || o->picture < 1 || o->picture % (patch * merge) != 0)
        refuse("no vision_config with patches of which the picture has a whole number: ", path);
    o->side = (int)(o->picture / patch);
    o->image_rows = o->side * o->side / (int)(merge * merge);
}

void cs_vlm_options_read(struct cs_vlm_options *o, int argc, char **argv)
{
    *o = (struct cs_vlm_options){.device = "cuda",
                                 .class = "h100-80g",
                                 .precision = "bf16",
                                 .schedule = "1f1b",
                                 .modality = "encoder-parallel",
                                 .recompute = "none",
                                 .offload = "none",
                                 .zero = 1,
                                 .stages = "frozen-aware",
                                 .state = "fp32",
                                 .size = "1b",
                                 .llm = 1,
                                 .dp = 1,
                                 .cp = 1,
                                 .tp = 1,
                                 .ep = 1,
                                 .sums = 1,
                                 .slots = 1,
                                 .seq = 4096,
                                 .images = 4,
                                 .picture = 768,
                                 .warm = 12,
                                 .steps = o->steps,
                                 .only = -1,
                                 .scale = 1,
                                 .tune = 8};
    for (int i = 1; i < argc; i++)
        read_option(o, argv[i]);
    read_picture(o);
    for (size_t i = 0; i < CS_ARRAY_LEN(llms); i++)
        if (strcmp(o->size, llms[i]->name) == 0)
            o->shape = llms[i];
    if (o->shape == NULL)
        refuse("size is 1b, 8b, 8b/2, 8b/4 or 30b-a3b, not ", o->size);
    if (o->warm < 0 || o->steps < 0 || o->warm + o->steps > CS_VLM_MAX_STEPS ||
        o->slots > CS_STEP_MAX_SLOTS || o->slots < 1 || o->vision < 0 || o->llm < 1 ||
        (o->vision == 0 && o->llm > 1) || o->dp < 1 || o->cp < 1 || o->tp < 1 || o->ep < 1 ||
        (o->vision + o->llm * o->cp * o->tp) * o->dp > CS_VLM_MAX_RANKS || o->scale < 1 ||
        o->images < 0 || o->seq < o->images * (o->image_rows + 64) || o->layers < 0 ||
        o->vocab < 0 || (o->images == 0 && o->vision > 0))
        refuse("numbers out of range", "");
    if (o->images == 0 && (o->only > 0 || o->model[0] != '\0'))
        refuse("images=0 is the LLM alone, which trains", "");
    if (o->images == 0)
        o->only = 0;
}

int cs_vlm_layers(const struct cs_vlm_options *o)
{
    return o->layers > 0 ? o->layers : o->shape->layers / o->scale;
}

int cs_vlm_vocab(const struct cs_vlm_options *o)
{
    return o->vocab > 0 ? o->vocab : 128256 / o->scale / o->scale;
}

/* ---- the job ---- */

json_t *cs_vlm_vision_config(int scale, int layers, int image)
{
    return json_pack("{s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:s, s:f}", "model_type",
                     "siglip_vision_model", "hidden_size", 1152 / scale, "intermediate_size",
                     scale == 1 ? 4304 : 4096 / scale, "num_hidden_layers", layers,
                     "num_attention_heads", 16, "num_channels", 3, "image_size", image,
                     "patch_size", 14, "hidden_act", "gelu_pytorch_tanh", "layer_norm_eps", 1e-6);
}

/* The ffn of every layer becomes a mixture of experts. */
static json_t *with_experts(const struct cs_vlm_llm *shape, int scale, json_t *config)
{
    const int width = shape->ffn / scale, experts = shape->experts / scale;
    json_object_update_new(
        config, json_pack("{s:s, s:i, s:i, s:i, s:b, s:[], s:i, s:b, s:f}", "model_type",
                          "qwen3_moe", "moe_intermediate_size", width, "num_experts", experts,
                          "num_experts_per_tok", shape->top_k < experts ? shape->top_k : experts,
                          "norm_topk_prob", true, "mlp_only_layers", "decoder_sparse_step", 1,
                          "output_router_logits", true, "router_aux_loss_coef", 1e-3));
    return config;
}

json_t *cs_vlm_llm_config(const struct cs_vlm_llm *shape, int scale, int layers, int vocab)
{
    json_t *config =
        json_pack("{s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:s, s:f, s:b, s:{s:s, s:f}}",
                  "model_type", "llama", "hidden_size", shape->hidden / scale, "intermediate_size",
                  shape->ffn / scale, "num_hidden_layers", layers, "num_attention_heads",
                  shape->heads / scale, "num_key_value_heads", shape->kv_heads / scale, "head_dim",
                  shape->head_dim, "vocab_size", vocab, "max_position_embeddings", 131072,
                  "hidden_act", "silu", "rms_norm_eps", 1e-5, "tie_word_embeddings", shape->is_tied,
                  "rope_parameters", "rope_type", "default", "rope_theta", 500000.0);
    return shape->experts > 0 ? with_experts(shape, scale, config) : config;
}

/* The modules of a directory with nothing but a config.json; items are pictures of one size. */
static json_t *modules_of(const struct cs_vlm_options *o)
{
    struct cs_err err = {0};
    json_t *list = NULL, *module;
    size_t i;
    cs_vlm_must(cs_hfdir_modules(o->model, &list, &err), &err);
    json_array_foreach(list, i, module)
    {
        json_object_set_new(module, "init", json_string("random"));
        if (strcmp(json_string_value(json_object_get(module, "kind")), "encoder") == 0)
            json_object_set_new(module, "items",
                                json_pack("{s:i, s:i, s:i}", "rows", o->image_rows, "patches",
                                          o->side * o->side, "bytes", o->picture * o->picture * 3));
    }
    return list;
}

static json_t *modules(const struct cs_vlm_options *o)
{
    const int scale = o->scale;
    if (o->model[0] != '\0')
        return modules_of(o);
    json_t *llm = json_pack("{s:s, s:s, s:s, s:s, s:o}", "name", "llm", "kind", "llm", "dir", "",
                            "init", "random", "config",
                            cs_vlm_llm_config(o->shape, scale, cs_vlm_layers(o), cs_vlm_vocab(o)));
    if (o->images == 0)
        return json_pack("[o]", llm);
    return json_pack("[{s:s, s:s, s:s, s:s, s:s, s:o}, {s:s, s:s, s:s, s:i}, o]", "name",
                     "vision.encoder", "kind", "encoder", "dir", "", "init", "random", "token",
                     "<image>", "config", cs_vlm_vision_config(scale, 27 / scale, 384), "name",
                     "vision.projector", "kind", "projector", "family", "mlp", "layers", 2, llm);
}

json_t *cs_vlm_rules(const struct cs_vlm_setting *s)
{
    json_t *list = json_array();

    const struct {
        bool is_frozen;
        const char *glob;
    } rule[] = {
        {s->is_encoder_frozen,   "vision.encoder"  },
        {s->is_projector_frozen, "vision.projector"},
        {s->is_llm_frozen,       "llm"             },
    };

    for (size_t i = 0; i < CS_ARRAY_LEN(rule); i++)
        json_array_append_new(list,
                              json_pack("{s:s, s:s}", "op", rule[i].is_frozen ? "freeze" : "train",
                                        "glob", rule[i].glob));
    return list;
}

json_t *cs_vlm_document(const struct cs_vlm_options *o, const struct cs_vlm_setting *s,
                        json_t *profile)
{
    json_t *plan = json_pack(
        "{s:{s:i, s:i, s:s}, s:s, s:s, s:s, s:{s:{s:i, s:i, s:i, s:b, s:s}}, s:i, s:i, s:i}",
        "cluster", "nodes", 1, "devices_per_node", CS_VLM_MAX_RANKS, "device", o->class, "modality",
        o->vision > 0 ? o->modality : "encoder-colocated", "schedule", o->schedule, "stages",
        o->stages, "parallel", "llm", "pp", o->llm, "cp", o->cp, "tp", o->tp, "sp", o->sp,
        "recompute", o->recompute, "seq_tokens", o->seq, "slots", o->slots, "dp", o->dp);
    if (o->images > 0) /* on the ranks of the LLM it is shared as that is */
        json_object_update_new(
            plan, json_pack("{s:{s:{s:i, s:i, s:s}, s:O}, s:{s:i}}", "parallel", "vision", "pp",
                            o->vision > 0 ? o->vision : 1, "tp", o->vision > 0 ? 1 : o->tp,
                            "recompute", o->recompute, "llm",
                            json_object_get(json_object_get(plan, "parallel"), "llm"),
                            "encoder_rows", "vision", o->image_rows * o->images));
    json_t *row;
    const char *branch;
    json_object_foreach(json_object_get(plan, "parallel"), branch, row)
    {
        const bool is_llm = strcmp(branch, "llm") == 0;
        json_object_set_new(row, "zero", json_integer(o->zero));
        if (is_llm)
            json_object_set_new(row, "ep", json_integer(o->ep));
        json_object_set_new(row, "offload", json_string(is_llm ? o->offload : "none"));
    }
    json_t *root = json_pack(
        "{s:s, s:s, s:i, s:i, s:i, s:{s:o, s:o}, s:o, s:{s:s, s:s, s:s}, s:{s:s, s:f, s:s}}",
        "schema", "cornstarch.job/1", "name", "bench", "seed", 1, "steps", 100, "batch_samples",
        o->slots, "model", "modules", modules(o), "rules", cs_vlm_rules(s), "plan", plan, "data",
        "format", "llava", "json", "/nowhere.json", "images", "/nowhere", "optimizer", "kind",
        "adamw", "lr", 1e-5, "state", o->state);
    if (root == NULL)
        refuse("the document cannot be made", "");
    if (o->images == 0)
        json_object_set_new(json_object_get(root, "model"), "rules",
                            json_pack("[{s:s, s:s}]", "op", "train", "glob", "llm"));
    if (strcmp(o->class, "cpu") != 0)
        json_object_set_new(root, "precision", json_string(o->precision));
    if (profile != NULL)
        json_object_set(plan, "profile", profile);
    return root;
}

void cs_vlm_job_open(struct cs_vlm_job *job, const struct cs_vlm_options *o,
                     const struct cs_vlm_setting *s, json_t *profile)
{
    struct cs_vlm_job *j = job;
    struct cs_err err = {0};
    *j = (struct cs_vlm_job){.arena = cs_arena_new(0), .root = cs_vlm_document(o, s, profile)};
    cs_vlm_must(cs_spec_read(j->root, j->arena, &j->spec, &err), &err);
    cs_vlm_must(cs_graph_build(j->spec, false, j->arena, &j->graph, &err), &err);
    cs_vlm_must(cs_cluster_read(j->spec->cluster, 0, &j->cluster, &err), &err);
    cs_vlm_must(cs_plan_make(j->spec, j->graph, &j->cluster, j->arena, &j->plan, &err), &err);
}

void cs_vlm_job_close(struct cs_vlm_job *job)
{
    json_decref(job->root);
    cs_arena_free(job->arena);
}

/* ---- a rank ---- */

void cs_vlm_fill_weights(struct cs_params *params)
{
    struct cs_err err = {0};
    float *block = malloc(BLOCK * sizeof *block), *values = NULL;
    int64_t room = 0;
    cs_philox_fill_normal(1, 2, 0, BLOCK, 0.02, block);
    for (int32_t i = 0; i < params->n; i++) {
        struct cs_shard *t = &params->shard[i];
        const int64_t n = t->param->count;
        if (n > room) {
            free(values);
            values = malloc((size_t)n * sizeof *values);
            room = n;
        }
        for (int64_t k = 0; k < n; k += BLOCK)
            memcpy(values + k, block, (size_t)(n - k < BLOCK ? n - k : BLOCK) * sizeof *values);
        for (int64_t k = 0; k < n && t->param->init != CS_INIT_NORMAL; k++)
            values[k] = t->param->init == CS_INIT_ONE ? 1.0f : 0.0f;
        cs_vlm_must(cs_params_set(params, t, values, &err), &err);
    }
    free(values);
    free(block);
}

void cs_vlm_fill_slot(const struct cs_vlm_options *o, const struct cs_vlm_job *job, int n_labels,
                      struct cs_slot *slot, struct cs_manifest *manifest, int index)
{
    uint64_t state = (uint64_t)index + 1;
    const int part = o->images > 0 ? o->seq / o->images : o->seq;
    const uint64_t vocab = (uint64_t)job->graph->modules[job->graph->n_modules - 1].arch.vocab;
    const struct cs_slot_budget *budget = &job->plan->budget;
    struct cs_item_shape picture =
        o->images > 0 ? cs_slot_largest_item(budget, 0) : (struct cs_item_shape){0};
    if (o->model[0] != '\0')
        picture.grid[1] = picture.grid[2] = o->side;
    int filled = 0;
    for (int row = 0; row < o->seq; row++) {
        const int at = row % part - 64;
        const bool is_image = row / part < o->images && at >= 0 && at < o->image_rows;
        const bool is_label = !is_image && row + 1 < o->seq && slot->head->n_labels < n_labels;
        state = state * UINT64_C(6364136223846793005) + 1442695040888963407u;
        slot->ids[row] = (int32_t)((state >> 33) % vocab);
        slot->doc[row] = 0;
        slot->pos[row] = row;
        slot->labels[row] = is_label ? (int32_t)((state >> 35) % vocab) : -1;
        slot->head->n_labels += is_label;
        if (is_image)
            slot->rows[0][filled++] = row;
    }
    for (int i = 0; i < o->images; i++)
        CS_ASSERT(cs_slot_add_item(slot, budget, 0, &picture, NULL) != NULL);
    for (int64_t i = 0; o->images > 0 && i < slot->head->n_bytes[0]; i++) {
        state = state * UINT64_C(6364136223846793005) + 1442695040888963407u;
        slot->data[0][i] = (uint8_t)(state >> 56);
    }
    slot->head->n_samples = 1;
    slot->head->n_tokens = o->seq;
    slot->sample_rows[1] = o->seq;
    cs_manifest_note(manifest, index, slot);
    manifest->trained_tokens += slot->head->n_labels;
}

static void open_device(struct cs_vlm_worker *w, const struct cs_vlm_options *o,
                        const struct cs_plan *plan, int rank, const int *fds)
{
    struct cs_err err = {0};
    char name[32];
    snprintf(name, sizeof name, "%s:%d", o->device, rank);
    cs_vlm_must(cs_device_open(name, o->precision, &w->device, &err), &err);
    if (o->tune < 0 && setenv("CORNSTARCH_GEMM_PLANS", "measured", 1) == 0)
        cs_device_tune(&w->device, NULL);
    if (o->tune > 0 && w->device.mem != NULL)
        cs_vlm_must(w->device.mem->tune(w->device.handle, o->tune, NULL, &err), &err);
    if (cs_plan_world(plan) > 1)
        cs_vlm_must(cs_comm_socket_new(rank, cs_plan_world(plan), fds, &w->comm, &err), &err);
    if (plan->n_ranks > 1 && w->device.mem != NULL)
        cs_vlm_must(cs_channels_new(&w->device, plan, rank, w->comm, 60000, &w->channels, &err),
                    &err);
    cs_vlm_must(
        cs_context_comm_new(&w->device, plan, CS_GROUP_CP, rank, w->comm, 60000, &w->context, &err),
        &err);
    cs_vlm_must(
        cs_context_comm_new(&w->device, plan, CS_GROUP_TP, rank, w->comm, 60000, &w->sharers, &err),
        &err);
    cs_vlm_must(
        cs_context_comm_new(&w->device, plan, CS_GROUP_EP, rank, w->comm, 60000, &w->experts, &err),
        &err);
    cs_vlm_must(cs_replicas_new(&w->device, plan, rank, w->comm, 60000, &w->replicas, &err), &err);
}

static void fill_slots(struct cs_vlm_worker *w, const struct cs_vlm_options *o,
                       const struct cs_vlm_job *job, int n_labels)
{
    struct cs_slot_layout layout;
    cs_slot_layout_make(&job->plan->budget, &layout);
    char *pool = w->pool = calloc((size_t)o->slots, layout.bytes);
    w->manifest =
        (struct cs_manifest){.n_slots = o->slots, .n_samples = o->slots, .slot = w->counts};
    for (int s = 0; s < o->slots; s++) {
        cs_slot_view(&layout, &job->plan->budget, pool + (size_t)s * layout.bytes, &w->slot[s]);
        cs_vlm_fill_slot(o, job, n_labels, &w->slot[s], &w->manifest, s);
    }
}

void cs_vlm_worker_open(struct cs_vlm_worker *w, const struct cs_vlm_options *o,
                        const struct cs_vlm_job *job, int n_labels, int rank, const int *fds)
{
    struct cs_err err = {0};
    const struct cs_program *program;
    memset(w, 0, sizeof *w);
    w->ring_memory = malloc(cs_ring_bytes(CS_VLM_EVENTS));
    cs_ring_init(w->ring_memory, CS_VLM_EVENTS, rank);
    cs_vlm_must(cs_ring_attach(w->ring_memory, cs_ring_bytes(CS_VLM_EVENTS), &w->ring, &err), &err);
    open_device(w, o, job->plan, rank, fds);
    const struct cs_trainer_config config = {.spec = job->spec,
                                             .graph = job->graph,
                                             .plan = job->plan,
                                             .device = &w->device,
                                             .comm = w->comm,
                                             .channels = w->channels,
                                             .context = w->context,
                                             .sharers = w->sharers,
                                             .experts = w->experts,
                                             .replicas = w->replicas,
                                             .ring = &w->ring,
                                             .rank = rank,
                                             .deadline_ms = 30000};
    cs_vlm_must(cs_trainer_new(&config, &w->trainer, &err), &err);
    cs_vlm_fill_weights(w->trainer->params);
    fill_slots(w, o, job, n_labels);
    cs_vlm_must(cs_trainer_program(w->trainer, cs_plan_own_slots(job->plan, o->slots), false,
                                   &program, &err),
                &err);
    w->program = &program->rank[rank % program->n_ranks];
}

int64_t cs_vlm_worker_step(struct cs_vlm_worker *w, int step, struct cs_step_result *result)
{
    struct cs_err err = {0};
    w->manifest.step = step;
    const int64_t start_ns = cs_now_ns();
    cs_vlm_must(cs_trainer_step(w->trainer, &w->manifest, w->slot, NULL, result, &err), &err);
    return cs_now_ns() - start_ns;
}

uint32_t cs_vlm_worker_events(struct cs_vlm_worker *w, const struct cs_event **out)
{
    static struct cs_event events[CS_VLM_EVENTS];
    *out = events;
    return cs_ring_get(&w->ring, events, CS_VLM_EVENTS);
}

void cs_vlm_worker_close(struct cs_vlm_worker *w)
{
    cs_replicas_free(w->replicas); /* before the parameters they are bound to */
    cs_trainer_free(w->trainer);
    cs_context_comm_free(w->experts);
    cs_context_comm_free(w->sharers);
    cs_context_comm_free(w->context);
    cs_channels_free(w->channels);
    if (w->comm != NULL)
        w->comm->table->free(w->comm);
    cs_device_close(&w->device);
    free(w->pool);
    free(w->ring_memory);
}

/* ---- processes ---- */

static void connect_all(int n, int fds[CS_VLM_MAX_RANKS][CS_VLM_MAX_RANKS])
{
    for (int a = 0; a < n; a++) {
        fds[a][a] = -1;
        for (int b = 0; b < a; b++) {
            int pair[2];
            if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0)
                refuse("ranks cannot be connected", "");
            fds[a][b] = pair[0];
            fds[b][a] = pair[1];
        }
    }
}

/* all descriptors but those of one rank; -1: all */
static void close_others(int n, int fds[CS_VLM_MAX_RANKS][CS_VLM_MAX_RANKS], int rank)
{
    for (int a = 0; a < n; a++)
        for (int b = 0; a != rank && b < n; b++)
            if (a != b)
                close(fds[a][b]);
}

bool cs_vlm_run_ranks(int n, cs_vlm_rank *run, void *user)
{
    int fds[CS_VLM_MAX_RANKS][CS_VLM_MAX_RANKS];
    pid_t pid[CS_VLM_MAX_RANKS];
    bool is_good = true;
    connect_all(n, fds);
    fflush(NULL);
    for (int a = 0; a < n; a++) {
        pid[a] = fork();
        if (pid[a] != 0)
            continue;
        close_others(n, fds, a);
        run(user, a, fds[a]);
        _exit(0);
    }
    close_others(n, fds, -1);
    for (int left = n; left > 0; left--) {
        int status = 1;
        const pid_t ended = wait(&status);
        for (int a = 0; is_good && status != 0 && a < n; a++) /* the others would wait for it */
            if (pid[a] != ended)
                kill(pid[a], SIGKILL);
        is_good = is_good && status == 0;
    }
    return is_good;
}

int cs_vlm_by_value(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

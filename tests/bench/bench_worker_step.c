/* One training step of SigLIP-so400m + MLP + Llama-3.2-1B shapes with random weights, on one rank
 * or as a pipeline of several processes: the peer of vlm_step.py and pipeline.py.
 *
 *   bench_worker_step [device=cuda] [precision=bf16] [vision=0] [llm=1] [slots=1] [seq=4096]
 *                     [images=4] [steps=8] [case=-1] [schedule=1f1b] [dp=1]
 *                     [modality=encoder-parallel] [recompute=none]
 *
 * vision and llm: pipeline stages; vision=0: everything on one rank. dp: replicas; slots, of a
 * step, are dealt out to them. Prints for every frozen setting the median of forward and backward,
 * the optimizer's share, LLM tokens/s of forward and backward, and the share of 989 TFLOP/s per
 * rank counted as the peers count: all rows through the head, only what the frozen setting needs.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/clock.h"
#include "core/base/philox.h"
#include "worker/trainer.h"

enum { MAX_RANKS = 8, RING = 1 << 14, IMAGE_ROWS = 729, WARM_UP = 3, BLOCK = 1 << 20 };

struct options {
    char device[16], precision[8], schedule[16], modality[24], recompute[12];
    int vision, llm, slots, seq, images, steps, only, dp;
};

struct setting {
    const char *name;
    bool is_encoder_frozen, is_projector_frozen, is_llm_frozen;
};

static const struct setting settings[] = {
    {"all train",      false, false, false},
    {"encoder frozen", true,  false, false},
    {"projector only", true,  false, true },
    {"llm frozen",     false, false, true },
};

/* What a rank tells the parent, in shared memory. */
struct report {
    int64_t begin_ns[64], end_ns[64], step_ns[64], busy_ns[64]; /* by step */
    int64_t op_ns[CS_OP_COUNT];                                 /* of the last step */
    size_t allocated;
    double loss;
    char error[512];
};

static void must(enum cs_status status, const struct cs_err *err)
{
    if (status == CS_OK)
        return;
    fprintf(stderr, "bench_worker_step: %s\n", err->text);
    exit(1);
}

/* FLOPs of forward and backward of one slot: 2 a weight and token forward, 2 for an input gradient,
 * 2 for a weight gradient, attention backward 2.5 times forward. */
static double flops(const struct options *o, const struct setting *s)
{
    const double rows = (double)IMAGE_ROWS * o->images, seq = o->seq;
    const double pv = 27.0 * (4 * 1152.0 * 1152 + 2 * 1152.0 * 4304);
    const double pp = 1152.0 * 2048 + 2048.0 * 2048, ph = 2048.0 * 128256;
    const double pl = 16.0 * (2048.0 * 5120 + 3 * 2048.0 * 8192);
    const double av = 27.0 * 4 * IMAGE_ROWS * IMAGE_ROWS * 1152.0 * o->images;
    const double al = 16.0 * 4 * (seq * seq / 2) * 2048;
    const bool needs_llm = !(s->is_encoder_frozen && s->is_projector_frozen);
    double f = 2 * pv * rows + av + 2 * pp * rows + 2 * (pl + ph) * seq + al;
    if (!s->is_llm_frozen)
        f += 2 * (pl + ph) * seq;
    if (needs_llm || !s->is_llm_frozen)
        f += 2 * (pl + ph) * seq + 2.5 * al;
    if (!s->is_projector_frozen)
        f += 2 * pp * rows;
    if (!s->is_encoder_frozen)
        f += 2 * pp * rows + 4 * pv * rows + 2.5 * av;
    return f;
}

static json_t *modules(void)
{
    return json_pack(
        "[{s:s, s:s, s:s, s:s, s:s, s:{s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:s, s:f}},"
        " {s:s, s:s, s:s, s:i},"
        " {s:s, s:s, s:s, s:s, s:{s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:s, s:f, s:b, "
        "s:{s:s, s:f}}}]",
        "name", "vision.encoder", "kind", "encoder", "dir", "", "init", "random", "token",
        "<image>", "config", "model_type", "siglip_vision_model", "hidden_size", 1152,
        "intermediate_size", 4304, "num_hidden_layers", 27, "num_attention_heads", 16,
        "num_channels", 3, "image_size", 384, "patch_size", 14, "hidden_act", "gelu_pytorch_tanh",
        "layer_norm_eps", 1e-6, "name", "vision.projector", "kind", "projector", "family", "mlp",
        "layers", 2, "name", "llm", "kind", "llm", "dir", "", "init", "random", "config",
        "model_type", "llama", "hidden_size", 2048, "intermediate_size", 8192, "num_hidden_layers",
        16, "num_attention_heads", 32, "num_key_value_heads", 8, "head_dim", 64, "vocab_size",
        128256, "max_position_embeddings", 131072, "hidden_act", "silu", "rms_norm_eps", 1e-5,
        "tie_word_embeddings", 1, "rope_parameters", "rope_type", "default", "rope_theta",
        500000.0);
}

static json_t *rules(const struct setting *s)
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

static json_t *document(const struct options *o, const struct setting *s)
{
    json_t *root = json_pack(
        "{s:s, s:s, s:i, s:i, s:i, s:{s:o, s:o}, s:{s:{s:i, s:i, s:s}, s:s, s:s, "
        "s:{s:{s:i, s:s}, s:{s:i, s:s}}, s:i, s:i, s:i}, s:{s:s, s:s, s:s}, s:{s:s, s:f}}",
        "schema", "cornstarch.job/1", "name", "bench", "seed", 1, "steps", 100, "batch_samples",
        o->slots, "model", "modules", modules(), "rules", rules(s), "plan", "cluster", "nodes", 1,
        "devices_per_node", MAX_RANKS, "device", "h100-80g", "modality", o->modality, "schedule",
        o->schedule, "parallel", "vision", "pp", o->vision > 0 ? o->vision : 1, "recompute",
        o->recompute, "llm", "pp", o->llm, "recompute", o->recompute, "seq_tokens", o->seq, "slots",
        o->slots, "dp", o->dp, "data", "format", "llava", "json", "/nowhere.json", "images",
        "/nowhere", "optimizer", "kind", "adamw", "lr", 1e-5);
    if (root == NULL) {
        fprintf(stderr, "bench_worker_step: the document cannot be made\n");
        exit(1);
    }
    return root;
}

struct job {
    struct cs_arena *arena;
    json_t *root;
    struct cs_spec *spec;
    struct cs_graph *graph;
    struct cs_plan *plan;
};

static void open_job(struct job *j, const struct options *o, const struct setting *s)
{
    struct cs_err err = {0};
    struct cs_cluster cluster;
    j->arena = cs_arena_new(0);
    j->root = document(o, s);
    must(cs_spec_read(j->root, j->arena, &j->spec, &err), &err);
    must(cs_graph_build(j->spec, false, j->arena, &j->graph, &err), &err);
    must(cs_cluster_read(j->spec->cluster, 0, &cluster, &err), &err);
    must(cs_plan_make(j->spec, j->graph, &cluster, j->arena, &j->plan, &err), &err);
    if (o->vision > 0)
        return;
    for (int i = 0; i < j->plan->n_stages; i++)
        j->plan->stages[i].rank = 0;
    j->plan->n_ranks = 1;
    j->plan->is_tied_across = false;
}

/* A block of random normals, repeated: generating a billion of them would take longer than all. */
static void fill_weights(struct cs_params *p)
{
    struct cs_err err = {0};
    float *block = malloc(BLOCK * sizeof *block), *values = NULL;
    int64_t room = 0;
    cs_philox_fill_normal(1, 2, 0, BLOCK, 0.02, block);
    for (int32_t i = 0; i < p->n; i++) {
        struct cs_tensor *t = &p->tensor[i];
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
        must(cs_params_set(p, t, values, &err), &err);
    }
    free(values);
    free(block);
}

/* Every slot is one sample: pictures in equal parts of the sequence, the rest is text with labels.
 */
static void fill_slot(const struct options *o, const struct cs_slot_budget *budget,
                      struct cs_slot *s, struct cs_manifest *m, int slot)
{
    uint64_t state = (uint64_t)slot + 1;
    const int part = o->images > 0 ? o->seq / o->images : o->seq;
    int filled = 0;
    for (int row = 0; row < o->seq; row++) {
        const int at = row % part - 64;
        const bool is_image = o->images > 0 && row / part < o->images && at >= 0 && at < IMAGE_ROWS;
        state = state * UINT64_C(6364136223846793005) + 1442695040888963407u;
        s->ids[row] = (int32_t)((state >> 33) % 128000);
        s->doc[row] = 0;
        s->pos[row] = row;
        s->labels[row] = is_image || row + 1 == o->seq ? -1 : (int32_t)((state >> 35) % 128000);
        s->head->n_labels += s->labels[row] >= 0;
        if (is_image)
            s->rows[0][filled++] = row;
    }
    for (size_t i = 0; i < (size_t)budget->enc[0].item_bytes * (size_t)o->images; i++) {
        state = state * UINT64_C(6364136223846793005) + 1442695040888963407u;
        s->pixels[0][i] = (uint8_t)(state >> 56);
    }
    s->head->n_samples = 1;
    s->head->n_tokens = o->seq;
    s->head->n_items[0] = o->images;
    s->sample_rows[1] = o->seq;
    m->n_tokens[slot] = o->seq;
    m->n_labels[slot] = s->head->n_labels;
    m->n_items[slot][0] = o->images;
    m->trained_tokens += s->head->n_labels;
}

/* From the first forward to the last backward, and how long this rank's compute stream worked. */
static void read_events(struct cs_ring *ring, const struct cs_rank_program *p, struct report *r,
                        int step)
{
    static struct cs_event events[RING];
    const uint32_t n = cs_ring_get(ring, events, RING);
    r->begin_ns[step] = INT64_MAX;
    r->end_ns[step] = r->busy_ns[step] = 0;
    memset(r->op_ns, 0, sizeof r->op_ns);
    for (uint32_t i = 0; i < n; i++) {
        const struct cs_event *e = &events[i];
        if (e->kind != CS_EVENT_ACTION)
            continue;
        const enum cs_op op = (enum cs_op)p->actions[e->action].op;
        r->op_ns[op] += (int64_t)(e->end_ns - e->start_ns);
        if (op != CS_OP_FWD && op != CS_OP_BWD && op != CS_OP_BWD_INPUT && op != CS_OP_BWD_WEIGHT)
            continue;
        const int64_t begin = (int64_t)e->start_ns, end = (int64_t)e->end_ns;
        r->begin_ns[step] = begin < r->begin_ns[step] ? begin : r->begin_ns[step];
        r->end_ns[step] = end > r->end_ns[step] ? end : r->end_ns[step];
        r->busy_ns[step] += end - begin;
    }
}

static void run_rank(const struct options *o, const struct job *j, int rank, const int *fds,
                     struct report *r)
{
    struct cs_err err = {0};
    struct cs_device device;
    struct cs_comm *comm = NULL;
    struct cs_lanes *lanes = NULL;
    struct cs_replicas *replicas = NULL;
    struct cs_trainer *t;
    struct cs_ring ring;
    char name[32];
    void *memory = malloc(cs_ring_bytes(RING));
    cs_ring_init(memory, RING, rank);
    must(cs_ring_attach(memory, cs_ring_bytes(RING), &ring, &err), &err);
    snprintf(name, sizeof name, "%s:%d", o->device, rank);
    must(cs_device_open(name, o->precision, &device, &err), &err);
    if (cs_plan_world(j->plan) > 1)
        must(cs_comm_socket_new(rank, cs_plan_world(j->plan), fds, &comm, &err), &err);
    if (j->plan->n_ranks > 1 && device.mem != NULL)
        must(cs_lanes_new(&device, j->plan, rank, comm, 60000, &lanes, &err), &err);
    must(cs_replicas_new(&device, j->plan, rank, comm, 60000, &replicas, &err), &err);
    const struct cs_trainer_config config = {.spec = j->spec,
                                             .graph = j->graph,
                                             .plan = j->plan,
                                             .device = &device,
                                             .comm = comm,
                                             .lanes = lanes,
                                             .replicas = replicas,
                                             .ring = &ring,
                                             .rank = rank,
                                             .deadline_ms = 30000};
    must(cs_trainer_new(&config, &t, &err), &err);
    fill_weights(t->params);

    struct cs_slot_layout layout;
    struct cs_slot slot[CS_STEP_MAX_SLOTS];
    struct cs_manifest manifest = {.n_slots = o->slots, .n_samples = o->slots};
    cs_slot_layout_make(&j->plan->budget, &layout);
    char *pool = calloc((size_t)o->slots, layout.bytes);
    for (int s = 0; s < o->slots; s++) {
        cs_slot_view(&layout, &j->plan->budget, pool + (size_t)s * layout.bytes, &slot[s]);
        fill_slot(o, &j->plan->budget, &slot[s], &manifest, s);
    }
    const struct cs_program *program;
    must(cs_trainer_program(t, cs_plan_own_slots(j->plan, o->slots), false, &program, &err), &err);
    for (int i = 0; i < o->steps; i++) {
        struct cs_step_result result;
        manifest.step = i;
        const int64_t start = cs_now_ns();
        must(cs_trainer_step(t, &manifest, slot, NULL, &result, &err), &err);
        r->step_ns[i] = cs_now_ns() - start;
        read_events(&ring, &program->rank[rank % program->n_ranks], r, i);
        if (result.has_loss)
            r->loss = result.loss_sum / (double)manifest.trained_tokens;
    }
    r->allocated = device.allocated;
    free(pool);
    cs_trainer_free(t);
    cs_lanes_free(lanes);
    cs_replicas_free(replicas);
    if (comm != NULL)
        comm->table->free(comm);
    cs_device_close(&device);
    free(memory);
}

static int by_value(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void print(const struct options *o, const struct job *j, const struct setting *s,
                  const struct report *r)
{
    int64_t span[64], whole[64];
    double busy = 0.0, loss = 0.0;
    size_t most = 0;
    const int n = o->steps - WARM_UP, ranks = cs_plan_world(j->plan);
    for (int i = 0; i < n; i++) {
        int64_t begin = INT64_MAX, end = 0;
        for (int k = 0; k < ranks; k++) {
            const struct report *one = &r[k];
            begin = one->begin_ns[i + WARM_UP] < begin ? one->begin_ns[i + WARM_UP] : begin;
            end = one->end_ns[i + WARM_UP] > end ? one->end_ns[i + WARM_UP] : end;
            busy += (double)one->busy_ns[i + WARM_UP] / n / ranks;
            most = one->allocated > most ? one->allocated : most;
            loss += i == 0 ? one->loss : 0.0; /* the heads' parts */
        }
        span[i] = end - begin;
        whole[i] = r[0].step_ns[i + WARM_UP];
    }
    qsort(span, (size_t)n, sizeof *span, by_value);
    qsort(whole, (size_t)n, sizeof *whole, by_value);
    const double t = (double)span[n / 2] / 1e9, all = (double)whole[n / 2] / 1e9;
    printf(
        "%-16s fwd+bwd %8.2f ms  step %8.2f ms  %8.0f tok/s (%.0f with optimizer)  MFU %.3f  busy "
        "%.3f  mem %.1f GiB  loss %.6f  layers",
        s->name, t * 1e3, all * 1e3, o->seq * o->slots / t, o->seq * o->slots / all,
        flops(o, s) * o->slots / t / ranks / 989e12, busy / 1e9 / t, (double)most / 1073741824.0,
        loss);
    for (int32_t i = 0; i < j->plan->n_stages; i++)
        printf(" %d", j->plan->stages[i].n_layers);
    printf("\n                 last step of rank 0, ms:");
    for (int op = 0; op < CS_OP_COUNT; op++)
        if (r[0].op_ns[op] > 0)
            printf(" %s %.2f", cs_op_letter((enum cs_op)op), (double)r[0].op_ns[op] / 1e6);
    printf("\n");
    fflush(stdout);
}

static void run_setting(const struct options *o, const struct setting *s)
{
    struct job j;
    int fds[MAX_RANKS][MAX_RANKS];
    open_job(&j, o, s);
    const int n = cs_plan_world(j.plan);
    struct report *r = mmap(NULL, sizeof *r * MAX_RANKS, PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    for (int a = 0; a < n; a++)
        for (int b = 0; b < a; b++) {
            int pair[2];
            if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0)
                exit(1);
            fds[a][b] = pair[0];
            fds[b][a] = pair[1];
        }
    pid_t pid[MAX_RANKS];
    for (int a = 0; a < n; a++) {
        fds[a][a] = -1;
        pid[a] = fork();
        if (pid[a] != 0)
            continue;
        for (int b = 0; b < n; b++)
            for (int c = 0; b != a && c < n; c++)
                if (c != b)
                    close(fds[b][c]);
        run_rank(o, &j, a, fds[a], &r[a]);
        _exit(0);
    }
    for (int a = 0; a < n; a++)
        for (int b = 0; b < n; b++)
            if (a != b)
                close(fds[a][b]);
    bool is_bad = false;
    for (int a = 0; a < n; a++) {
        int status;
        waitpid(pid[a], &status, 0);
        is_bad |= status != 0;
    }
    if (is_bad)
        printf("%-16s failed\n", s->name);
    else
        print(o, &j, s, r);
    munmap(r, sizeof *r * MAX_RANKS);
    json_decref(j.root);
    cs_arena_free(j.arena);
}

static void read_option(struct options *o, const char *arg)
{
    const struct {
        const char *name;
        int *number;
        char *text;
        size_t cap;
    } table[] = {
        {"device",    NULL,       o->device,    sizeof o->device   },
        {"precision", NULL,       o->precision, sizeof o->precision},
        {"schedule",  NULL,       o->schedule,  sizeof o->schedule },
        {"modality",  NULL,       o->modality,  sizeof o->modality },
        {"recompute", NULL,       o->recompute, sizeof o->recompute},
        {"dp",        &o->dp,     NULL,         0                  },
        {"vision",    &o->vision, NULL,         0                  },
        {"llm",       &o->llm,    NULL,         0                  },
        {"slots",     &o->slots,  NULL,         0                  },
        {"seq",       &o->seq,    NULL,         0                  },
        {"images",    &o->images, NULL,         0                  },
        {"steps",     &o->steps,  NULL,         0                  },
        {"case",      &o->only,   NULL,         0                  },
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
    fprintf(stderr, "bench_worker_step: unknown option %s\n", arg);
    exit(1);
}

int main(int argc, char **argv)
{
    struct options o = {.device = "cuda",
                        .precision = "bf16",
                        .schedule = "1f1b",
                        .modality = "encoder-parallel",
                        .recompute = "none",
                        .dp = 1,
                        .llm = 1,
                        .slots = 1,
                        .seq = 4096,
                        .images = 4,
                        .steps = 8,
                        .only = -1};
    for (int i = 1; i < argc; i++)
        read_option(&o, argv[i]);
    if (o.steps <= WARM_UP || o.steps > 64 || o.slots > CS_STEP_MAX_SLOTS || o.slots < 1 ||
        o.llm < 1 || o.dp < 1 || (o.vision + o.llm) * o.dp > MAX_RANKS) {
        fprintf(stderr, "bench_worker_step: numbers out of range\n");
        return 1;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("%s %s vision=%d llm=%d dp=%d slots=%d seq=%d images=%d %s %s\n", o.device, o.precision,
           o.vision, o.llm, o.dp, o.slots, o.seq, o.images, o.modality, o.schedule);
    for (int i = 0; i < (int)CS_ARRAY_LEN(settings); i++)
        if (o.only < 0 || o.only == i)
            run_setting(&o, &settings[i]);
    return 0;
}

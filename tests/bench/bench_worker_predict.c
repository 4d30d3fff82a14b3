/* Predicted against measured: the layers of SigLIP-so400m + MLP + Llama-3.2-1B shapes are measured
 * alone (worker/measure.h), steps are planned and simulated from that profile, then run with the
 * same slots (random weights), on one rank or as a pipeline of several processes.
 *
 *   bench_worker_predict [device=cuda] [class=h100-80g] [precision=bf16] [vision=0] [llm=1]
 *                        [dp=1] [slots=1] [seq=4096] [images=4] [steps=10] [case=-1]
 *                        [schedule=1f1b] [modality=encoder-parallel] [profile=FILE] [save=FILE]
 *                        [scale=1]
 *
 * vision and llm: pipeline stages; vision=0: everything on one rank. dp: replicas. steps=0: what is
 * predicted, and nothing is run. profile: read
 * instead of measured; save: where it is written. scale: divides widths and layers, for a look on
 * CPU ranks. Half of the text rows have labels, as planners assume. Prints for every frozen setting
 * forward and backward together, the whole step, and every action: predicted, measured, difference.
 */
#include <errno.h>
#include <fcntl.h>
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
#include "core/plan/costs.h"
#include "core/sched/predict.h"
#include "worker/measure.h"
#include "worker/trainer.h"

enum {
    MAX_RANKS = 8,
    MAX_STAGES = 32,
    RING = 1 << 14,
    WARM_UP = 4,
    MAX_STEPS = 64,
    BLOCK = 1 << 20
};

struct options {
    char device[16], class[16], precision[8], schedule[16], modality[24], profile[256], save[256];
    int vision, llm, dp, slots, seq, images, steps, only, scale;
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

/* What a rank tells the parent, in shared memory: by step, and of the last step by action. */
struct report {
    int64_t begin_ns[MAX_STEPS], end_ns[MAX_STEPS], step_ns[MAX_STEPS];
    int64_t op_ns[MAX_STAGES + 1][CS_OP_COUNT]; /* sums over the steps that count */
    int32_t n_op[MAX_STAGES + 1][CS_OP_COUNT];
    int64_t least_ns[CS_OP_COUNT]; /* of messages: without waiting for the other side; 0: none */
};

static void must(enum cs_status status, const struct cs_err *err)
{
    if (status == CS_OK)
        return;
    fprintf(stderr, "bench_worker_predict: %s\n", err->text);
    exit(1);
}

/* ---- the job ---- */

static json_t *modules(int scale)
{
    json_t *vision = json_pack(
        "{s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:s, s:f}", "model_type", "siglip_vision_model",
        "hidden_size", 1152 / scale, "intermediate_size", scale == 1 ? 4304 : 4096 / scale,
        "num_hidden_layers", scale == 1 ? 27 : 27 / scale, "num_attention_heads", 16,
        "num_channels", 3, "image_size", 384, "patch_size", 14, "hidden_act", "gelu_pytorch_tanh",
        "layer_norm_eps", 1e-6);
    json_t *llm = json_pack("{s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:i, s:s, s:f, s:b, "
                            "s:{s:s, s:f}}",
                            "model_type", "llama", "hidden_size", 2048 / scale, "intermediate_size",
                            8192 / scale, "num_hidden_layers", 16 / scale, "num_attention_heads",
                            32 / scale, "num_key_value_heads", 8 / scale, "head_dim", 64,
                            "vocab_size", 128256 / scale / scale, "max_position_embeddings", 131072,
                            "hidden_act", "silu", "rms_norm_eps", 1e-5, "tie_word_embeddings", 1,
                            "rope_parameters", "rope_type", "default", "rope_theta", 500000.0);
    return json_pack("[{s:s, s:s, s:s, s:s, s:s, s:o}, {s:s, s:s, s:s, s:i}, "
                     "{s:s, s:s, s:s, s:s, s:o}]",
                     "name", "vision.encoder", "kind", "encoder", "dir", "", "init", "random",
                     "token", "<image>", "config", vision, "name", "vision.projector", "kind",
                     "projector", "family", "mlp", "layers", 2, "name", "llm", "kind", "llm", "dir",
                     "", "init", "random", "config", llm);
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

enum { IMAGE_ROWS = 729 };

static json_t *document(const struct options *o, const struct setting *s, json_t *profile)
{
    json_t *plan = json_pack(
        "{s:{s:i, s:i, s:s}, s:s, s:s, s:{s:{s:i}, s:{s:i}}, s:{s:i}, s:i, s:i, s:i}", "cluster",
        "nodes", 1, "devices_per_node", MAX_RANKS, "device", o->class, "modality",
        o->vision > 0 ? o->modality : "encoder-colocated", "schedule", o->schedule, "parallel",
        "vision", "pp", o->vision > 0 ? o->vision : 1, "llm", "pp", o->llm, "encoder_rows",
        "vision", IMAGE_ROWS * o->images, "seq_tokens", o->seq, "slots", o->slots, "dp", o->dp);
    json_t *root =
        json_pack("{s:s, s:s, s:i, s:i, s:i, s:{s:o, s:o}, s:o, s:{s:s, s:s, s:s}, s:{s:s, s:f}}",
                  "schema", "cornstarch.job/1", "name", "bench", "seed", 1, "steps", 100,
                  "batch_samples", o->slots, "model", "modules", modules(o->scale), "rules",
                  rules(s), "plan", plan, "data", "format", "llava", "json", "/nowhere.json",
                  "images", "/nowhere", "optimizer", "kind", "adamw", "lr", 1e-5);
    if (root == NULL) {
        fprintf(stderr, "bench_worker_predict: the document cannot be made\n");
        exit(1);
    }
    if (strcmp(o->class, "cpu") != 0)
        json_object_set_new(root, "precision", json_string(o->precision));
    if (profile != NULL)
        json_object_set(plan, "profile", profile);
    return root;
}

struct job {
    struct cs_arena *arena;
    json_t *root;
    struct cs_spec *spec;
    struct cs_graph *graph;
    struct cs_plan *plan;
    struct cs_cluster cluster;
    struct cs_device_class device;
    struct cs_program *program;
    struct cs_sim_result predicted;
    int n_labels;
};

static void open_job(struct job *j, const struct options *o, const struct setting *s,
                     json_t *profile)
{
    struct cs_err err = {0};
    *j = (struct job){.arena = cs_arena_new(0), .root = document(o, s, profile)};
    must(cs_spec_read(j->root, j->arena, &j->spec, &err), &err);
    must(cs_graph_build(j->spec, false, j->arena, &j->graph, &err), &err);
    must(cs_cluster_read(j->spec->cluster, 0, &j->cluster, &err), &err);
    must(cs_plan_make(j->spec, j->graph, &j->cluster, j->arena, &j->plan, &err), &err);
    j->device = *j->cluster.device;
    const struct cs_sim_options options = {.cost = cs_predict_cost, .user = &j->device};
    must(cs_program_make(j->plan, j->graph, cs_plan_own_slots(j->plan, o->slots), false, j->arena,
                         &j->program, &err),
         &err);
    must(cs_simulate(j->program, &options, j->arena, &j->predicted, &err), &err);
    const struct cs_layer *head = &j->graph->layers[j->graph->n_layers - 1];
    j->n_labels = (int)cs_layer_work(j->graph, head, &j->plan->budget).label_rows;
}

/* ---- the profile ---- */

static json_t *measure(const struct options *o)
{
    struct cs_err err = {0};
    struct cs_device device;
    struct cs_profile *profile;
    struct cs_arena *arena = cs_arena_new(0);
    char name[32];
    snprintf(name, sizeof name, "%s:0", o->device);
    must(cs_device_open(name, o->precision, &device, &err), &err);
    json_t *root = document(o, &settings[0], NULL);
    must(cs_measure(root, cs_device_class_find(o->class), &device, arena, &profile, &err), &err);
    json_t *json = cs_profile_json(profile);
    cs_device_close(&device);
    json_decref(root);
    cs_arena_free(arena);
    return json;
}

/* In a process of its own: the device is not inherited. */
static json_t *profile_of(const struct options *o)
{
    int ends[2];
    if (o->profile[0] != '\0')
        return json_load_file(o->profile, 0, NULL);
    if (pipe(ends) != 0)
        return NULL;
    const pid_t pid = fork();
    if (pid == 0) {
        close(ends[0]);
        json_t *json = measure(o);
        _exit(json_dumpfd(json, ends[1], JSON_COMPACT) == 0 ? 0 : 1);
    }
    close(ends[1]);
    json_t *json = json_loadfd(ends[0], 0, NULL);
    close(ends[0]);
    waitpid(pid, NULL, 0);
    if (json != NULL && o->save[0] != '\0' && json_dump_file(json, o->save, JSON_INDENT(1)) != 0)
        fprintf(stderr, "bench_worker_predict: %s could not be written\n", o->save);
    return json;
}

/* ---- a rank ---- */

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

/* Every slot is one sample: pictures in equal parts of the sequence, the rest is text, of which the
 * first rows have labels. */
static void fill_slot(const struct options *o, const struct job *j, struct cs_slot *s,
                      struct cs_manifest *m, int slot)
{
    uint64_t state = (uint64_t)slot + 1;
    const int part = o->images > 0 ? o->seq / o->images : o->seq;
    const int vocab = j->graph->modules[j->graph->n_modules - 1].arch.vocab;
    int filled = 0;
    for (int row = 0; row < o->seq; row++) {
        const int at = row % part - 64;
        const bool is_image = o->images > 0 && row / part < o->images && at >= 0 && at < IMAGE_ROWS;
        state = state * UINT64_C(6364136223846793005) + 1442695040888963407u;
        s->ids[row] = (int32_t)((state >> 33) % (uint64_t)vocab);
        s->doc[row] = 0;
        s->pos[row] = row;
        s->labels[row] = is_image || s->head->n_labels == j->n_labels
                             ? -1
                             : (int32_t)((state >> 35) % (uint64_t)vocab);
        s->head->n_labels += s->labels[row] >= 0;
        if (is_image)
            s->rows[0][filled++] = row;
    }
    for (size_t i = 0; i < (size_t)j->plan->budget.enc[0].item_bytes * (size_t)o->images; i++) {
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

static bool is_compute(enum cs_op op)
{
    return op == CS_OP_FWD || op == CS_OP_BWD || op == CS_OP_BWD_INPUT || op == CS_OP_BWD_WEIGHT;
}

/* From the first forward to the last backward, and what every kind of action took. */
static void add_event(struct report *r, int step, const struct cs_action *a, int64_t begin,
                      int64_t end)
{
    const int row = a->stage >= 0 ? a->stage : MAX_STAGES;
    if (step >= WARM_UP) {
        r->op_ns[row][a->op] += end - begin;
        r->n_op[row][a->op]++;
        if (r->least_ns[a->op] == 0 || end - begin < r->least_ns[a->op])
            r->least_ns[a->op] = end - begin;
    }
    if (!is_compute((enum cs_op)a->op))
        return;
    r->begin_ns[step] = begin < r->begin_ns[step] ? begin : r->begin_ns[step];
    r->end_ns[step] = end > r->end_ns[step] ? end : r->end_ns[step];
}

static void read_events(struct cs_ring *ring, const struct cs_rank_program *p, struct report *r,
                        int step)
{
    static struct cs_event events[RING];
    const uint32_t n = cs_ring_get(ring, events, RING);
    r->begin_ns[step] = INT64_MAX;
    r->end_ns[step] = 0;
    for (uint32_t i = 0; i < n; i++)
        if (events[i].kind == CS_EVENT_ACTION)
            add_event(r, step, &p->actions[events[i].action], (int64_t)events[i].start_ns,
                      (int64_t)events[i].end_ns);
}

static void run_steps(const struct options *o, const struct job *j, struct cs_trainer *t,
                      struct cs_ring *ring, int rank, struct report *r)
{
    struct cs_err err = {0};
    struct cs_slot_layout layout;
    struct cs_slot slot[CS_STEP_MAX_SLOTS];
    struct cs_manifest manifest = {.n_slots = o->slots, .n_samples = o->slots};
    const struct cs_program *program;
    cs_slot_layout_make(&j->plan->budget, &layout);
    char *pool = calloc((size_t)o->slots, layout.bytes);
    for (int s = 0; s < o->slots; s++) {
        cs_slot_view(&layout, &j->plan->budget, pool + (size_t)s * layout.bytes, &slot[s]);
        fill_slot(o, j, &slot[s], &manifest, s);
    }
    must(cs_trainer_program(t, cs_plan_own_slots(j->plan, o->slots), false, &program, &err), &err);
    for (int i = 0; i < o->steps; i++) {
        struct cs_step_result result;
        manifest.step = i;
        const int64_t start = cs_now_ns();
        must(cs_trainer_step(t, &manifest, slot, NULL, &result, &err), &err);
        r->step_ns[i] = cs_now_ns() - start;
        read_events(ring, &program->rank[rank % program->n_ranks], r, i);
    }
    free(pool);
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
    run_steps(o, j, t, &ring, rank, r);
    cs_trainer_free(t);
    cs_lanes_free(lanes);
    cs_replicas_free(replicas);
    if (comm != NULL)
        comm->table->free(comm);
    cs_device_close(&device);
    free(memory);
}

/* ---- both side by side ---- */

static int by_value(const void *a, const void *b)
{
    const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void print_pair(const char *what, double predicted_ns, double measured_ns)
{
    printf("  %-12s predicted %9.3f  measured %9.3f ms  %+6.2f %%\n", what, predicted_ns / 1e6,
           measured_ns / 1e6, measured_ns > 0 ? 100 * (predicted_ns / measured_ns - 1) : 0.0);
}

/* without what else a step costs a rank: that is no part of the measured action */
static int64_t update_ns(const struct cs_plan *plan, int rank)
{
    int64_t ns = 0;
    for (int32_t s = 0; s < plan->n_stages; s++)
        ns += plan->stages[s].rank == rank ? plan->stages[s].update_ns : 0;
    return ns;
}

static void print_actions(const struct job *j, const struct report *sum)
{
    char what[32];
    for (int s = 0; s <= MAX_STAGES; s++)
        for (int op = 0; op < CS_OP_COUNT; op++) {
            const struct cs_action a = {.op = (uint8_t)op,
                                        .stage = (int16_t)(s < MAX_STAGES ? s : -1)};
            if (sum->n_op[s][op] == 0 || (s == MAX_STAGES && op == CS_OP_MARK) ||
                op == CS_OP_SEND || op == CS_OP_RECV)
                continue;
            const int rank = s < MAX_STAGES ? j->plan->stages[s].rank : 0;
            struct cs_device_class device = j->device;
            snprintf(what, sizeof what, "%s %s", cs_op_letter((enum cs_op)op),
                     s < MAX_STAGES ? j->plan->stages[s].name : "(rank 0)");
            const int64_t ns = op == CS_OP_STEP ? update_ns(j->plan, rank)
                                                : cs_predict_cost(&device, j->program, rank, &a);
            print_pair(what, (double)ns, (double)sum->op_ns[s][op] / sum->n_op[s][op]);
        }
}

/* the shortest of a rank, which waited least for the other side */
static void print_messages(const struct job *j, const struct report *r)
{
    for (int k = 0; k < j->plan->n_ranks; k++)
        for (uint32_t i = 0; i < j->program->rank[k].n_actions; i++) {
            const struct cs_action *a = &j->program->rank[k].actions[i];
            struct cs_device_class device = j->device;
            if (a->op != CS_OP_SEND || r[k].least_ns[CS_OP_SEND] == 0)
                continue;
            print_pair("least send", (double)cs_predict_cost(&device, j->program, k, a),
                       (double)r[k].least_ns[CS_OP_SEND]);
            break;
        }
}

/* of the first replica, from the first forward to the last backward */
static int64_t predicted_span(const struct job *j)
{
    static struct report r;
    memset(&r, 0, sizeof r);
    r.begin_ns[0] = INT64_MAX;
    for (int k = 0; k < j->plan->n_ranks; k++)
        for (uint32_t i = 0; i < j->program->rank[k].n_actions; i++) {
            const struct cs_event *e = &j->predicted.events[k][i];
            add_event(&r, 0, &j->program->rank[k].actions[i], (int64_t)e->start_ns,
                      (int64_t)e->end_ns);
        }
    return r.end_ns[0] - r.begin_ns[0];
}

static void print_plan(const struct job *j, const struct setting *s)
{
    printf("%s, layers", s->name);
    for (int32_t i = 0; i < j->plan->n_stages; i++)
        printf(" %d", j->plan->stages[i].n_layers);
    printf("\n");
}

static void print_prediction(const struct job *j, const struct setting *s)
{
    print_plan(j, s);
    printf("  fwd+bwd %.3f ms, step %.3f ms; F and B of the stages:",
           (double)predicted_span(j) / 1e6, (double)j->predicted.makespan_ns / 1e6);
    for (int32_t i = 0; i < j->plan->n_stages; i++) {
        const struct cs_stage *st = &j->plan->stages[i];
        printf(" %.3f %.3f;", (double)st->fwd_ns / 1e6,
               (double)(st->bwd_input_ns + st->bwd_weight_ns) / 1e6);
    }
    printf("\n");
}

static void print(const struct options *o, const struct job *j, const struct setting *s,
                  const struct report *r)
{
    static struct report sum;
    int64_t span[MAX_STEPS], whole[MAX_STEPS];
    const int n = o->steps - WARM_UP, world = cs_plan_world(j->plan);
    const int ranks = j->plan->n_ranks; /* actions are those of the first replica */
    memset(&sum, 0, sizeof sum);
    for (int i = 0; i < n; i++) {
        int64_t begin = INT64_MAX, end = 0;
        for (int k = 0; k < world; k++) {
            begin = r[k].begin_ns[i + WARM_UP] < begin ? r[k].begin_ns[i + WARM_UP] : begin;
            end = r[k].end_ns[i + WARM_UP] > end ? r[k].end_ns[i + WARM_UP] : end;
        }
        span[i] = end - begin;
        whole[i] = r[0].step_ns[i + WARM_UP];
    }
    for (int k = 0; k < ranks; k++)
        for (int row = 0; row <= MAX_STAGES; row++)
            for (int op = 0; op < CS_OP_COUNT && (row < MAX_STAGES || k == 0); op++) {
                sum.op_ns[row][op] += r[k].op_ns[row][op];
                sum.n_op[row][op] += r[k].n_op[row][op];
            }
    qsort(span, (size_t)n, sizeof *span, by_value);
    qsort(whole, (size_t)n, sizeof *whole, by_value);
    print_plan(j, s);
    print_pair("fwd+bwd", (double)predicted_span(j), (double)span[n / 2]);
    print_pair("step", (double)j->predicted.makespan_ns, (double)whole[n / 2]);
    print_actions(j, &sum);
    print_messages(j, r);
    fflush(stdout);
}

static void connect_all(int n, int fds[MAX_RANKS][MAX_RANKS])
{
    for (int a = 0; a < n; a++)
        for (int b = 0; b < a; b++) {
            int pair[2];
            if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0)
                exit(1);
            fds[a][b] = pair[0];
            fds[b][a] = pair[1];
        }
}

static void run_setting(const struct options *o, const struct setting *s, json_t *profile)
{
    struct job j;
    int fds[MAX_RANKS][MAX_RANKS];
    pid_t pid[MAX_RANKS];
    bool is_bad = false;
    open_job(&j, o, s, profile);
    if (o->steps == 0) {
        print_prediction(&j, s);
        json_decref(j.root);
        cs_arena_free(j.arena);
        return;
    }
    const int n = cs_plan_world(j.plan);
    struct report *r = mmap(NULL, sizeof *r * MAX_RANKS, PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    connect_all(n, fds);
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
        {"class",     NULL,       o->class,     sizeof o->class    },
        {"precision", NULL,       o->precision, sizeof o->precision},
        {"schedule",  NULL,       o->schedule,  sizeof o->schedule },
        {"modality",  NULL,       o->modality,  sizeof o->modality },
        {"dp",        &o->dp,     NULL,         0                  },
        {"profile",   NULL,       o->profile,   sizeof o->profile  },
        {"save",      NULL,       o->save,      sizeof o->save     },
        {"vision",    &o->vision, NULL,         0                  },
        {"llm",       &o->llm,    NULL,         0                  },
        {"slots",     &o->slots,  NULL,         0                  },
        {"seq",       &o->seq,    NULL,         0                  },
        {"images",    &o->images, NULL,         0                  },
        {"steps",     &o->steps,  NULL,         0                  },
        {"case",      &o->only,   NULL,         0                  },
        {"scale",     &o->scale,  NULL,         0                  },
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
    fprintf(stderr, "bench_worker_predict: unknown option %s\n", arg);
    exit(1);
}

int main(int argc, char **argv)
{
    struct options o = {.device = "cuda",
                        .class = "h100-80g",
                        .precision = "bf16",
                        .schedule = "1f1b",
                        .modality = "encoder-parallel",
                        .llm = 1,
                        .dp = 1,
                        .slots = 1,
                        .seq = 4096,
                        .images = 4,
                        .steps = 10,
                        .only = -1,
                        .scale = 1};
    for (int i = 1; i < argc; i++)
        read_option(&o, argv[i]);
    if ((o.steps > 0 && o.steps <= WARM_UP) || o.steps < 0 || o.steps > MAX_STEPS ||
        o.slots > CS_STEP_MAX_SLOTS || o.slots < 1 || o.llm < 1 || (o.vision == 0 && o.llm > 1) ||
        o.dp < 1 || (o.vision + o.llm) * o.dp > MAX_RANKS || o.scale < 1 || o.images < 1) {
        fprintf(stderr, "bench_worker_predict: numbers out of range\n");
        return 1;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    const int64_t start = cs_now_ns();
    json_t *profile = profile_of(&o);
    if (profile == NULL) {
        fprintf(stderr, "bench_worker_predict: no profile\n");
        return 1;
    }
    printf("%s %s vision=%d llm=%d dp=%d slots=%d seq=%d images=%d %s %s, profile in %.1f s\n",
           o.device, o.precision, o.vision, o.llm, o.dp, o.slots, o.seq, o.images,
           o.vision > 0 ? o.modality : "one rank", o.schedule, (double)(cs_now_ns() - start) / 1e9);
    for (int i = 0; i < (int)CS_ARRAY_LEN(settings); i++)
        if (o.only < 0 || o.only == i)
            run_setting(&o, &settings[i], profile);
    json_decref(profile);
    return 0;
}

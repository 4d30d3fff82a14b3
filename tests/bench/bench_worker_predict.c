/* Predicted against measured: the layers of SigLIP-so400m + MLP + Llama-3.2-1B shapes are measured
 * alone (worker/measure/measure.h), steps are planned and simulated from that profile, then run with the
 * same slots (random weights), on one rank or as a pipeline of several processes.
 *
 *   bench_worker_predict [device=cuda] [class=h100-80g] [precision=bf16] [vision=0] [llm=1]
 *                        [dp=1] [slots=1] [seq=4096] [images=4] [warm=12] [steps=6] [case=-1]
 *                        [schedule=1f1b] [modality=encoder-parallel] [profile=FILE] [save=FILE]
 *                        [scale=1]
 *
 * vision and llm: pipeline stages; vision=0: everything on one rank. dp: replicas. steps=0: what is
 * predicted, and nothing is run. profile: read instead of measured; save: where it is written.
 * scale: divides widths and layers, for a look on CPU ranks. Half of the text rows have labels, as
 * planners assume. Prints for every frozen setting forward and backward together, the whole step,
 * and every action: predicted, measured, difference. */
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

#include "bench/vlm.h"
#include "core/base/system/clock.h"
#include "core/plan/cost/basis/bytes.h"
#include "core/sched/lower/lower.h"
#include "core/sched/sim/predict.h"
#include "worker/measure/measure.h"

enum { MAX_STAGES = 32, MAX_STEPS = CS_VLM_MAX_STEPS };

/* What a rank tells the parent, in shared memory: by step, and of the last step by action. */
struct report {
    int64_t begin_ns[MAX_STEPS], end_ns[MAX_STEPS], step_ns[MAX_STEPS];
    int64_t op_ns[MAX_STAGES + 1][CS_OP_COUNT]; /* sums over the steps that count */
    int32_t n_op[MAX_STAGES + 1][CS_OP_COUNT];
    int64_t least_ns[CS_OP_COUNT]; /* of messages: without waiting for the other side; 0: none */
};

struct job {
    struct cs_vlm_job vlm;
    struct cs_device_class device;
    struct cs_program *program;
    struct cs_sim_result predicted;
    int n_labels;
};

static void open_job(struct job *j, const struct cs_vlm_options *o, const struct cs_vlm_setting *s,
                     json_t *profile)
{
    struct cs_err err = {0};
    const struct cs_vlm_job *v = &j->vlm;
    memset(j, 0, sizeof *j);
    cs_vlm_job_open(&j->vlm, o, s, profile);
    j->device = *v->cluster.device;
    const struct cs_sim_options options = {.cost = cs_predict_cost, .user = &j->device};
    cs_vlm_must(cs_program_make(v->plan, v->graph, cs_plan_own_slots(v->plan, o->slots), false,
                                v->arena, &j->program, &err),
                &err);
    cs_vlm_must(cs_simulate(j->program, &options, v->arena, &j->predicted, &err), &err);
    const struct cs_layer *head = &v->graph->layers[v->graph->n_layers - 1];
    j->n_labels = (int)cs_layer_work(v->graph, head, &v->plan->budget).label_rows;
}

/* ---- the profile ---- */

static json_t *measure(const struct cs_vlm_options *o)
{
    struct cs_err err = {0};
    struct cs_device device;
    struct cs_profile *profile;
    struct cs_arena *arena = cs_arena_new(0);
    char name[32];
    snprintf(name, sizeof name, "%s:0", o->device);
    cs_vlm_must(cs_device_open(name, o->precision, &device, &err), &err);
    json_t *root = cs_vlm_document(o, &cs_vlm_settings[0], NULL);
    cs_vlm_must(cs_measure(root, cs_device_class_find(o->class), &device, 1, arena, &profile, &err),
                &err);
    json_t *json = cs_profile_json(profile);
    cs_device_close(&device);
    json_decref(root);
    cs_arena_free(arena);
    return json;
}

/* In a process of its own: the device is not inherited. */
static json_t *profile_of(const struct cs_vlm_options *o)
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

static bool is_compute(enum cs_op op)
{
    return op == CS_OP_FWD || op == CS_OP_BWD || op == CS_OP_BWD_INPUT || op == CS_OP_BWD_WEIGHT;
}

/* From the first forward to the last backward, and what every kind of action took. */
static void add_event(struct report *r, int step, bool is_measured, const struct cs_action *a,
                      int64_t begin, int64_t end)
{
    const int row = a->stage >= 0 ? a->stage : MAX_STAGES;
    if (is_measured) {
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

static void read_events(struct cs_vlm_worker *w, struct report *r, int step, bool is_measured)
{
    const struct cs_event *event;
    const uint32_t n = cs_vlm_worker_events(w, &event);
    r->begin_ns[step] = INT64_MAX;
    r->end_ns[step] = 0;
    for (uint32_t i = 0; i < n; i++)
        if (event[i].kind == CS_EVENT_ACTION)
            add_event(r, step, is_measured, &w->program->actions[event[i].action],
                      (int64_t)event[i].start_ns, (int64_t)event[i].end_ns);
}

static void run_rank(const struct cs_vlm_options *o, const struct job *j, int rank, const int *fds,
                     struct report *r)
{
    struct cs_vlm_worker w;
    cs_vlm_worker_open(&w, o, &j->vlm, j->n_labels, rank, fds);
    for (int i = 0; i < o->warm + o->steps; i++) {
        struct cs_step_result result;
        r->step_ns[i] = cs_vlm_worker_step(&w, i, &result);
        read_events(&w, r, i, i >= o->warm);
    }
    cs_vlm_worker_close(&w);
}

/* ---- both side by side ---- */

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
            const int rank = s < MAX_STAGES ? j->vlm.plan->stages[s].rank : 0;
            struct cs_device_class device = j->device;
            snprintf(what, sizeof what, "%s %s", cs_op_letter((enum cs_op)op),
                     s < MAX_STAGES ? j->vlm.plan->stages[s].name : "(rank 0)");
            const int64_t ns = op == CS_OP_STEP ? update_ns(j->vlm.plan, rank)
                                                : cs_predict_cost(&device, j->program, rank, &a);
            print_pair(what, (double)ns, (double)sum->op_ns[s][op] / sum->n_op[s][op]);
        }
}

/* the shortest of a rank, which waited least for the other side */
static void print_messages(const struct job *j, const struct report *r)
{
    for (int k = 0; k < j->vlm.plan->n_ranks; k++)
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
    for (int k = 0; k < j->vlm.plan->n_ranks; k++)
        for (uint32_t i = 0; i < j->program->rank[k].n_actions; i++) {
            const struct cs_event *e = &j->predicted.events[k][i];
            add_event(&r, 0, false, &j->program->rank[k].actions[i], (int64_t)e->start_ns,
                      (int64_t)e->end_ns);
        }
    return r.end_ns[0] - r.begin_ns[0];
}

static void print_plan(const struct job *j, const struct cs_vlm_setting *s)
{
    printf("%s, layers", s->name);
    for (int32_t i = 0; i < j->vlm.plan->n_stages; i++)
        printf(" %d", j->vlm.plan->stages[i].n_layers);
    printf("\n");
}

static void print_prediction(const struct job *j, const struct cs_vlm_setting *s)
{
    print_plan(j, s);
    printf("  fwd+bwd %.3f ms, step %.3f ms; F and B of the stages:",
           (double)predicted_span(j) / 1e6, (double)j->predicted.makespan_ns / 1e6);
    for (int32_t i = 0; i < j->vlm.plan->n_stages; i++) {
        const struct cs_stage *st = &j->vlm.plan->stages[i];
        printf(" %.3f %.3f;", (double)st->fwd_ns / 1e6,
               (double)(st->bwd_input_ns + st->bwd_weight_ns) / 1e6);
    }
    printf("\n");
}

static void print(const struct cs_vlm_options *o, const struct job *j,
                  const struct cs_vlm_setting *s, const struct report *r)
{
    static struct report sum;
    int64_t span[MAX_STEPS], whole[MAX_STEPS];
    const int n = o->steps, world = cs_plan_world(j->vlm.plan);
    const int ranks = j->vlm.plan->n_ranks; /* actions are those of the first replica */
    memset(&sum, 0, sizeof sum);
    for (int i = 0; i < n; i++) {
        int64_t begin = INT64_MAX, end = 0;
        for (int k = 0; k < world; k++) {
            begin = r[k].begin_ns[i + o->warm] < begin ? r[k].begin_ns[i + o->warm] : begin;
            end = r[k].end_ns[i + o->warm] > end ? r[k].end_ns[i + o->warm] : end;
        }
        span[i] = end - begin;
        whole[i] = r[0].step_ns[i + o->warm];
    }
    for (int k = 0; k < ranks; k++)
        for (int row = 0; row <= MAX_STAGES; row++)
            for (int op = 0; op < CS_OP_COUNT && (row < MAX_STAGES || k == 0); op++) {
                sum.op_ns[row][op] += r[k].op_ns[row][op];
                sum.n_op[row][op] += r[k].n_op[row][op];
            }
    qsort(span, (size_t)n, sizeof *span, cs_vlm_by_value);
    qsort(whole, (size_t)n, sizeof *whole, cs_vlm_by_value);
    print_plan(j, s);
    print_pair("fwd+bwd", (double)predicted_span(j), (double)span[n / 2]);
    print_pair("step", (double)j->predicted.makespan_ns, (double)whole[n / 2]);
    print_actions(j, &sum);
    print_messages(j, r);
    fflush(stdout);
}

struct bench {
    const struct cs_vlm_options *options;
    struct job job;
    struct report *report; /* (ranks) */
};

static void run_one(void *user, int rank, const int *fds)
{
    const struct bench *b = user;
    run_rank(b->options, &b->job, rank, fds, &b->report[rank]);
}

static void run_setting(const struct cs_vlm_options *o, const struct cs_vlm_setting *s,
                        json_t *profile)
{
    struct bench b = {.options = o};
    const size_t bytes = sizeof *b.report * CS_VLM_MAX_RANKS;
    open_job(&b.job, o, s, profile);
    b.report = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (o->steps == 0)
        print_prediction(&b.job, s);
    else if (cs_vlm_run_ranks(cs_plan_world(b.job.vlm.plan), run_one, &b))
        print(o, &b.job, s, b.report);
    else
        printf("%-16s failed\n", s->name);
    munmap(b.report, bytes);
    cs_vlm_job_close(&b.job.vlm);
}

int main(int argc, char **argv)
{
    struct cs_vlm_options o = {.steps = 6};
    cs_vlm_options_read(&o, argc, argv);
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
    for (int i = 0; i < CS_VLM_SETTINGS; i++)
        if (o.only < 0 || o.only == i)
            run_setting(&o, &cs_vlm_settings[i], profile);
    json_decref(profile);
    return 0;
}

/* One training step of SigLIP-so400m + MLP + Llama shapes with random weights, on one rank or as
 * several processes: the peer of vlm_step.py, pipeline.py, ddp.py and fsdp.py.
 *
 *   bench_worker_step [device=cuda] [precision=bf16] [vision=0] [llm=1] [slots=1] [seq=4096]
 *                     [images=4] [warm=12] [steps=6] [case=-1] [schedule=1f1b] [dp=1] [cp=1] [tp=1] [ep=1]
 *                     [modality=encoder-parallel] [recompute=none] [class=h100-80g] [scale=1]
 *                     [state=fp32] [stages=frozen-aware] [ops=0] [tune=8] [size=1b] [model=DIR]
 *                     [picture=768] [sp=0] [sums=1]
 *
 * vision and llm: pipeline stages; vision=0: everything on one rank. dp: replicas; slots, of a
 * step, are dealt out to them. cp, tp: ranks that share the
 * LLM's rows of a slot, its matrices (tp with vision=0: those of the encoder too); ep: of dp * cp those that
 * share its experts; sp: the latter split rows
 * between products; sums=0: rows are not exchanged, so that the time is that of their products alone, the best
 * that sums beside them can reach (what is computed makes no sense). state: of the optimizer, fp32 or bf16. Prints for every frozen
 * setting the median of forward and backward, the optimizer's share, LLM tokens/s of forward and
 * backward, and the share of 989 TFLOP/s per rank counted as the peers count: all rows through the
 * head, only what the frozen setting needs.
 *
 * size: of the LLM, Llama-3.2-1B or (8b) Llama-3.1-8B, which wants class=h200-141g, or (30b-a3b) Qwen3-30B-A3B,
 * a mixture of experts, of which two GPUs hold some layers= alone. 8b/2 and 8b/4: with as many heads and
 * inner columns as one of two or four ranks that share its matrices has.
 * images=0: the LLM alone, as many layers and words of it as layers= and vocab= say: the peer of tp.py,
 * whose TFLOP/s a GPU are printed beside.
 *
 * model: a directory with the config.json of a composite (tests/bench/models), whose shapes are run
 * instead; picture: pixels of a side of its pictures. The peer is model_peer.py; MFU is not counted.
 *
 * ops=1 (one rank): after the warm-up every operator call lies between two events, and a table says
 * what a step spent by operator and shape; graphs are off for it, and the step's own times grow by
 * a few percent. tune: candidates for plans of matrix products, measured at their first use; -1:
 * between steps, as in jobs with CORNSTARCH_GEMM_PLANS=measured; 0: the library's first, as in
 * other jobs. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "bench/timed_ops.h"
#include "bench/vlm.h"
#include "core/base/system/clock.h"
#include "core/plan/cost/stage/scratch.h"
#include "core/plan/cost/stage/zero.h"
#include "core/sched/lower/lower.h"
#include "core/sched/proof/kept.h"
#include "worker/exec/state/state.h"

/* What a rank tells the parent, in shared memory. */
struct report {
    int64_t begin_ns[CS_VLM_MAX_STEPS], end_ns[CS_VLM_MAX_STEPS], step_ns[CS_VLM_MAX_STEPS],
        busy_ns[CS_VLM_MAX_STEPS]; /* by step */
    int64_t lead_ns, tail_ns;      /* of the last step: before its first action, after its last */
    int64_t op_ns[CS_OP_COUNT];    /* of the last step */
    size_t allocated, weights, grads, states; /* bytes; the last three are part of the first */
    struct cs_exec_memory arena;              /* and these too */
    int64_t n_allocs;                         /* after the first step */
    double loss;
    char error[512];
};

/* FLOPs of forward and backward of one slot: 2 a weight and token forward, 2 for an input gradient,
 * 2 for a weight gradient, attention backward 2.5 times forward. */
static double flops(const struct cs_vlm_options *o, const struct cs_vlm_setting *s)
{
    const double rows = (double)CS_VLM_IMAGE_ROWS * o->images, seq = o->seq;
    const double pv = 27.0 * (4 * 1152.0 * 1152 + 2 * 1152.0 * 4304);
    const struct cs_vlm_llm *m = o->shape;
    const double h = m->hidden, pp = 1152.0 * h + h * h, ph = h * cs_vlm_vocab(o);
    const double heads = 2.0 * (m->heads + m->kv_heads) * m->head_dim;
    const double ffn = m->experts > 0 ? 3.0 * m->ffn * m->top_k + m->experts : 3.0 * m->ffn;
    const double layers = cs_vlm_layers(o), pl = layers * (h * heads + h * ffn);
    const double av = 27.0 * 4 * CS_VLM_IMAGE_ROWS * CS_VLM_IMAGE_ROWS * 1152.0 * o->images;
    const double al = layers * 4.0 * (seq * seq / 2) * m->heads * m->head_dim;
    if (o->model[0] != '\0')
        return NAN;
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

/* From the first forward to the last backward, and how long this rank's compute stream worked. */
static void read_events(struct cs_vlm_worker *w, struct report *r, int step, int64_t done_ns)
{
    const struct cs_event *event;
    const uint32_t n = cs_vlm_worker_events(w, &event);
    int64_t first = INT64_MAX, last = 0;
    r->begin_ns[step] = INT64_MAX;
    r->end_ns[step] = r->busy_ns[step] = 0;
    memset(r->op_ns, 0, sizeof r->op_ns);
    for (uint32_t i = 0; i < n; i++) {
        const struct cs_event *e = &event[i];
        if (e->kind != CS_EVENT_ACTION)
            continue;
        const enum cs_op op = (enum cs_op)w->program->actions[e->action].op;
        r->op_ns[op] += (int64_t)(e->end_ns - e->start_ns);
        first = (int64_t)e->start_ns < first ? (int64_t)e->start_ns : first;
        last = (int64_t)e->end_ns > last ? (int64_t)e->end_ns : last;
        if (op != CS_OP_FWD && op != CS_OP_BWD && op != CS_OP_BWD_INPUT && op != CS_OP_BWD_WEIGHT)
            continue;
        const int64_t begin = (int64_t)e->start_ns, end = (int64_t)e->end_ns;
        r->begin_ns[step] = begin < r->begin_ns[step] ? begin : r->begin_ns[step];
        r->end_ns[step] = end > r->end_ns[step] ? end : r->end_ns[step];
        r->busy_ns[step] += end - begin;
    }
    r->lead_ns = first - (done_ns - r->step_ns[step]);
    r->tail_ns = done_ns - last;
}

/* ---- sums=0: of what ranks that share matrices exchange only what is small, as losses are ---- */

enum { SMALL_BYTES = 1 << 20, MOST_EXCHANGES = 1 << 16 };

static struct cs_context all_rows; /* as it was: how they meet */
static bool is_left_out[MOST_EXCHANGES];

static void start_small(void *user, int32_t which, const struct cs_context_exchange *exchange)
{
    size_t bytes = exchange->sum != NULL ? exchange->sum_n * sizeof(float) : 0;
    for (int i = 0; i < exchange->n; i++)
        bytes += exchange->move[i].bytes;
    is_left_out[which % MOST_EXCHANGES] = bytes >= SMALL_BYTES;
    if (bytes < SMALL_BYTES)
        all_rows.start(user, which, exchange);
}

static void finish_small(void *user, int32_t which)
{
    if (!is_left_out[which % MOST_EXCHANGES])
        all_rows.finish(user, which);
}

static void leave_out_rows(struct cs_context *tensors)
{
    all_rows = *tensors;
    tensors->start = start_small;
    tensors->finish = finish_small;
}

static void run_rank(const struct cs_vlm_options *o, const struct cs_vlm_job *j, int rank,
                     const int *fds, struct report *r)
{
    struct cs_vlm_worker w;
    int64_t before = 0;
    cs_vlm_worker_open(&w, o, j, o->seq, rank, fds);
    if (o->sums == 0)
        leave_out_rows(&w.trainer->exec->tensors);
    for (int i = 0; i < o->warm + o->steps; i++) {
        struct cs_step_result result;
        if (o->ops && i == o->warm)
            cs_timed_open(&w.device);
        r->step_ns[i] = cs_vlm_worker_step(&w, i, &result);
        before = i == 0 ? w.device.n_allocs : before;
        read_events(&w, r, i, cs_now_ns());
        if (o->ops && i >= o->warm)
            cs_timed_step();
        if (result.has_loss)
            r->loss = result.loss_sum / (double)w.manifest.trained_tokens;
    }
    r->allocated = w.device.allocated;
    r->arena = cs_exec_memory(w.trainer->exec);
    r->n_allocs = w.device.n_allocs - before;
    r->weights = w.trainer->params->weight_bytes;
    r->grads = w.trainer->params->grad_bytes;
    r->states = w.trainer->params->state_bytes - r->grads;
    if (o->ops) {
        cs_timed_print();
        cs_timed_close();
    }
    cs_vlm_worker_close(&w);
}

static double gib(size_t bytes)
{
    return (double)bytes / 1073741824.0;
}

/* What a rank has taken, and of that what its plan says: weights, gradients with the optimizer,
 * activations of one slot. */
static void print_memory(const struct cs_vlm_job *j, int rank, int n_slots, const struct report *r)
{
    const int own = rank % j->plan->n_ranks;
    const size_t known = r->weights + r->grads + r->states + r->arena.kept + r->arena.scratch +
                         r->arena.boundary; /* allocated counts no host memory */
    int64_t weights = 0, states = 0, work = 0, kept = 0;
    struct cs_err err = {0};
    struct cs_program *program;
    struct cs_arena *arena = cs_arena_new(0);
    cs_vlm_must(cs_program_make(j->plan, j->graph, n_slots, false, arena, &program, &err), &err);
    int64_t *held = CS_NEW_ARRAY(arena, int64_t, j->plan->n_stages + 1);
    for (int32_t i = 0; i < j->plan->n_stages; i++)
        held[i] = cs_stage_held_bytes(j->graph, j->plan, i, 2);
    int32_t *n_buffers = CS_NEW_ARRAY(arena, int32_t, 2 * j->plan->n_edges + 1);
    const struct cs_buffers buffers = cs_program_buffers(program, arena);
    cs_buffers_count(&buffers, n_buffers);
    const int64_t between = cs_rank_boundary_bytes(j->plan, own, n_buffers, 2);
    const struct cs_kept_of kept_of = cs_program_kept_of(program, held, arena);
    kept = cs_program_kept_bytes(program, &kept_of, own, NULL, arena);
    cs_arena_free(arena);
    for (int32_t i = 0; i < j->plan->n_stages; i++) {
        const struct cs_stage *s = &j->plan->stages[i];
        if (s->rank != own)
            continue;
        const int64_t scratch = cs_stage_scratch_bytes(j->graph, j->plan, i, 2);
        work = scratch > work ? scratch : work;
        weights += s->weight_bytes;
        states += s->state_bytes;
    }
    weights += cs_rank_zero_bytes(j->graph, j->plan, own, 2);
    printf("                 rank %d, GiB: weights %.2f gradients %.2f optimizer %.2f activations "
           "%.2f scratch %.2f between stages %.2f else %.2f; planned: weights %.2f states %.2f "
           "activations %.2f scratch %.2f between stages %.2f; %lld allocations after the first "
           "step\n",
           rank, gib(r->weights), gib(r->grads), gib(r->states), gib(r->arena.kept),
           gib(r->arena.scratch), gib(r->arena.boundary),
           gib(r->allocated > known ? r->allocated - known : 0), gib((size_t)weights),
           gib((size_t)states), gib((size_t)kept), gib((size_t)work), gib((size_t)between),
           (long long)r->n_allocs);
}

static void print(const struct cs_vlm_options *o, const struct cs_vlm_job *j,
                  const struct cs_vlm_setting *s, const struct report *r)
{
    int64_t span[CS_VLM_MAX_STEPS], whole[CS_VLM_MAX_STEPS];
    double busy = 0.0, loss = 0.0;
    size_t most = 0;
    const int n = o->steps, ranks = cs_plan_world(j->plan);
    for (int i = 0; i < n; i++) {
        int64_t begin = INT64_MAX, end = 0;
        for (int k = 0; k < ranks; k++) {
            const struct report *one = &r[k];
            begin = one->begin_ns[i + o->warm] < begin ? one->begin_ns[i + o->warm] : begin;
            end = one->end_ns[i + o->warm] > end ? one->end_ns[i + o->warm] : end;
            busy += (double)one->busy_ns[i + o->warm] / n / ranks;
            most = one->allocated > most ? one->allocated : most;
            loss += i == 0 ? one->loss : 0.0; /* the heads' parts */
        }
        span[i] = end - begin;
        whole[i] = r[0].step_ns[i + o->warm];
    }
    qsort(span, (size_t)n, sizeof *span, cs_vlm_by_value);
    qsort(whole, (size_t)n, sizeof *whole, cs_vlm_by_value);
    const double t = (double)span[n / 2] / 1e9, all = (double)whole[n / 2] / 1e9;
    printf("%-16s fwd+bwd %8.2f ms  step %8.2f ms  %8.0f tok/s (%.0f with optimizer)  MFU %.3f  "
           "%.0f TFLOP/s a GPU  busy %.3f  mem %.1f GiB  loss %.6f  layers",
           s->name, t * 1e3, all * 1e3, o->seq * o->slots / t, o->seq * o->slots / all,
           flops(o, s) * o->slots / t / ranks / 989e12, flops(o, s) * o->slots / t / ranks / 1e12,
           busy / 1e9 / t, gib(most), loss);
    for (int32_t i = 0; i < j->plan->n_stages; i++)
        printf(" %d", j->plan->stages[i].n_layers);
    printf("\n");
    for (int k = 0; k < ranks; k++)
        print_memory(j, k, cs_plan_own_slots(j->plan, o->slots), &r[k]);
    printf("                 last step of rank 0, ms:");
    for (int op = 0; op < CS_OP_COUNT; op++)
        if (r[0].op_ns[op] > 0)
            printf(" %s %.2f", cs_op_letter((enum cs_op)op), (double)r[0].op_ns[op] / 1e6);
    printf("; before them %.2f, after %.2f\n", (double)r[0].lead_ns / 1e6,
           (double)r[0].tail_ns / 1e6);
    fflush(stdout);
}

struct bench {
    const struct cs_vlm_options *options;
    struct cs_vlm_job job;
    struct report *report; /* (ranks) */
};

static void run_one(void *user, int rank, const int *fds)
{
    const struct bench *b = user;
    run_rank(b->options, &b->job, rank, fds, &b->report[rank]);
}

static void run_setting(const struct cs_vlm_options *o, const struct cs_vlm_setting *s)
{
    struct bench b = {.options = o};
    const size_t bytes = sizeof *b.report * CS_VLM_MAX_RANKS;
    cs_vlm_job_open(&b.job, o, s, NULL);
    b.report = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (cs_vlm_run_ranks(cs_plan_world(b.job.plan), run_one, &b))
        print(o, &b.job, s, b.report);
    else
        printf("%-16s failed\n", s->name);
    munmap(b.report, bytes);
    cs_vlm_job_close(&b.job);
}

static const char usage[] =
    "bench_worker_step [NAME=VALUE...]: one training step of SigLIP-so400m + MLP + Llama\n"
    "  device=cuda precision=bf16 class=h100-80g scale=1   where, and on CPUs how small\n"
    "  vision=0 llm=1 dp=1 cp=1 tp=1 sp=0 ep=1 schedule=1f1b modality=encoder-parallel "
    "stages=frozen-aware\n"
    "  size=1b                                             8b: shapes of Llama-3.1-8B "
    "(class=h200-141g);\n"
    "                                                      8b/2, 8b/4: what a rank of 2, 4 has of "
    "it;\n"
    "                                                      30b-a3b: of Qwen3-30B-A3B (experts)\n"
    "  layers=0 vocab=0                                    of the LLM; 0: as many as it has\n"
    "  slots=1 seq=4096 images=4 case=-1                   case: one frozen setting, 0 to 3;\n"
    "                                                      images=0: the LLM alone\n"
    "  model=DIR picture=768                               shapes of a config.json, side of "
    "pictures\n"
    "  warm=12 steps=6                                     steps before those that are measured\n"
    "  recompute=none state=fp32                           selective, full; bf16\n"
    "  tune=8        candidates for plans of matrix products; -1: measured between steps, as in\n"
    "                jobs with CORNSTARCH_GEMM_PLANS=measured; 0: the library's first, as in "
    "others\n"
    "  sums=0        with tp: no rows are exchanged, the time of products alone\n"
    "  ops=1         one rank: times every operator where it runs, a table by operator and shape\n";

int main(int argc, char **argv)
{
    struct cs_vlm_options o = {.steps = 6};
    if (argc == 2 && strcmp(argv[1], "--help") == 0) {
        fputs(usage, stdout);
        return 0;
    }
    cs_vlm_options_read(&o, argc, argv);
    if (o.ops &&
        (o.vision > 0 || o.dp * o.cp * o.tp > 1 || setenv("CORNSTARCH_GRAPHS", "off", 1) != 0)) {
        fprintf(stderr, "bench_worker_step: ops=1 is for one rank\n");
        return 1;
    }
    if (o.steps < 1) {
        fprintf(stderr, "bench_worker_step: steps=0 measures nothing\n");
        return 1;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf(
        "%s %s %s state %s vision=%d llm=%d dp=%d cp=%d tp=%d ep=%d sp=%d sums=%d slots=%d seq=%d "
        "images=%d %s %s\n",
        o.model[0] != '\0' ? o.model : o.size, o.device, o.precision, o.state, o.vision, o.llm,
        o.dp, o.cp, o.tp, o.ep, o.sp, o.sums, o.slots, o.seq, o.images,
        o.vision > 0 ? o.modality : "one rank", o.schedule);
    for (int i = 0; i < CS_VLM_SETTINGS; i++)
        if (o.only < 0 || o.only == i)
            run_setting(&o, &cs_vlm_settings[i]);
    return 0;
}

/* Twenty optimizer steps on the CPU in fp32 and on the GPU in fp32 and in bf16, where it is asked
 * for also with the state of training in bf16 (no masters), side by side: losses, gradient norms,
 * every gradient of the first step; the other frozen settings for fewer steps.
 *
 * A slot has 512 rows, so pictures are of 224 px (256 rows): one of 384 px has 729. */
#include <cblas.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/system/clock.h"
#include "gpu/parity/parity.h"

enum { BATCHES = 4, SLOTS = 2, SEQ = 512, IMAGE = 224, IMAGE_ROWS = 256, SUBJECTS = 4 };

static const struct parity_shape shapes[] = {
    {.name = "all train"       },
    {                      .name = "encoder frozen", .is_encoder_frozen = true},
    {                      .name = "projector only", .is_encoder_frozen = true, .is_llm_frozen = true},
    { .name = "llm frozen",       .is_llm_frozen = true},
};

static uint32_t next(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*state >> 33);
}

/* prompt, perhaps a picture, text; everything after the picture is learnt, or after the prompt */
static void add_sample(struct parity_batch *b, const struct cs_slot_budget *budget, int slot, int n,
                       bool has_image, int vocab, uint64_t *state)
{
    enum { PROMPT = 24 };

    int32_t id[SEQ], label[SEQ];
    uint8_t is_image[SEQ] = {0};
    uint8_t *pixels = malloc((size_t)budget->enc[0].item_bytes);
    CS_ASSERT(pixels != NULL);
    for (int i = 0; i < budget->enc[0].item_bytes; i++)
        pixels[i] = (uint8_t)next(state);
    for (int i = 0; i < n; i++) {
        is_image[i] = has_image && i >= PROMPT && i < PROMPT + IMAGE_ROWS;
        id[i] = (int32_t)(next(state) % (uint32_t)vocab);
        label[i] = i < PROMPT || is_image[i] ? -1 : id[i];
    }
    parity_add_sample(b, budget, slot, n, id, label, is_image, pixels);
    free(pixels);
}

void parity_small_shape(struct parity_shape *shape, int vocab)
{
    shape->image = IMAGE;
    shape->vocab = vocab;
    shape->seq_tokens = SEQ;
    shape->slots = SLOTS;
    shape->lr = 1e-4;
}

/* Two slots: one full sample with a picture; two packed samples, one with a picture, and free rows
 * at the end. */
static void make_batch(struct parity_batch *b, const struct cs_slot_budget *budget, int vocab,
                       uint64_t seed)
{
    uint64_t state = seed;
    parity_batch_new(b, budget, SLOTS);
    add_sample(b, budget, 0, SEQ, true, vocab, &state);
    add_sample(b, budget, 1, 131, false, vocab, &state);
    add_sample(b, budget, 1, 377, true, vocab, &state);
}

/* The largest relative deviation of a series, and where. */
struct series {
    double worst;
    int at;
};

/* One trainer against the CPU's. */
struct runner {
    struct parity_subject subject;
    const struct parity_limits *limits; /* NULL: the CPU itself */
    struct cs_step_result result;       /* of the last step */
    double mean;                        /* its loss */
    struct series loss, norm;
    struct parity_worst worst;
    int64_t spent_ns;
};

struct race {
    const char *name;
    struct parity_job job;
    struct parity_batch batch[BATCHES];
    struct runner runner[SUBJECTS]; /* the first is the CPU */
    int n;
};

static void open_race(struct race *r, const struct parity_options *o,
                      const struct parity_shape *setting)
{
    static const struct {
        const char *label, *precision, *state;
        const struct parity_limits *limits;
    } row[SUBJECTS] = {
        {"CPU",        "fp32", "fp32", NULL               },
        {"fp32",       "fp32", "fp32", &parity_limits_f32 },
        {"bf16",       "bf16", "fp32", &parity_limits_bf16},
        {"bf16 state", "bf16", "bf16", &parity_limits_bf16},
    };

    struct parity_shape shape = *setting;
    memset(r, 0, sizeof *r);
    parity_small_shape(&shape, o->vocab);
    shape.vision_layers = shape.llm_layers = 2;
    r->name = shape.name;
    r->n = strncmp(o->device, "cpu", 3) == 0 || o->is_fp32_only ? 2
           : o->has_bf16_state                                  ? SUBJECTS
                                                                : SUBJECTS - 1;
    parity_job_open(&r->job, &shape);
    for (int i = 0; i < BATCHES; i++)
        make_batch(&r->batch[i], &r->job.plan->budget, o->vocab, (uint64_t)i + 1);
    for (int k = 0; k < r->n; k++) {
        r->runner[k].limits = row[k].limits;
        parity_subject_open(&r->runner[k].subject, &r->job, row[k].label,
                            k == 0 ? "cpu:0" : o->device, row[k].precision, row[k].state);
        parity_fill_weights(&r->runner[k].subject);
    }
}

static void close_race(struct race *r)
{
    for (int k = 0; k < r->n; k++)
        parity_subject_close(&r->runner[k].subject);
    for (int i = 0; i < BATCHES; i++)
        parity_batch_free(&r->batch[i]);
    parity_job_close(&r->job);
}

static void follow(struct parity_tally *tally, struct series *s, const struct race *r,
                   const struct runner *one, const char *what, int step, double got, double want)
{
    const double off = fabs(got - want) / fabs(want);
    if (!(off <= s->worst)) {
        s->worst = off;
        s->at = step;
    }
    parity_check(tally, off <= one->limits->series,
                 "%s, %s: %s of step %d is %.7g, the CPU has %.7g", r->name, one->subject.label,
                 what, step, got, want);
}

static bool cpu_gradient(void *user, const struct cs_param *param, const float **out)
{
    const struct parity_subject *cpu = user;
    const struct cs_shard *t = cs_params_find(cpu->trainer->params, param->id);
    *out = t != NULL ? (const float *)t->grad : NULL;
    return *out != NULL;
}

static void run_step(struct parity_tally *tally, struct race *r, int step)
{
    struct parity_batch *b = &r->batch[step % BATCHES];
    struct cs_err err = {0};
    b->manifest.step = step;
    for (int k = 0; k < r->n; k++) {
        struct runner *one = &r->runner[k];
        const int64_t from = cs_now_ns();
        parity_must(
            cs_trainer_step(one->subject.trainer, &b->manifest, b->slot, NULL, &one->result, &err),
            &err);
        one->spent_ns += cs_now_ns() - from;
        one->mean = one->result.loss_sum / (double)one->result.trained_tokens;
        if (k == 0)
            continue;
        follow(tally, &one->loss, r, one, "loss", step, one->mean, r->runner[0].mean);
        follow(tally, &one->norm, r, one, "gradient norm", step, one->result.grad_norm,
               r->runner[0].result.grad_norm);
        if (step == 0)
            parity_gradients(tally, &r->job, &one->subject, 1.0, cpu_gradient,
                             &r->runner[0].subject, one->limits, &one->worst);
    }
}

static void run_setting(struct parity_tally *tally, const struct parity_options *o,
                        const struct parity_shape *setting, int steps)
{
    struct race *r = malloc(sizeof *r);
    double loss = NAN, norm = NAN;
    const int64_t begin = cs_now_ns();
    CS_ASSERT(r != NULL);
    open_race(r, o, setting);
    for (int step = 0; step < steps; step++) {
        run_step(tally, r, step);
        if (step == 0) {
            loss = r->runner[0].mean;
            norm = r->runner[0].result.grad_norm;
        }
    }
    printf("%s: %d steps, loss %.4f to %.4f, gradient norm %.4f to %.4f; CPU %.2f s a step; %.1f s "
           "in all\n",
           r->name, steps, loss, r->runner[0].mean, norm, r->runner[0].result.grad_norm,
           (double)r->runner[0].spent_ns / 1e9 / steps, (double)(cs_now_ns() - begin) / 1e9);
    for (int k = 1; k < r->n; k++) {
        const struct runner *one = &r->runner[k];
        printf(
            "  %-4s loss off by at most %.3g (step %d), norm by %.3g (step %d); %.1f ms a step\n",
            one->subject.label, one->loss.worst, one->loss.at, one->norm.worst, one->norm.at,
            (double)one->spent_ns / 1e6 / steps);
        parity_print_worst(one->subject.label, &one->worst);
    }
    fflush(stdout);
    close_race(r);
    free(r);
}

/* How many threads the CPU's products get: the first setting runs longest. */
static int threads_of(int setting, int cores)
{
    const int n = setting == 0 ? cores / 2 : cores / 6;
    return n > 0 ? n : 1;
}

/* Each setting is a process of its own; the tally comes back through a pipe. */
static pid_t start(const struct parity_options *o, int setting, int threads, int *from)
{
    int ends[2];
    CS_ASSERT(pipe(ends) == 0);
    fflush(stdout);
    const pid_t pid = fork();
    CS_ASSERT(pid >= 0);
    *from = ends[0];
    if (pid > 0) {
        close(ends[1]);
        return pid;
    }
    struct parity_tally tally = {0};
    openblas_set_num_threads(threads);
    run_setting(&tally, o, &shapes[setting], setting == 0 ? o->steps : o->short_steps);
    fflush(stdout);
    _exit(write(ends[1], &tally, sizeof tally) == (ssize_t)sizeof tally ? 0 : 1);
}

static void finish(struct parity_tally *tally, int setting, pid_t pid, int from)
{
    struct parity_tally own = {0};
    int status = 0;
    const bool is_whole = read(from, &own, sizeof own) == (ssize_t)sizeof own;
    waitpid(pid, &status, 0);
    close(from);
    parity_check(tally, is_whole && status == 0,
                 "%s: the process ended with status %d before its "
                 "last check",
                 shapes[setting].name, status);
    tally->passed += own.passed;
    tally->failed += own.failed;
}

void parity_steps(struct parity_tally *tally, const struct parity_options *options)
{
    enum { N = (int)CS_ARRAY_LEN(shapes), ENOUGH = 8 };

    pid_t pid[N] = {0};
    int from[N];
    const int cores = options->threads;
    /* side by side where there are cores and memory for it */
    const bool is_together =
        options->only < 0 && cores >= ENOUGH && strncmp(options->device, "cpu", 3) != 0;
    printf("SigLIP 1152/4304, 16 heads + MLP + Llama 2048/8192, 32/8 heads, vocabulary %d, 2+2 "
           "layers, %d slots of %d rows, pictures of %d px, %d threads\n",
           options->vocab, SLOTS, SEQ, IMAGE, cores);
    for (int i = 0; i < N; i++) {
        if (options->only >= 0 && options->only != i)
            continue;
        pid[i] = start(options, i, is_together ? threads_of(i, cores) : cores, &from[i]);
        if (!is_together)
            finish(tally, i, pid[i], from[i]);
    }
    for (int i = 0; is_together && i < N; i++)
        finish(tally, i, pid[i], from[i]);
}

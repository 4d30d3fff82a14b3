/* Twenty optimizer steps on the CPU in fp32 and on the GPU in fp32 and bf16, side by side: losses,
 * gradient norms, every gradient of the first step; the other frozen settings for fewer steps.
 *
 * A slot has 512 rows, so pictures are of 224 px (256 rows): one of 384 px has 729. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/clock.h"
#include "gpu/parity/parity.h"

enum { BATCHES = 4, SLOTS = 2, SEQ = 512, IMAGE = 224, IMAGE_ROWS = 256, SUBJECTS = 3 };

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

static void follow(struct parity_tally *tally, struct series *s, const char *setting,
                   const char *label, const char *what, int step, double got, double want,
                   double limit)
{
    const double off = fabs(got - want) / fabs(want);
    if (!(off <= s->worst)) {
        s->worst = off;
        s->at = step;
    }
    parity_check(tally, off <= limit, "%s, %s: %s of step %d is %.7g, the CPU has %.7g", setting,
                 label, what, step, got, want);
}

static bool cpu_gradient(void *user, const struct cs_param *param, const float **out)
{
    const struct parity_subject *cpu = user;
    const struct cs_tensor *t = cs_params_find(cpu->trainer->params, param->id);
    *out = t != NULL ? t->grad : NULL;
    return *out != NULL;
}

static void run_setting(struct parity_tally *tally, const struct parity_options *o,
                        const struct parity_shape *setting, int steps)
{
    struct parity_shape shape = *setting;
    struct parity_job job;
    struct parity_batch batch[BATCHES];
    struct parity_subject subject[SUBJECTS] = {0};
    const struct parity_limits *limits[SUBJECTS] = {NULL, &parity_limits_f32, &parity_limits_bf16};
    struct series loss[SUBJECTS] = {0}, norm[SUBJECTS] = {0};
    struct parity_worst worst[SUBJECTS] = {0};
    struct cs_step_result result[SUBJECTS];
    struct cs_err err = {0};
    double mean[SUBJECTS], ends[2][2];
    int64_t spent[SUBJECTS] = {0};
    const bool is_gpu = strncmp(o->device, "cpu", 3) != 0;
    const int n = is_gpu && !o->is_fp32_only ? SUBJECTS : 2;
    shape.image = IMAGE;
    shape.vision_layers = shape.llm_layers = 2;
    shape.vocab = o->vocab;
    shape.seq_tokens = SEQ;
    shape.slots = SLOTS;
    shape.lr = 1e-4;
    const int64_t begin = cs_now_ns();
    parity_job_open(&job, &shape);
    for (int i = 0; i < BATCHES; i++)
        make_batch(&batch[i], &job.plan->budget, o->vocab, (uint64_t)i + 1);
    parity_subject_open(&subject[0], &job, "CPU", "cpu:0", "fp32");
    parity_subject_open(&subject[1], &job, "GPU fp32", o->device, "fp32");
    if (n > 2)
        parity_subject_open(&subject[2], &job, "GPU bf16", o->device, "bf16");
    for (int k = 0; k < n; k++)
        parity_fill_weights(&subject[k]);
    for (int step = 0; step < steps; step++) {
        struct parity_batch *b = &batch[step % BATCHES];
        b->manifest.step = step;
        for (int k = 0; k < n; k++) {
            const int64_t from = cs_now_ns();
            parity_must(
                cs_trainer_step(subject[k].trainer, &b->manifest, b->slot, NULL, &result[k], &err),
                &err);
            spent[k] += cs_now_ns() - from;
            mean[k] = result[k].loss_sum / (double)result[k].trained_tokens;
            if (k == 0)
                continue;
            follow(tally, &loss[k], shape.name, subject[k].label, "loss", step, mean[k], mean[0],
                   limits[k]->series);
            follow(tally, &norm[k], shape.name, subject[k].label, "gradient norm", step,
                   result[k].grad_norm, result[0].grad_norm, limits[k]->series);
            if (step == 0)
                parity_gradients(tally, &job, &subject[k], 1.0, cpu_gradient, &subject[0],
                                 limits[k], &worst[k]);
        }
        ends[step > 0][0] = mean[0];
        ends[step > 0][1] = result[0].grad_norm;
    }
    printf("%s: %d steps, loss %.4f to %.4f, gradient norm %.4f to %.4f; CPU %.2f s a step; %.1f s "
           "in all\n",
           shape.name, steps, ends[0][0], ends[1][0], ends[0][1], ends[1][1],
           (double)spent[0] / 1e9 / steps, (double)(cs_now_ns() - begin) / 1e9);
    for (int k = 1; k < n; k++) {
        printf(
            "  %-9s loss off by at most %.3g (step %d), norm by %.3g (step %d); %.1f ms a step\n",
            subject[k].label, loss[k].worst, loss[k].at, norm[k].worst, norm[k].at,
            (double)spent[k] / 1e6 / steps);
        parity_print_worst(subject[k].label, &worst[k]);
    }
    fflush(stdout);
    for (int k = 0; k < n; k++)
        parity_subject_close(&subject[k]);
    for (int i = 0; i < BATCHES; i++)
        parity_batch_free(&batch[i]);
    parity_job_close(&job);
}

void parity_steps(struct parity_tally *tally, const struct parity_options *options)
{
    printf("SigLIP 1152/4304, 16 heads + MLP + Llama 2048/8192, 32/8 heads, vocabulary %d, 2+2 "
           "layers, %d slots of %d rows, pictures of %d px\n",
           options->vocab, SLOTS, SEQ, IMAGE);
    for (int i = 0; i < (int)CS_ARRAY_LEN(shapes); i++)
        if (options->only < 0 || options->only == i)
            run_setting(tally, options, &shapes[i], i == 0 ? options->steps : options->short_steps);
}

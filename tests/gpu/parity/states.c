/* What training keeps in bf16, through checkpoints: updates after a resume give the bits of those
 * without one; a job goes over from fp32 with its masters rounded to nearest, and back exactly.
 *
 * Gradients are made from numbers: those of attention may differ in their last bits from run to
 * run. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gpu/parity/parity.h"
#include "kernels/round.h"

enum { STEPS = 6, SAVED_AT = 3, TOKENS = 1000 };

/* The states of all entries of a subject on the host. */
struct held {
    const struct cs_shard **tensor;
    struct cs_ckpt_part *part;
    float *memory;
    int64_t floats;
    int n;
};

static void read_states(struct parity_subject *s, struct held *h)
{
    struct cs_params *p = s->trainer->params;
    struct cs_err err = {0};
    *h = (struct held){.tensor = calloc((size_t)p->n + 1, sizeof *h->tensor),
                       .part = calloc((size_t)p->n + 1, sizeof *h->part)};
    CS_ASSERT(h->tensor != NULL && h->part != NULL);
    h->n = cs_params_listed(p, h->tensor);
    for (int i = 0; i < h->n; i++)
        h->floats += CS_STATES * h->tensor[i]->own_n;
    float *at = h->memory = malloc((size_t)h->floats * sizeof *h->memory);
    CS_ASSERT(at != NULL);
    for (int i = 0; i < h->n; i++) {
        const int64_t n = h->tensor[i]->own_n;
        for (int k = 0; k < CS_STATES; k++)
            parity_must(cs_params_state(p, h->tensor[i], (enum cs_state)k, at + k * n, &err), &err);
        const struct cs_param *param = h->tensor[i]->param;
        h->part[i] = (struct cs_ckpt_part){param, cs_slice_whole(param), at, at + n, at + 2 * n};
        at += CS_STATES * n;
    }
}

static void free_states(struct held *h)
{
    free(h->tensor);
    free(h->part);
    free(h->memory);
}

static void save(const struct parity_job *job, const struct held *h, const char *dir, int64_t step)
{
    struct cs_ckpt_file files[2];
    struct cs_err err = {0};
    json_t *trainer = json_pack("{s:I}", "step", (json_int_t)step);
    parity_must(cs_ckpt_write_rank(dir, step, 0, h->part, h->n, files, &err), &err);
    const struct cs_ckpt_origin origin = {
        job->spec->hash, job->spec->hash, job->plan->hash, 0, NULL, 0};
    parity_must(cs_ckpt_commit(dir, step, &origin, trainer, files, 2, &err), &err);
    json_decref(trainer);
}

static void resume(struct parity_subject *s, const char *dir, int64_t step)
{
    char path[PATH_MAX];
    struct cs_ckpt *ckpt = NULL;
    struct cs_err err = {0};
    snprintf(path, sizeof path, "%s/ckpt-%lld", dir, (long long)step);
    parity_must(cs_ckpt_open(path, &ckpt, &err), &err);
    parity_must(cs_params_resume(s->trainer->params, ckpt, NULL, &err), &err);
    cs_ckpt_close(ckpt);
}

/* The gradients of a step, about as large as those of a sum over thousands of tokens. */
static void make_gradients(struct parity_subject *s, int step)
{
    struct cs_params *p = s->trainer->params;
    const size_t n = p->grad_bytes / p->grad_size;
    float *wide = malloc(n * sizeof *wide);
    uint16_t *halves = malloc(n * sizeof *halves);
    CS_ASSERT(wide != NULL && halves != NULL);
    for (size_t i = 0; i < n; i++) {
        const uint64_t bits = cs_round_random((uint64_t)step, i);
        wide[i] = (float)((int32_t)(bits >> 40) - (1 << 23)) * 0x1p-23f;
        halves[i] = cs_round_nearest(wide[i]);
    }
    if (cs_device_keeps_bf16(&s->device))
        cs_device_copy(&s->device, p->grads, halves, p->grad_bytes);
    else
        cs_device_copy(&s->device, p->grads, wide, p->grad_bytes);
    memset(p->is_grad_new, 0, (size_t)p->n * sizeof *p->is_grad_new); /* else they count as unset */
    struct cs_err err = {0};
    parity_must(cs_device_sync(&s->device, &err), &err);
    free(wide);
    free(halves);
}

static void run(struct parity_subject *s, int from, int to)
{
    struct cs_optim *optim = s->trainer->optim;
    struct cs_err err = {0};
    for (int step = from; step < to; step++) {
        cs_optim_begin(optim);
        make_gradients(s, step);
        parity_must(cs_optim_norm(optim, NULL, TOKENS, 0, &err), &err);
        cs_optim_update(optim, step);
    }
    parity_must(cs_device_sync(&s->device, &err), &err);
}

/* Values of `got` that are not those of `want`, rounded to bf16 where is_rounded. */
static int64_t differing(const struct held *got, const struct held *want, bool is_rounded)
{
    int64_t n = got->floats == want->floats ? 0 : got->floats + 1;
    for (int64_t i = 0; n <= got->floats && i < got->floats; i++) {
        const float x =
            is_rounded ? cs_round_widen(cs_round_nearest(want->memory[i])) : want->memory[i];
        n += memcmp(&got->memory[i], &x, sizeof x) != 0;
    }
    return n;
}

struct states_test {
    struct parity_tally *tally;
    const struct parity_options *options;
    struct parity_job job;
    char dir[256];
};

static void open_subject(const struct states_test *t, struct parity_subject *s, const char *state)
{
    parity_subject_open(s, &t->job, state, t->options->device, "bf16", state);
    parity_fill_weights(s);
}

static void updates_after_a_resume_give_the_same_bits(struct states_test *t)
{
    struct parity_subject whole, second;
    struct held at_half, end, again;
    open_subject(t, &whole, "bf16");
    run(&whole, 0, SAVED_AT);
    read_states(&whole, &at_half);
    save(&t->job, &at_half, t->dir, SAVED_AT);
    run(&whole, SAVED_AT, STEPS);
    read_states(&whole, &end);
    const int64_t moved = differing(&end, &at_half, false);
    parity_check(t->tally, moved > end.floats / 4, "only %lld of %lld values move in %d steps",
                 (long long)moved, (long long)end.floats, STEPS - SAVED_AT);
    parity_subject_close(&whole);
    open_subject(t, &second, "bf16");
    resume(&second, t->dir, SAVED_AT);
    read_states(&second, &again);
    const int64_t lost = differing(&again, &at_half, false);
    parity_check(t->tally, lost == 0, "%lld of %lld values do not come back from a checkpoint",
                 (long long)lost, (long long)again.floats);
    free_states(&again);
    run(&second, SAVED_AT, STEPS);
    read_states(&second, &again);
    const int64_t n = differing(&again, &end, false);
    parity_check(t->tally, n == 0, "%lld of %lld values differ after a resume", (long long)n,
                 (long long)end.floats);
    parity_subject_close(&second);
    free_states(&again);
    free_states(&end);
    free_states(&at_half);
}

static void jobs_change_their_state_at_a_checkpoint(struct states_test *t)
{
    struct parity_subject wide, narrow;
    struct held masters, halves, back;
    open_subject(t, &wide, "fp32");
    run(&wide, 0, 1);
    read_states(&wide, &masters);
    save(&t->job, &masters, t->dir, 1);
    parity_subject_close(&wide);
    open_subject(t, &narrow, "bf16");
    resume(&narrow, t->dir, 1);
    read_states(&narrow, &halves);
    int64_t n = differing(&halves, &masters, true);
    parity_check(t->tally, n == 0, "%lld values are not the nearest to those of fp32",
                 (long long)n);
    save(&t->job, &halves, t->dir, 2);
    parity_subject_close(&narrow);
    open_subject(t, &wide, "fp32");
    resume(&wide, t->dir, 2);
    read_states(&wide, &back);
    n = differing(&back, &halves, false);
    parity_check(t->tally, n == 0, "%lld values change on their way back to fp32", (long long)n);
    parity_subject_close(&wide);
    free_states(&back);
    free_states(&halves);
    free_states(&masters);
}

static void remove_tree(const char *dir)
{
    struct cs_err err = {0};
    char command[300];
    if (cs_ckpt_clean(dir, &err) != CS_OK || cs_ckpt_prune(dir, 1, INT64_MAX, &err) != CS_OK)
        fprintf(stderr, "%s\n", err.text);
    snprintf(command, sizeof command, "rm -rf '%s'", dir);
    if (system(command) != 0)
        fprintf(stderr, "%s is left\n", dir);
}

void parity_states(struct parity_tally *tally, const struct parity_options *options)
{
    struct states_test t = {.tally = tally, .options = options};
    const char *tmp = getenv("TMPDIR");
    struct parity_shape shape = {.name = "states", .vision_layers = 1, .llm_layers = 1};
    if (strncmp(options->device, "cpu", 3) == 0 || options->is_fp32_only)
        return;
    snprintf(t.dir, sizeof t.dir, "%s/states-XXXXXX", tmp != NULL ? tmp : "/tmp");
    if (mkdtemp(t.dir) == NULL) {
        parity_check(tally, false, "no folder for checkpoints");
        return;
    }
    const int before = tally->failed;
    parity_small_shape(&shape, 2000);
    parity_job_open(&t.job, &shape);
    updates_after_a_resume_give_the_same_bits(&t);
    jobs_change_their_state_at_a_checkpoint(&t);
    parity_job_close(&t.job);
    remove_tree(t.dir);
    printf("state in bf16: %s\n", tally->failed == before ? "ok" : "FAILED");
}

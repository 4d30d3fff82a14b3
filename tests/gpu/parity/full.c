/* Full depth against PyTorch: the model and figures that full_depth.py wrote, one step of ours on
 * the same weights in fp32 and bf16: loss, gradient norm, every gradient.
 *
 * figures.safetensors holds ids, labels (unshifted, -1: not learnt), lengths of the samples, the
 * placeholder's id, pixels, and of PyTorch in fp32: loss, norm, tokens, grad.MODULE/TENSOR; in bf16
 * its own distance from that: peer.MODULE/TENSOR (cosine, norm ratio), peer.loss. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/system/clock.h"
#include "gpu/parity/parity.h"

struct figures {
    struct cs_st_file *file;
    int32_t *ids, *labels, *lengths;
    uint8_t *pixels;
    int n_rows, n_samples, n_images, placeholder;
    float *buffer; /* of the last gradient read */
    int64_t room;
    double peer_cosine; /* the worst of PyTorch in bf16 */
    char peer_at[160];
};

static const struct cs_st_tensor *find(const struct figures *f, const char *name)
{
    const struct cs_st_tensor *t = cs_st_find(f->file, name);
    if (t != NULL)
        return t;
    fprintf(stderr, "gpu_test_parity: %s has no %s\n", cs_st_path(f->file), name);
    exit(1);
}

/* the bytes of a tensor of the given dtype; the caller frees */
static void *raw(const struct figures *f, const char *name, enum cs_dtype dtype, int *dim0)
{
    struct cs_err err = {0};
    const struct cs_st_tensor *t = find(f, name);
    const size_t bytes = (size_t)t->count * cs_dtype_bytes(t->dtype);
    void *out = malloc(bytes + 1);
    CS_ASSERT(out != NULL && t->dtype == dtype);
    parity_must(cs_st_read_raw(t, 0, bytes, out, &err), &err);
    *dim0 = (int)t->dim[0];
    return out;
}

static double scalar(const struct figures *f, const char *name)
{
    struct cs_err err = {0};
    float value;
    parity_must(cs_st_read_f32(find(f, name), 0, 1, &value, &err), &err);
    return (double)value;
}

static void open_figures(struct figures *f, const char *dir)
{
    struct cs_err err = {0};
    char path[PATH_MAX + 32];
    int n_labels;
    memset(f, 0, sizeof *f);
    f->peer_cosine = 1.0;
    snprintf(path, sizeof path, "%s/figures.safetensors", dir);
    parity_must(cs_st_open(path, &f->file, &err), &err);
    f->ids = raw(f, "ids", CS_I32, &f->n_rows);
    f->labels = raw(f, "labels", CS_I32, &n_labels);
    f->lengths = raw(f, "lengths", CS_I32, &f->n_samples);
    f->pixels = raw(f, "pixels", CS_U8, &f->n_images);
    f->placeholder = (int)scalar(f, "placeholder");
    CS_ASSERT(n_labels == f->n_rows);
}

static void close_figures(struct figures *f)
{
    cs_st_close(f->file);
    free(f->ids);
    free(f->labels);
    free(f->lengths);
    free(f->pixels);
    free(f->buffer);
}

/* All samples packed into one slot. */
static void make_batch(const struct figures *f, const struct cs_slot_budget *budget,
                       struct parity_batch *b)
{
    uint8_t *is_image = malloc((size_t)f->n_rows);
    const uint8_t *pixels = f->pixels;
    int row = 0;
    CS_ASSERT(is_image != NULL);
    parity_batch_new(b, budget, 1);
    for (int s = 0; s < f->n_samples; s++) {
        int images = 0;
        for (int i = 0; i < f->lengths[s]; i++) {
            is_image[i] = f->ids[row + i] == f->placeholder;
            images += is_image[i];
        }
        parity_add_sample(b, budget, 0, f->lengths[s], f->ids + row, f->labels + row, is_image,
                          pixels);
        pixels += (size_t)(images / budget->enc[0].item_rows) * (size_t)budget->enc[0].item_bytes;
        row += f->lengths[s];
    }
    CS_ASSERT(row == f->n_rows);
    free(is_image);
}

/* NAME.MODULE/TENSOR in either spelling of the tensor */
static const struct cs_st_tensor *of_param(const struct figures *f, const char *what,
                                           const struct cs_param *param)
{
    char name[320];
    const int module = (int)(strlen(param->name) - strlen(param->tensor));
    snprintf(name, sizeof name, "%s.%.*s%s", what, module, param->name, param->tensor);
    const struct cs_st_tensor *t = cs_st_find(f->file, name);
    if (t != NULL || param->alt == NULL)
        return t;
    snprintf(name, sizeof name, "%s.%.*s%s", what, module, param->name, param->alt);
    return cs_st_find(f->file, name);
}

static bool torch_gradient(void *user, const struct cs_param *param, const float **out)
{
    struct figures *f = user;
    struct cs_err err = {0};
    float peer[2];
    const struct cs_st_tensor *t = of_param(f, "grad", param), *p = of_param(f, "peer", param);
    if (t == NULL || t->count != param->count)
        return false;
    if (t->count > f->room) {
        free(f->buffer);
        f->buffer = malloc((size_t)t->count * sizeof *f->buffer);
        CS_ASSERT(f->buffer != NULL);
        f->room = t->count;
    }
    parity_must(cs_st_read_f32(t, 0, t->count, f->buffer, &err), &err);
    *out = f->buffer;
    if (p == NULL || param->role == CS_PARAM_K_B)
        return true;
    parity_must(cs_st_read_f32(p, 0, 2, peer, &err), &err);
    if ((double)peer[0] < f->peer_cosine) {
        f->peer_cosine = (double)peer[0];
        snprintf(f->peer_at, sizeof f->peer_at, "%s", param->name);
    }
    return true;
}

static void run_precision(struct parity_tally *tally, const struct parity_options *o,
                          struct figures *f, const char *precision)
{
    const bool is_f32 = strcmp(precision, "fp32") == 0;
    const struct parity_shape shape = {
        .name = "full depth", .seq_tokens = f->n_rows, .slots = 1, .lr = 1e-5, .dir = o->dir};
    const struct parity_limits *limits = is_f32 ? &parity_limits_f32 : &parity_limits_bf16;
    struct parity_job job;
    struct parity_batch batch;
    struct parity_subject s = {0};
    struct parity_worst worst;
    struct cs_step_result r;
    struct cs_err err = {0};
    const int64_t begin = cs_now_ns();
    parity_job_open(&job, &shape);
    make_batch(f, &job.plan->budget, &batch);
    parity_subject_open(&s, &job, is_f32 ? "fp32" : "bf16", o->device, precision, "fp32");
    parity_must(cs_params_load(s.trainer->params, job.spec->seed, &err), &err);
    const int64_t loaded = cs_now_ns();
    parity_must(cs_trainer_step(s.trainer, &batch.manifest, batch.slot, NULL, &r, &err), &err);
    const int64_t stepped = cs_now_ns();
    const double loss = r.loss_sum / (double)r.trained_tokens, want = scalar(f, "loss");
    const double norm = scalar(f, "norm"), off = fabs(loss / want - 1.0);
    parity_check(tally, r.trained_tokens == (int64_t)scalar(f, "tokens"),
                 "%s: %lld trained tokens, PyTorch has %.0f", s.label, (long long)r.trained_tokens,
                 scalar(f, "tokens"));
    parity_check(tally, off <= (is_f32 ? 1e-4 : 1e-2), "%s: loss %.7f, PyTorch has %.7f", s.label,
                 loss, want);
    parity_check(tally, fabs(r.grad_norm / norm - 1.0) <= limits->norm,
                 "%s: gradient norm %.6g, PyTorch has %.6g", s.label, r.grad_norm, norm);
    parity_gradients(tally, &job, &s, 1.0 / (double)r.trained_tokens, torch_gradient, f, limits,
                     &worst);
    printf("%s: loss %.7f (PyTorch %.7f, off by %.2g; PyTorch in bf16 %.2g), gradient norm %.6g "
           "(PyTorch %.6g, off by %.2g); loaded in %.1f s, step %.2f s, %.1f GiB, compared in %.1f "
           "s\n",
           s.label, loss, want, off, fabs(scalar(f, "peer.loss") / want - 1.0), r.grad_norm, norm,
           fabs(r.grad_norm / norm - 1.0), (double)(loaded - begin) / 1e9,
           (double)(stepped - loaded) / 1e9, (double)s.device.allocated / 1073741824.0,
           (double)(cs_now_ns() - stepped) / 1e9);
    parity_print_worst(s.label, &worst);
    fflush(stdout);
    parity_subject_close(&s);
    parity_batch_free(&batch);
    parity_job_close(&job);
}

void parity_full(struct parity_tally *tally, const struct parity_options *options)
{
    struct figures f;
    open_figures(&f, options->dir);
    printf("full depth: %d samples of %d rows in all, %d pictures\n", f.n_samples, f.n_rows,
           f.n_images);
    run_precision(tally, options, &f, "fp32");
    if (strncmp(options->device, "cpu", 3) != 0 && !options->is_fp32_only)
        run_precision(tally, options, &f, "bf16");
    printf("  PyTorch in bf16 against itself in fp32: worst cosine %.7f (%s)\n", f.peer_cosine,
           f.peer_at);
    close_figures(&f);
}

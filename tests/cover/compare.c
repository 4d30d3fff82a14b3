/* Two jobs' steps and checkpoints, tensor by tensor in Frobenius norms. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cover/job.h"
#include "store/fsio.h"

static const char *const kinds[] = {"master", "exp_avg", "exp_avg_sq"};

/* the largest deviation over its limit, and what it is of */
struct worst {
    double over;
    char text[256];
};

static void note(struct worst *w, double over, const char *what, int step, double apart, double of)
{
    if (over <= w->over)
        return;
    w->over = isfinite(over) ? over : HUGE_VAL;
    snprintf(w->text, sizeof w->text, "%s after step %d is %.3g off, of %.3g", what, step, apart,
             of);
}

static void compare_steps(const struct cover_outcome *one, const struct cover_outcome *many,
                          double limit, struct worst *w)
{
    for (int s = 0; s < COVER_STEPS; s++) {
        const double loss = fabs(many->loss[s] - one->loss[s]),
                     norm = fabs(many->norm[s] - one->norm[s]);
        note(w, loss / (limit * one->loss[s]), "the loss", s + 1, loss, one->loss[s]);
        note(w, norm / (limit * one->norm[s] + 1e-30), "the norm of gradients", s + 1, norm,
             one->norm[s]); /* 0 where what trains sees nothing */
    }
}

struct pair {
    struct cs_ckpt *one, *many;
    float *a, *b;
    int save;
};

/* One tensor of a kind, of both jobs. The second moment's root is compared: what an update divides by. */
struct apart {
    double apart, size; /* squares */
};

static enum cs_status measure(const struct pair *p, const struct cs_param *param, int kind,
                              struct apart *out, struct cs_err *err)
{
    *out = (struct apart){.apart = 0};
    CS_TRY(cs_ckpt_read(p->one, param, kinds[kind], p->a, err));
    CS_TRY(cs_ckpt_read(p->many, param, kinds[kind], p->b, err));
    for (int64_t i = 0; i < param->count; i++) {
        const double a = kind == 2 ? sqrt((double)p->a[i]) : (double)p->a[i];
        const double b = kind == 2 ? sqrt((double)p->b[i]) : (double)p->b[i];
        out->apart += (a - b) * (a - b);
        out->size += a * a;
    }
    return CS_OK;
}

/* Against its own size and a tenth of all tensors': gradients that are zero but for rounding, as those of biases
 * of keys, have the rounding of all others. */
static enum cs_status compare_kind(const struct cover_plan *plan, const struct pair *p, int kind,
                                   double limit, struct worst *w, struct cs_err *err)
{
    const struct cs_graph *graph = plan->graph;
    struct apart *of = calloc((size_t)graph->n_params + 1, sizeof *of);
    double all = 0;
    enum cs_status status = CS_OK;
    CS_ASSERT(of != NULL);
    for (int i = 0; status == CS_OK && i < graph->n_params; i++) {
        if (graph->params[i].is_trainable)
            status = measure(p, &graph->params[i], kind, &of[i], err);
        all += of[i].size;
    }
    for (int i = 0; i < graph->n_params; i++) {
        char what[320];
        const double size = sqrt(of[i].size), apart = sqrt(of[i].apart);
        snprintf(what, sizeof what, "%s of %s", kinds[kind], graph->params[i].name);
        note(w, apart / (limit * (size + 0.1 * sqrt(all)) + 1e-30), what,
             cover_saved_steps[p->save], apart, size);
    }
    free(of);
    return status;
}

static enum cs_status compare_save(const struct cover_plan *plan, struct pair *p, double limit,
                                   struct worst *w, struct cs_err *err)
{
    for (int k = 0; k < (int)CS_ARRAY_LEN(kinds); k++)
        CS_TRY(compare_kind(plan, p, k, limit, w, err));
    return CS_OK;
}

static enum cs_status compare_saves(const struct cover_plan *plan, const struct cover_outcome *one,
                                    const struct cover_outcome *many, double limit, struct worst *w,
                                    struct cs_err *err)
{
    int64_t most = 1;
    enum cs_status status = CS_OK;
    for (int i = 0; i < plan->graph->n_params; i++)
        most = plan->graph->params[i].count > most ? plan->graph->params[i].count : most;
    struct pair p = {.a = malloc((size_t)most * 4), .b = malloc((size_t)most * 4)};
    CS_ASSERT(p.a != NULL && p.b != NULL);
    for (p.save = 0; status == CS_OK && p.save < COVER_SAVES; p.save++) {
        char path[CS_PATH_CAP];
        cover_job_saved(one, p.save, path);
        status = cs_ckpt_open(path, &p.one, err);
        cover_job_saved(many, p.save, path);
        if (status == CS_OK)
            status = cs_ckpt_open(path, &p.many, err);
        if (status == CS_OK)
            status = compare_save(plan, &p, limit, w, err);
        cs_ckpt_close(p.one);
        cs_ckpt_close(p.many);
        p.one = p.many = NULL;
    }
    free(p.a);
    free(p.b);
    return status;
}

enum cs_status cover_compare(const struct cover_plan *plan, const struct cover_outcome *one,
                             const struct cover_outcome *many, double slack, double *worst,
                             struct cs_err *err)
{
    struct worst w = {.over = 0};
    compare_steps(one, many, slack * 1e-5, &w);
    CS_TRY(compare_saves(plan, one, many, slack * 1e-5, &w, err));
    *worst = w.over;
    return w.over <= 1 ? CS_OK : cs_fail(err, CS_CORRUPT, "%s", w.text);
}

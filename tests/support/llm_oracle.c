/* A language model in fp64, row by row. */
#include "tests/support/llm_oracle.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

void cs_oracle_lay_out(struct cs_oracle *oracle, const struct cs_graph *graph, int64_t fill_rows)
{
    const struct cs_module *llm = cs_graph_llm(graph);
    int64_t at = 0;
    assert_int_equal(llm->kind, CS_MODULE_LLM);
    oracle->arch = &llm->arch;
    oracle->n_layers = llm->arch.n_layers;
    assert_true(oracle->n_layers <= 16 && !graph->is_tied && !llm->arch.has_qkv_bias);
    for (int r = 0; r < CS_PARAM_ROLE_COUNT; r++)
        for (int l = 0; l < 16; l++)
            oracle->at[r][l] = -1;
    for (int32_t i = 0; i < graph->n_params; i++) {
        const struct cs_param *p = &graph->params[i];
        if (p->module != graph->n_modules - 1)
            continue;
        oracle->at[p->role][graph->layers[p->layer].index] = at;
        at += p->count;
    }
    oracle->fill_at = at;
    oracle->n_values = at + fill_rows * llm->arch.width;
}

static double *new_rows(int64_t n)
{
    double *rows = calloc((size_t)n + 1, sizeof *rows);
    assert_non_null(rows);
    return rows;
}

/* y (n, out) = x (n, in) w^T */
static double *linear(int n, int in, int out, const double *x, const double *w)
{
    double *y = new_rows((int64_t)n * out);
    for (int r = 0; r < n; r++)
        for (int o = 0; o < out; o++) {
            double sum = 0;
            for (int i = 0; i < in; i++)
                sum += x[(int64_t)r * in + i] * w[(int64_t)o * in + i];
            y[(int64_t)r * out + o] = sum;
        }
    return y;
}

static double *rms_norm(const struct cs_oracle *o, int n, const double *x, const double *w)
{
    const int width = o->arch->width;
    double *y = new_rows((int64_t)n * width);
    for (int r = 0; r < n; r++) {
        double square = 0;
        for (int i = 0; i < width; i++)
            square += x[r * width + i] * x[r * width + i];
        const double scale = 1 / sqrt(square / width + (double)o->arch->norm_eps);
        for (int i = 0; i < width; i++)
            y[r * width + i] = x[r * width + i] * scale * w[i];
    }
    return y;
}

static void rotate(const struct cs_oracle *o, int heads, double *x)
{
    const int dim = o->arch->attention->head_dim, half = dim / 2;
    for (int r = 0; r < o->n; r++)
        for (int h = 0; h < heads; h++)
            for (int i = 0; i < half; i++) {
                double *at = x + ((int64_t)r * heads + h) * dim + i;
                const double c = (double)o->cos[r * half + i], s = (double)o->sin[r * half + i];
                const double a = at[0], b = at[half];
                at[0] = a * c - b * s;
                at[half] = b * c + a * s;
            }
}

/* One row of one head; a row that sees nothing gives zeros. score: room for n. */
static void attend_row(const struct cs_oracle *o, int row, int head, const double *q,
                       const double *k, const double *v, double *score, double *out)
{
    const struct cs_arch *a = o->arch;
    const int dim = a->attention->head_dim,
              kv = head / (a->attention->n_heads / a->attention->n_kv_heads);
    const double *own = q + ((int64_t)row * a->attention->n_heads + head) * dim;
    double most = -INFINITY, sum = 0;
    for (int j = 0; j < o->n; j++) {
        score[j] = -INFINITY;
        if (!o->allow[(int64_t)row * o->n + j])
            continue;
        score[j] = 0;
        for (int i = 0; i < dim; i++)
            score[j] += own[i] * k[((int64_t)j * a->attention->n_kv_heads + kv) * dim + i];
        score[j] /= sqrt((double)dim);
        most = score[j] > most ? score[j] : most;
    }
    for (int j = 0; j < o->n; j++) {
        if (!o->allow[(int64_t)row * o->n + j])
            continue;
        const double p = exp(score[j] - most);
        sum += p;
        for (int i = 0; i < dim; i++)
            out[i] += p * v[((int64_t)j * a->attention->n_kv_heads + kv) * dim + i];
    }
    for (int i = 0; i < dim && sum > 0; i++)
        out[i] /= sum;
}

static double *attend(const struct cs_oracle *o, const double *q, const double *k, const double *v)
{
    const int heads = o->arch->attention->n_heads, dim = o->arch->attention->head_dim;
    double *out = new_rows((int64_t)o->n * heads * dim), *score = new_rows(o->n);
    for (int r = 0; r < o->n; r++)
        for (int h = 0; h < heads; h++)
            attend_row(o, r, h, q, k, v, score, out + ((int64_t)r * heads + h) * dim);
    free(score);
    return out;
}

static void add(double *x, double *y, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        x[i] += y[i];
    free(y);
}

static const double *weight(const struct cs_oracle *o, const double *values,
                            enum cs_param_role role, int layer)
{
    assert_true(o->at[role][layer] >= 0);
    return values + o->at[role][layer];
}

static void block(const struct cs_oracle *o, const double *values, int l, double *x)
{
    const struct cs_arch *a = o->arch;
    const int n = o->n, width = a->width, heads = a->attention->n_heads * a->attention->head_dim,
              kv = a->attention->n_kv_heads * a->attention->head_dim;
    double *h = rms_norm(o, n, x, weight(o, values, CS_PARAM_NORM1_W, l));
    double *q = linear(n, width, heads, h, weight(o, values, CS_PARAM_Q_W, l));
    double *k = linear(n, width, kv, h, weight(o, values, CS_PARAM_K_W, l));
    double *v = linear(n, width, kv, h, weight(o, values, CS_PARAM_V_W, l));
    rotate(o, a->attention->n_heads, q);
    rotate(o, a->attention->n_kv_heads, k);
    double *out = attend(o, q, k, v);
    add(x, linear(n, heads, width, out, weight(o, values, CS_PARAM_O_W, l)), (int64_t)n * width);
    free(h);
    h = rms_norm(o, n, x, weight(o, values, CS_PARAM_NORM2_W, l));
    double *gate = linear(n, width, a->ffn_width, h, weight(o, values, CS_PARAM_GATE_W, l));
    double *up = linear(n, width, a->ffn_width, h, weight(o, values, CS_PARAM_UP_W, l));
    for (int64_t i = 0; i < (int64_t)n * a->ffn_width; i++)
        up[i] *= gate[i] / (1 + exp(-gate[i]));
    add(x, linear(n, a->ffn_width, width, up, weight(o, values, CS_PARAM_DOWN_W, l)),
        (int64_t)n * width);
    free(h);
    free(q);
    free(k);
    free(v);
    free(out);
    free(gate);
    free(up);
}

static double head(const struct cs_oracle *o, const double *values, const double *x)
{
    const int width = o->arch->width, vocab = o->arch->vocab;
    double loss = 0;
    for (int i = 0; i < o->n_labels; i++) {
        double *h = rms_norm(o, 1, x + (int64_t)o->label_rows[i] * width,
                             weight(o, values, CS_PARAM_NORM_W, 0));
        double *z = linear(1, width, vocab, h, weight(o, values, CS_PARAM_HEAD_W, 0));
        double most = -INFINITY, sum = 0;
        for (int t = 0; t < vocab; t++)
            most = z[t] > most ? z[t] : most;
        for (int t = 0; t < vocab; t++)
            sum += exp(z[t] - most);
        loss += most + log(sum) - z[o->label_ids[i]];
        free(h);
        free(z);
    }
    return loss;
}

double cs_oracle_loss(const struct cs_oracle *oracle, const double *values)
{
    const int width = oracle->arch->width;
    const double *embed = weight(oracle, values, CS_PARAM_EMBED, 0),
                 *fill = values + oracle->fill_at;
    double *x = new_rows((int64_t)oracle->n * width);
    for (int r = 0; r < oracle->n; r++) {
        const bool is_fill = oracle->ids[r] < 0;
        memcpy(x + (int64_t)r * width, is_fill ? fill : embed + (int64_t)oracle->ids[r] * width,
               (size_t)width * sizeof *x);
        fill += is_fill ? width : 0;
    }
    for (int l = 0; l < oracle->n_layers; l++)
        block(oracle, values, l, x);
    const double loss = head(oracle, values, x);
    free(x);
    return loss;
}

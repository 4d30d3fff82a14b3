/* One chunk of the gated delta rule by matrix products; the formulas stand in the header. */
#include "kernels/cpu/delta_chunk.h"

#include <cblas.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

static const struct {
    size_t field;       /* of struct cs_delta_chunk */
    char rows, columns; /* n, k, v: of the chunk, dk, dv; 1 */
} arrays[] = {

#define ARRAY(field, rows, columns)                                                                \
    {                                                                                              \
        offsetof(struct cs_delta_chunk, field), rows, columns                                      \
    }
    ARRAY(q, 'n', 'k'),    ARRAY(k, 'n', 'k'),     ARRAY(v, 'n', 'v'),      ARRAY(g, 'n', '1'),
    ARRAY(beta, 'n', '1'), ARRAY(sum, 'n', '1'),   ARRAY(grow, 'n', '1'),   ARRAY(decay, 'n', 'n'),
    ARRAY(dots, 'n', 'n'), ARRAY(lower, 'n', 'n'), ARRAY(a, 'n', 'n'),      ARRAY(qk, 'n', 'n'),
    ARRAY(u0, 'n', 'v'),   ARRAY(u, 'n', 'v'),     ARRAY(w, 'n', 'k'),      ARRAY(kd, 'n', 'k'),
    ARRAY(qs, 'n', 'k'),   ARRAY(d_o, 'n', 'v'),   ARRAY(du, 'n', 'v'),     ARRAY(dbv, 'n', 'v'),
    ARRAY(dbk, 'n', 'k'),  ARRAY(us, 'n', 'k'),    ARRAY(da, 'n', 'n'),     ARRAY(dl, 'n', 'n'),
    ARRAY(m, 'n', 'n'),    ARRAY(dq, 'n', 'k'),    ARRAY(dk_out, 'n', 'k'), ARRAY(dv_out, 'n', 'v'),
    ARRAY(dg, 'n', '1'),   ARRAY(dbeta, 'n', '1'),
#undef ARRAY
};

static size_t side(char code, int32_t n, int32_t dk, int32_t dv)
{
    return code == 'n' ? (size_t)n : code == 'k' ? (size_t)dk : code == 'v' ? (size_t)dv : 1;
}

static size_t array_bytes(size_t i, int32_t n, int32_t dk, int32_t dv)
{
    return side(arrays[i].rows, n, dk, dv) * side(arrays[i].columns, n, dk, dv) * sizeof(float);
}

size_t cs_delta_chunk_bytes(int32_t n, int32_t dk, int32_t dv)
{
    size_t all = 0;
    for (size_t i = 0; i < CS_ARRAY_LEN(arrays); i++)
        all += cs_carve_bound(array_bytes(i, n, dk, dv));
    return all;
}

void cs_delta_chunk_place(struct cs_carve *carve, int32_t n, int32_t dk, int32_t dv,
                          struct cs_delta_chunk *out)
{
    *out = (struct cs_delta_chunk){.n = n, .dk = dk, .dv = dv};
    for (size_t i = 0; i < CS_ARRAY_LEN(arrays); i++) {
        float *p = cs_carve_take(carve, array_bytes(i, n, dk, dv));
        memcpy((char *)out + arrays[i].field, &p, sizeof p);
    }
}

/* y (n, width) = factor of the row times x */
static void scale_rows(int32_t n, int32_t width, const float *factor, const float *x, float *y)
{
    for (int32_t i = 0; i < n; i++)
        for (int32_t j = 0; j < width; j++)
            y[i * width + j] = factor[i] * x[i * width + j];
}

/* x (n, width) <- (I + L)^-1 x, or its transpose */
static void solve(const struct cs_delta_chunk *c, bool is_transposed, int32_t width, float *x)
{
    cblas_strsm(CblasRowMajor, CblasLeft, CblasLower, is_transposed ? CblasTrans : CblasNoTrans,
                CblasUnit, c->n, width, 1.0f, c->lower, c->n, x, width);
}

static float dot(int32_t n, const float *a, const float *b)
{
    float lane[CS_LANES] = {0};
    for (int32_t i = 0; i < n; i++)
        lane[i % CS_LANES] += a[i] * b[i];
    for (int32_t half = CS_LANES / 2; half > 0; half /= 2)
        for (int32_t i = 0; i < half; i++)
            lane[i] += lane[i + half];
    return lane[0];
}

/* Differences first, then the exponential: nothing overflows however strong the decay. Sums are taken
 * in fp64 and rounded, as PyTorch takes them. */
static void find_decays(struct cs_delta_chunk *c)
{
    double exact = 0.0;
    for (int32_t i = 0; i < c->n; i++) {
        exact += (double)c->g[i];
        const float sum = (float)exact;
        c->sum[i] = sum;
        c->grow[i] = expf(sum);
        for (int32_t j = 0; j < c->n; j++)
            c->decay[i * c->n + j] = j <= i ? expf(sum - c->sum[j]) : 0.0f;
    }
}

void cs_delta_chunk_begin(struct cs_delta_chunk *c)
{
    const int32_t n = c->n, dk = c->dk, dv = c->dv;
    find_decays(c);
    cs_cpu_sgemm(0, 1, n, n, dk, 1.0f, c->k, dk, c->k, dk, 0.0f, c->dots, n);
    cs_cpu_sgemm(0, 1, n, n, dk, 1.0f, c->q, dk, c->k, dk, 0.0f, c->qk, n);
    for (int32_t i = 0; i < n; i++)
        for (int32_t j = 0; j < n; j++) {
            const int32_t at = i * n + j;
            c->lower[at] = j < i ? c->beta[i] * c->decay[at] * c->dots[at] : 0.0f;
            c->a[at] = c->decay[at] * c->qk[at];
        }
    scale_rows(n, dv, c->beta, c->v, c->u0);
    scale_rows(n, dk, c->grow, c->k, c->w);
    scale_rows(n, dk, c->beta, c->w, c->w);
    solve(c, false, dv, c->u0);
    solve(c, false, dk, c->w);
    scale_rows(n, dk, c->decay + (size_t)(n - 1) * (size_t)n, c->k, c->kd);
}

/* U = U0 - W S */
static void find_u(struct cs_delta_chunk *c, const float *state)
{
    const int32_t n = c->n, dk = c->dk, dv = c->dv;
    memcpy(c->u, c->u0, (size_t)n * (size_t)dv * sizeof *c->u);
    cs_cpu_sgemm(0, 0, n, dv, dk, -1.0f, c->w, dk, state, dv, 1.0f, c->u, dv);
}

void cs_delta_chunk_forward(struct cs_delta_chunk *c, float *state, float *o)
{
    const int32_t n = c->n, dk = c->dk, dv = c->dv;
    find_u(c, state);
    if (o != NULL) {
        scale_rows(n, dk, c->grow, c->q, c->qs);
        cs_cpu_sgemm(0, 0, n, dv, dk, 1.0f, c->qs, dk, state, dv, 0.0f, o, dv);
        cs_cpu_sgemm(0, 0, n, dv, n, 1.0f, c->a, n, c->u, dv, 1.0f, o, dv);
    }
    cs_cpu_sgemm(1, 0, dk, dv, n, 1.0f, c->kd, dk, c->u, dv, c->grow[n - 1], state, dv);
}

/* S' = e^(G_n) S + Kd^T (U0 - W S), column by column of S */
void cs_delta_chunk_map(struct cs_delta_chunk *c, float *map)
{
    const int32_t n = c->n, dk = c->dk;
    cs_cpu_sgemm(0, 0, n, dk, dk, 1.0f, c->w, dk, map, dk, 0.0f, c->qs, dk);
    cs_cpu_sgemm(1, 0, dk, dk, n, -1.0f, c->kd, dk, c->qs, dk, c->grow[n - 1], map, dk);
}

/* dU = A^T dO + Kd dS' */
static void find_du(struct cs_delta_chunk *c, const float *d_state)
{
    const int32_t n = c->n, dk = c->dk, dv = c->dv;
    cs_cpu_sgemm(1, 0, n, dv, n, 1.0f, c->a, n, c->d_o, dv, 0.0f, c->du, dv);
    cs_cpu_sgemm(0, 0, n, dv, dk, 1.0f, c->kd, dk, d_state, dv, 1.0f, c->du, dv);
}

/* dS = e^(G_n) dS' + (e^G q)^T dO - W^T dU */
static void pull_state(struct cs_delta_chunk *c, float *d_state)
{
    const int32_t n = c->n, dk = c->dk, dv = c->dv;
    scale_rows(n, dk, c->grow, c->q, c->qs);
    cs_cpu_sgemm(1, 0, dk, dv, n, 1.0f, c->qs, dk, c->d_o, dv, c->grow[n - 1], d_state, dv);
    cs_cpu_sgemm(1, 0, dk, dv, n, -1.0f, c->w, dk, c->du, dv, 1.0f, d_state, dv);
}

void cs_delta_chunk_ask(struct cs_delta_chunk *c, float *d_state)
{
    find_du(c, d_state);
    pull_state(c, d_state);
}

/* dL, from the gradients of (I + L)^-1 (beta v) and of (I + L)^-1 (beta e^G k) */
static void solve_backward(struct cs_delta_chunk *c, const float *state)
{
    const int32_t n = c->n, dk = c->dk, dv = c->dv;
    memcpy(c->dbv, c->du, (size_t)n * (size_t)dv * sizeof *c->dbv);
    cs_cpu_sgemm(0, 1, n, dk, dv, -1.0f, c->du, dv, state, dv, 0.0f, c->dbk, dk);
    solve(c, true, dv, c->dbv);
    solve(c, true, dk, c->dbk);
    cs_cpu_sgemm(0, 1, n, n, dv, -1.0f, c->dbv, dv, c->u0, dv, 0.0f, c->dl, n);
    cs_cpu_sgemm(0, 1, n, n, dk, -1.0f, c->dbk, dk, c->w, dk, 1.0f, c->dl, n);
}

/* Gradients of q and k from those of the n x n matrices and of the state. */
static void keys_backward(struct cs_delta_chunk *c)
{
    const int32_t n = c->n, dk = c->dk;
    for (int32_t i = 0; i < n; i++)
        for (int32_t j = 0; j < n; j++) {
            const int32_t at = i * n + j;
            c->m[at] = j < i ? c->dl[at] * c->decay[at] * c->beta[i] : 0.0f;
            c->da[at] *= c->decay[at];
        }
    scale_rows(n, dk, c->grow, c->qs, c->dq);
    cs_cpu_sgemm(0, 0, n, dk, n, 1.0f, c->da, n, c->k, dk, 1.0f, c->dq, dk);
    for (int32_t i = 0; i < n; i++)
        for (int32_t j = 0; j < dk; j++)
            c->dk_out[i * dk + j] = c->beta[i] * c->grow[i] * c->dbk[i * dk + j] +
                                    c->decay[(n - 1) * n + i] * c->us[i * dk + j];
    cs_cpu_sgemm(1, 0, n, dk, n, 1.0f, c->da, n, c->q, dk, 1.0f, c->dk_out, dk);
    cs_cpu_sgemm(0, 0, n, dk, n, 1.0f, c->m, n, c->k, dk, 1.0f, c->dk_out, dk);
    cs_cpu_sgemm(1, 0, n, dk, n, 1.0f, c->m, n, c->k, dk, 1.0f, c->dk_out, dk);
}

/* Gradients of beta and of G, then of g: what the decays of all later rows ask. da is dA D here. */
static void gates_backward(struct cs_delta_chunk *c, float of_state)
{
    const int32_t n = c->n, dk = c->dk, dv = c->dv;
    float all = 0.0f;
    memset(c->dg, 0, (size_t)n * sizeof *c->dg);
    for (int32_t i = 0; i < n; i++) {
        const float *k = c->k + i * dk, *dbk = c->dbk + i * dk;
        float beta = dot(dv, c->dbv + i * dv, c->v + i * dv) + c->grow[i] * dot(dk, dbk, k);
        for (int32_t j = 0; j <= i; j++) {
            const int32_t at = i * n + j;
            const float pull = c->da[at] * c->qk[at] + c->m[at] * c->dots[at];
            c->dg[i] += pull;
            c->dg[j] -= pull;
            if (j < i)
                beta += c->dl[at] * c->decay[at] * c->dots[at];
        }
        const float kept = dot(dk, c->kd + i * dk, c->us + i * dk);
        c->dg[i] += c->grow[i] * dot(dk, c->q + i * dk, c->qs + i * dk) +
                    c->beta[i] * c->grow[i] * dot(dk, dbk, k) - kept;
        all += kept;
        c->dbeta[i] = beta;
    }
    c->dg[n - 1] += all + c->grow[n - 1] * of_state;
    for (int32_t i = n - 2; i >= 0; i--)
        c->dg[i] += c->dg[i + 1];
}

void cs_delta_chunk_backward(struct cs_delta_chunk *c, const float *state, float *d_state)
{
    const int32_t n = c->n, dk = c->dk, dv = c->dv;
    const float of_state = dot(dk * dv, state, d_state);
    find_u(c, state);
    find_du(c, d_state);
    cs_cpu_sgemm(0, 1, n, dk, dv, 1.0f, c->u, dv, d_state, dv, 0.0f, c->us, dk);
    cs_cpu_sgemm(0, 1, n, n, dv, 1.0f, c->d_o, dv, c->u, dv, 0.0f, c->da, n);
    solve_backward(c, state);
    pull_state(c, d_state);
    cs_cpu_sgemm(0, 1, n, dk, dv, 1.0f, c->d_o, dv, state, dv, 0.0f, c->qs, dk);
    keys_backward(c);
    gates_backward(c, of_state);
    scale_rows(n, dv, c->beta, c->dbv, c->dv_out);
}

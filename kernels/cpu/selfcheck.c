/* Some OpenBLAS builds compute wrong results on processors they do not know. Before training
 * starts, compare sgemm with a plain loop (fp64 sums) on odd shapes, transposed and with padded
 * rows. */
#include <math.h>
#include <stdlib.h>

#include "kernels/cpu/cpu.h"

#define MAX_SIDE 150
#define PAD      3
#define MAX_AREA ((MAX_SIDE + PAD) * (MAX_SIDE + PAD))

static const int shapes[][3] = {
    {1,   1,   1  },
    {1,   7,   3  },
    {2,   3,   5  },
    {5,   1,   17 },
    {4,   4,   4  },
    {8,   8,   8  },
    {7,   9,   11 },
    {16,  16,  16 },
    {17,  15,  33 },
    {31,  33,  1  },
    {33,  65,  16 },
    {48,  64,  96 },
    {64,  64,  64 },
    {1,   150, 150},
    {150, 127, 129},
};

struct gemm_case {
    int m, n, k, trans_a, trans_b, lda, ldb, ldc;
    float alpha, beta;
};

/* xorshift: the same small numbers on every machine */
static void fill(float *x, int n, uint32_t seed)
{
    uint32_t s = seed * 2654435761u + 1u;
    for (int i = 0; i < n; i++) {
        s ^= s << 13;
        s ^= s >> 17;
        s ^= s << 5;
        x[i] = (float)(s >> 8) / 8388608.0f - 1.0f;
    }
}

/* Largest error of c against the plain product, in units of what rounding explains; NaN counts. */
static bool matches(const struct gemm_case *g, const float *a, const float *b, const float *before,
                    const float *c)
{
    for (int i = 0; i < g->m; i++)
        for (int j = 0; j < g->n; j++) {
            double sum = 0, size = 0;
            for (int p = 0; p < g->k; p++) {
                const double av = (double)(g->trans_a ? a[p * g->lda + i] : a[i * g->lda + p]);
                const double bv = (double)(g->trans_b ? b[j * g->ldb + p] : b[p * g->ldb + j]);
                sum += av * bv;
                size += fabs(av * bv);
            }
            const double old = (double)before[i * g->ldc + j];
            const double want = (double)g->alpha * sum + (double)g->beta * old;
            const double tol = 1e-6 * (fabs((double)g->alpha) * size + fabs(old) + 1e-3) *
                               (1.0 + (double)g->k / 64.0);
            if (!(fabs((double)c[i * g->ldc + j] - want) <= tol))
                return false;
        }
    return true;
}

/* Rows of c are padded: what lies between them must stay as it was. */
static bool padding_untouched(const struct gemm_case *g, const float *before, const float *c)
{
    for (int i = 0; i < g->m; i++)
        for (int j = g->n; j < g->ldc; j++)
            if (!(c[i * g->ldc + j] == before[i * g->ldc + j]))
                return false;
    return true;
}

static enum cs_status check_case(const struct gemm_case *g, float *area, struct cs_err *err)
{
    float *a = area, *b = a + MAX_AREA, *c = b + MAX_AREA, *before = c + MAX_AREA;
    fill(a, MAX_AREA, (uint32_t)(g->m * 3 + g->k));
    fill(b, MAX_AREA, (uint32_t)(g->n * 5 + g->k));
    fill(c, MAX_AREA, 7);
    fill(before, MAX_AREA, 7);
    cs_cpu_sgemm(g->trans_a, g->trans_b, g->m, g->n, g->k, g->alpha, a, g->lda, b, g->ldb, g->beta,
                 c, g->ldc);
    if (matches(g, a, b, before, c) && padding_untouched(g, before, c))
        return CS_OK;
    return cs_fail(err, CS_INTERNAL,
                   "OpenBLAS computes a wrong matrix product on this processor (m %d, n %d, k %d, "
                   "transposed %d/%d); set OPENBLAS_CORETYPE=HASWELL or install a newer OpenBLAS",
                   g->m, g->n, g->k, g->trans_a, g->trans_b);
}

enum cs_status cs_ops_cpu_selfcheck(struct cs_err *err)
{
    float *area = malloc(4 * (size_t)MAX_AREA * sizeof *area);
    if (area == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory for the check of OpenBLAS");
    enum cs_status status = CS_OK;
    for (size_t i = 0; i < 4 * CS_ARRAY_LEN(shapes) && status == CS_OK; i++) {
        const int *s = shapes[i / 4], ta = (int)(i & 1), tb = (int)(i >> 1 & 1);
        const int pad = i % 3 == 0 ? 0 : PAD;
        const struct gemm_case g = {
            .m = s[0],
            .n = s[1],
            .k = s[2],
            .trans_a = ta,
            .trans_b = tb,
            .lda = (ta ? s[0] : s[2]) + pad,
            .ldb = (tb ? s[2] : s[1]) + pad,
            .ldc = s[1] + pad,
            .alpha = i % 5 == 0 ? 0.5f : 1.0f,
            .beta = i % 2 == 0 ? 0.0f : 1.0f,
        };
        status = check_case(&g, area, err);
    }
    free(area);
    return status;
}

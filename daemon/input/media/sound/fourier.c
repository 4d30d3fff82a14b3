/* The real samples are taken as n/2 complex ones, transformed by decimation in time with the prime factors of
 * n/2, and taken apart again. */
#include "input/media/sound/fourier.h"

#include <math.h>
#include <stdlib.h>

#include "core/base/status.h"

enum { MAX_FACTORS = 16 };

struct complex {
    double re, im;
};

struct cs_fourier {
    int n, half; /* samples; complex ones */
    int factor[MAX_FACTORS], n_factors;
    struct complex *turn; /* (n) e^(-2 pi i k / n) */
};

static struct complex times(struct complex a, struct complex b)
{
    return (struct complex){a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

static void factorise(struct cs_fourier *f)
{
    int rest = f->half;

    for (int p = 2; rest > 1; p++)
        for (; rest % p == 0; rest /= p)
            f->factor[f->n_factors++] = p;
}

struct cs_fourier *cs_fourier_new(int n)
{
    struct cs_fourier *f = calloc(1, sizeof *f);

    CS_ASSERT(n >= 2 && n % 2 == 0 && n <= CS_FOURIER_MAX);
    if (f == NULL)
        return NULL;
    f->n = n;
    f->half = n / 2;
    f->turn = malloc((size_t)n * sizeof *f->turn);
    if (f->turn == NULL) {
        free(f);
        return NULL;
    }
    for (int k = 0; k < n; k++) {
        double angle = -2.0 * M_PI * k / n;
        f->turn[k] = (struct complex){cos(angle), sin(angle)};
    }
    factorise(f);
    return f;
}

void cs_fourier_free(struct cs_fourier *f)
{
    if (f == NULL)
        return;
    free(f->turn);
    free(f);
}

size_t cs_fourier_scratch(const struct cs_fourier *f)
{
    return (size_t)f->half * 2 * 2; /* result, and one column of a step */
}

/* The p transforms of length m that lie one behind the other become one of length p * m. */
static void combine(const struct cs_fourier *f, struct complex *out, int m, int p,
                    struct complex *column)
{
    const int turn = f->n / (p * m);

    for (int u = 0; u < m; u++) {
        for (int k = 0; k < p; k++)
            column[k] = times(out[u + k * m], f->turn[turn * u * k]);
        for (int q = 0; q < p; q++) {
            struct complex sum = column[0];
            for (int k = 1; k < p; k++) {
                struct complex t = times(column[k], f->turn[(turn * m * q * k) % f->n]);
                sum.re += t.re;
                sum.im += t.im;
            }
            out[u + q * m] = sum;
        }
    }
}

/* in: every stride-th value -> out (n) */
static void transform(const struct cs_fourier *f, const struct complex *in, int stride,
                      struct complex *out, int n, int level, struct complex *column)
{
    if (n == 1) {
        out[0] = in[0];
        return;
    }
    const int p = f->factor[level], m = n / p;
    for (int k = 0; k < p; k++)
        transform(f, in + k * stride, stride * p, out + k * m, m, level + 1, column);
    combine(f, out, m, p, column);
}

void cs_fourier_power(const struct cs_fourier *f, const double *x, double *scratch, double *power)
{
    const int h = f->half;
    struct complex *z = (struct complex *)(void *)scratch, *column = z + h;

    transform(f, (const struct complex *)(const void *)x, 1, z, h, 0, column);
    for (int k = 0; k <= h; k++) {
        const struct complex a = z[k % h], b = z[(h - k) % h];
        const struct complex even = {(a.re + b.re) / 2, (a.im - b.im) / 2};
        const struct complex odd = {(a.im + b.im) / 2, (b.re - a.re) / 2};
        const struct complex turned = times(odd, k < h ? f->turn[k] : (struct complex){-1.0, 0.0});
        const double re = even.re + turned.re, im = even.im + turned.im;
        power[k] = re * re + im * im;
    }
}

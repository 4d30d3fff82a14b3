/* Attention over the GPUs of a context against one GPU: outputs and gradients of every row, bf16 and fp32,
 * for all layouts, rules and numbers of groups, whether keys or heads move, and tiles of the own keys come first or not, lengths that no rank divides: gpu_test_context [PLUGIN]
 * [--lazy]. It needs two GPUs; --lazy tries it without any. Exit: 0 passed, 1 not, 77 no two GPUs. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/context_lab.h"

/* Rounded to bf16 are: probabilities, outputs, gradients and, in a context, every rank's part of them. */
static double allowed(const struct cs_context_lab *lab)
{
    return strcmp(lab->precision, "fp32") == 0 ? 2e-5 : 2e-2;
}

static double norm(const float *x, const float *y, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) {
        const double d = (double)x[i] - (y != NULL ? (double)y[i] : 0.0);
        sum += d * d;
    }
    return sqrt(sum);
}

/* The worst row: how far apart, over its own length or, where that is small, that of most rows. */
static double worst(const float *x, const float *y, int64_t rows, int64_t columns)
{
    const double usual = norm(y, NULL, rows * columns) / sqrt((double)rows);
    double most = 0;
    for (int64_t r = 0; r < rows; r++) {
        const double own = norm(y + r * columns, NULL, columns),
                     size = own > 0.25 * usual ? own : 0.25 * usual,
                     off = norm(x + r * columns, y + r * columns, columns) / size;
        most = off > most || off != off ? off : most;
        if (off != off)
            return off;
    }
    return most;
}

static const struct {
    int32_t tokens, heads, kv_heads, dim;
} shapes[] = {
    {335,  8, 4, 64 },
    {5000, 8, 4, 128},
};

enum { MAX_CASES = 2 * CS_CONTEXT_LAB_LAYOUTS };

struct counts {
    int passed, failed;
};

static void check(const struct cs_context_lab *lab, const struct cs_context_lab_values *one,
                  const struct cs_context_lab_values *many, struct counts *counts)
{
    const int64_t q = (int64_t)lab->heads * lab->dim, kv = (int64_t)lab->kv_heads * lab->dim;
    const double off[] = {
        worst(many->o, one->o, lab->tokens, q), worst(many->dq, one->dq, lab->tokens, q),
        worst(many->dk, one->dk, lab->tokens, kv), worst(many->dv, one->dv, lab->tokens, kv)};
    bool is_good = true;
    for (int i = 0; i < 4; i++)
        is_good = is_good && off[i] <= allowed(lab); /* false for NaN */
    printf(
        "%s %s %-6s %s %d rows over %d, %s, %d %s groups, %d:%d heads of %d: o %.1e, dq %.1e, dk "
        "%.1e, dv %.1e\n",
        is_good ? "ok    " : "FAILED", lab->precision, lab->layout,
        lab->moves_heads ? "heads"
        : lab->own_first ? "keys, own first"
                         : "keys",
        lab->tokens, lab->ranks, lab->rule, lab->groups, lab->group_bytes > 0 ? "uneven" : "even",
        lab->heads, lab->kv_heads, lab->dim, off[0], off[1], off[2], off[3]);
    fflush(stdout);
    counts->passed += is_good;
    counts->failed += !is_good;
}

/* What goes between ranks, and whether attention over the own keys waits for the others. */
enum way { KEYS, OWN_FIRST, HEADS, WAYS };

/* Every shape and layout over so many ranks, each by a rule and in groups of its own; 1: one GPU. */
static int make_cases(const char *device, const char *precision, int ranks, enum way way,
                      int n_shapes, struct cs_context_lab *lab)
{
    static const char *const rules[] = {"lpt", "zigzag", "random"};
    int n = 0;
    for (int s = 0; s < n_shapes; s++)
        for (int l = 0; l < CS_CONTEXT_LAB_LAYOUTS; l++)
            lab[n++] = (struct cs_context_lab){.device = device,
                                               .precision = precision,
                                               .layout = cs_context_lab_layouts[l],
                                               .rule = rules[(s + l) % 3],
                                               .moves_heads = way == HEADS,
                                               .own_first = way == OWN_FIRST,
                                               .ranks = ranks,
                                               .groups = 1 + l % shapes[s].kv_heads,
                                               .group_bytes = (s + ranks) % 2, /* 1: uneven ones */
                                               .tokens = shapes[s].tokens,
                                               .heads = shapes[s].heads,
                                               .kv_heads = shapes[s].kv_heads,
                                               .dim = shapes[s].dim,
                                               .rounds = 1};
    return n;
}

/* One GPU once, then over every number of ranks. */
static void check_all(const char *device, const char *precision, int most_ranks, int n_shapes,
                      struct counts *counts)
{
    struct cs_context_lab lab[MAX_CASES];
    struct cs_context_lab_values one[MAX_CASES], many[MAX_CASES];
    struct cs_context_lab_result results[MAX_CASES];
    const int n = make_cases(device, precision, 1, KEYS, n_shapes, lab);
    for (int i = 0; i < n; i++) {
        one[i] = cs_context_lab_new_values(&lab[i]);
        many[i] = cs_context_lab_new_values(&lab[i]);
    }
    cs_context_lab_run(lab, n, one, results);
    for (int k = 0; k < WAYS * (most_ranks - 1); k++) {
        const int ranks = 2 + k / WAYS;
        const enum way way = (enum way)(k % WAYS);
        if (way == HEADS && shapes[0].heads % ranks != 0)
            continue;
        make_cases(device, precision, ranks, way, n_shapes, lab);
        cs_context_lab_run(lab, n, many, results);
        for (int i = 0; i < n; i++)
            check(&lab[i], &one[i], &many[i], counts);
    }
    for (int i = 0; i < n; i++) {
        cs_context_lab_free_values(&lab[i], &one[i]);
        cs_context_lab_free_values(&lab[i], &many[i]);
    }
}

int main(int argc, char **argv)
{
    const bool is_lazy = argc > 1 && strcmp(argv[argc - 1], "--lazy") == 0;
    const int gpus = is_lazy ? 3 : cs_context_lab_gpus();
    struct counts counts = {0, 0};
    if (gpus < 2) {
        fprintf(stderr, "skipped: %d GPUs, two are needed\n", gpus);
        return 77;
    }
    const int most = gpus < 4 ? gpus : 4;
    if (is_lazy) {
        check_all("lazy", "fp32", most, 1, &counts);
    } else {
        check_all("cuda", "fp32", most, 2, &counts);
        check_all("cuda", "bf16", most, 2, &counts);
    }
    printf("%d passed, %d failed\n", counts.passed, counts.failed);
    return counts.failed > 0;
}

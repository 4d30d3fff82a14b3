/* Attention on the GPU against the naive kernels of attention_oracle.cu: forward, log-sum-exp and
 * all three gradients, outputs and workspace poisoned, gaps between rows untouched. */
#include "gpu/attention_cases.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/mask/span.h"

static const int32_t lengths[] = {57, 128, 144, 256, 283, 512, 1000, 1024, 4097};
static const int32_t dims[] = {64, 72, 80, 96, 128, 256, 512};
static const int32_t groups[] = {1, 4, 8};

enum { LENGTHS = 9, SHORT = 6, DIMS = 7, GROUPS = 3 };

/* Worse than twice the eager program and the noise of sums that are 0? */
static bool is_close(const char *what, const struct att_difference *d, bool is_bf16, int32_t heads)
{
    const double tol = is_bf16 ? 2.0 * d->worst_eager + 5e-5 : 3e-5 * (1.0 + d->largest);
    if (d->worst <= tol && d->bad_rows == 0)
        return true;
    printf("    %s: off by %.3g (eager bf16: %.3g, largest %.3g), %lld bad rows", what, d->worst,
           d->worst_eager, d->largest, (long long)d->bad_rows);
    if (d->bad_rows > 0)
        printf(", such as row %lld of head %lld", (long long)(d->bad_row / heads),
               (long long)(d->bad_row % heads));
    printf("\n");
    return false;
}

/* A bad row of dq: how much of its error comes from rowsum(dO o) of the o as it was written. */
static void tell_row(struct att_oracle *oracle, const struct att_setup *s, int64_t at,
                     const struct att_reference *exact)
{
    const struct cs_attention_shape *shape = &s->shape;
    const size_t d = (size_t)shape->head_dim, width = (size_t)shape->heads * d;
    const int32_t rows = s->c.tokens;
    float *got = calloc(3 * (size_t)rows * width, sizeof *got);
    double *want = calloc(3 * (size_t)rows * width, sizeof *want);
    CS_ASSERT(got != NULL && want != NULL);
    const size_t all = (size_t)rows * width, from = (size_t)at * d;
    float *const o = got, *const d_o = got + all, *const dq = got + 2 * all;
    att_download_rows(oracle, o, s->o, true, rows, shape->o_stride, (int32_t)width);
    att_download_rows(oracle, d_o, s->d_o, true, rows, shape->o_stride, (int32_t)width);
    att_download_rows(oracle, dq, s->dq, true, rows, shape->q_stride, (int32_t)width);
    att_download(oracle, want, exact->o, (int64_t)all);
    att_download(oracle, want + all, exact->dq, (int64_t)all);
    att_download(oracle, want + 2 * all, exact->dq_noise, (int64_t)all);
    double shift = 0.0, size = 0.0, error = 0.0, along = 0.0, noise = 0.0;
    for (size_t i = from; i < from + d; i++) {
        const double off = (double)dq[i] - want[all + i], dir = want[2 * all + i];
        shift += (double)d_o[i] * ((double)o[i] - want[i]);
        size += (double)d_o[i] * want[i];
        error += off * off;
        along += off * dir;
        noise += dir * dir;
    }
    printf("        rowsum(dO o) %.4g, of o as written %+.3g; dq off by %.3g, of it %.3g along "
           "what that moves (%.2f standard deviations)\n",
           size, shift, sqrt(error), fabs(along) / sqrt(noise), fabs(along) / noise);
    free(got);
    free(want);
}

bool att_check_side(struct att_oracle *oracle, const struct att_setup *s, bool is_key,
                    const struct att_reference *exact, const struct att_reference *eager)
{
    const struct cs_attention_shape *shape = &s->shape;
    const bool is_bf16 = s->c.path != ATT_F32;

    const struct {
        const char *name, *x;
        int32_t stride;
        const double *exact, *eager, *noise;
    } one[2][2] = {
        {{"o", s->o, shape->o_stride, exact->o, eager->o, NULL},
         {"dq", s->dq, shape->q_stride, exact->dq, eager->dq, exact->dq_noise} },
        {{"dk", s->dkv, shape->kv_stride, exact->dk, eager->dk, exact->dk_noise},
         {"dv", s->dkv + s->v_at, shape->kv_stride, exact->dv, eager->dv, NULL}},
    };

    const int32_t rows = is_key ? s->mask.n_keys : s->c.tokens;
    const int32_t heads = is_key ? shape->kv_heads : shape->heads;
    bool is_good = true;
    for (int i = 0; i < 2; i++) {
        const struct att_difference d = att_compare(
            oracle, one[is_key][i].x, is_bf16, one[is_key][i].stride, rows, heads, shape->head_dim,
            one[is_key][i].exact, is_bf16 ? one[is_key][i].eager : NULL,
            is_bf16 ? one[is_key][i].noise : NULL);
        is_good = is_close(one[is_key][i].name, &d, is_bf16, heads) && is_good;
        if (is_bf16 && !is_key && i == 1 && d.bad_rows > 0)
            tell_row(oracle, s, d.bad_row, exact);
    }
    return is_good;
}

bool att_check_sinks(struct att_lab *lab, struct att_oracle *oracle, const struct att_setup *s,
                     const struct att_reference *exact, const struct att_reference *eager)
{
    double want[8], rough[8], noise[8], size[8];
    float got[8], before;
    const int32_t n = s->shape.heads;
    const bool is_bf16 = s->c.path != ATT_F32;
    if (!s->c.has_sinks)
        return true;
    att_download(oracle, want, exact->dsink, n);
    att_download(oracle, rough, eager->dsink, n);
    att_download(oracle, noise, exact->dsink_noise, n);
    att_download(oracle, size, exact->dsink_size, n);
    att_copy(lab, got, s->dsink, (size_t)n * sizeof *got);
    memset(&before, ATT_DSINK, sizeof before);
    bool is_good = true;
    for (int32_t h = 0; h < n; h++) {
        const double d = fabs((double)got[h] - (double)before - want[h]);
        const double tol = 2e-5 +
                           (s->c.is_capped ? 3e-3
                            : is_bf16      ? 3e-4
                                           : 3e-5) *
                               size[h] +
                           (is_bf16 ? 6.0 * noise[h] + 2.0 * fabs(rough[h] - want[h]) : 0.0);
        if (d <= tol)
            continue;
        printf("    dsink of head %d: %.6g more, want %.6g, off by %.3g (may be %.3g)\n", (int)h,
               (double)got[h] - (double)before, want[h], d, tol);
        is_good = false;
    }
    return is_good;
}

static bool check_gaps(struct att_oracle *oracle, const struct att_setup *s)
{
    const struct cs_attention_shape *shape = &s->shape;
    const int64_t words = (int64_t)s->ops->act_bytes / 2, d = shape->head_dim;
    const int64_t changed =
        att_changed_gap(oracle, s->o, s->c.tokens, words * shape->o_stride,
                        words * shape->heads * d) +
        att_changed_gap(oracle, s->dq, s->c.tokens, words * shape->q_stride,
                        words * shape->heads * d) +
        att_changed_gap(oracle, s->dkv, s->mask.n_keys, words * shape->kv_stride,
                        words * 2 * shape->kv_heads * d);
    if (changed != 0)
        printf("    %lld words between rows are overwritten\n", (long long)changed);
    return changed == 0;
}

struct att_operands att_operands_of(const struct att_setup *s)
{
    return (struct att_operands){s->q, s->kv, s->kv + s->v_at, s->d_o, s->c.path != ATT_F32};
}

/* Outputs as they are against the oracle for the operands as they are. */
static bool check_results(struct att_lab *lab, struct att_oracle *oracle, const struct att_setup *s)
{
    struct att_reference exact, eager;
    const struct att_operands x = att_operands_of(s);
    att_oracle_run(oracle, &s->shape, &s->plan, &x, &exact, &eager);
    bool is_good = att_check_side(oracle, s, false, &exact, &eager);
    is_good = att_check_side(oracle, s, true, &exact, &eager) && is_good;
    is_good = att_check_sinks(lab, oracle, s, &exact, &eager) && is_good;
    const int64_t n = (int64_t)s->shape.heads * s->c.tokens;
    const int64_t bad = att_compare_lse(oracle, s->lse, exact.lse, n, s->c.is_capped ? 3e-3 : 2e-4);
    if (bad != 0)
        printf("    lse: %lld of %lld are off\n", (long long)bad, (long long)n);
    return check_gaps(oracle, s) && bad == 0 && is_good;
}

static bool check_case(struct att_lab *lab, struct att_oracle *oracle, const struct att_setup *s)
{
    att_run(lab, s);
    att_no_errors(lab);
    return check_results(lab, oracle, s);
}

void att_verdict(struct att_lab *lab, const struct att_case *c, bool is_good)
{
    lab->passed += is_good;
    lab->failed += !is_good;
    if (is_good)
        return;
    att_describe(c);
    if (lab->failed > 40) {
        printf("too many failures\n%d passed, %d failed\n", lab->passed, lab->failed);
        exit(1);
    }
}

static void one(struct att_lab *lab, struct att_oracle *oracle, const struct att_case *c)
{
    struct att_setup s;
    att_set_up(lab, c, &s);
    att_verdict(lab, c, check_case(lab, oracle, &s));
    att_tear_down(lab, &s);
}

struct part { /* counters at its begin */
    const char *name;
    struct att_oracle *oracle;
    int passed, failed;
};

static struct part part_begin(struct att_lab *lab, const char *name)
{
    return (struct part){name, att_oracle_new(lab->stream), lab->passed, lab->failed};
}

static void part_end(struct att_lab *lab, const struct part *part)
{
    att_oracle_free(part->oracle);
    printf("%-4s %s: %d passed, %d failed\n", lab->failed == part->failed ? "ok" : "FAIL",
           part->name, lab->passed - part->passed, lab->failed - part->failed);
    fflush(stdout);
}

/* ---- a pairwise covering set, found greedily ---- */

enum { FACTORS = 7, MOST = 9 };

static const int values[FACTORS] = {CS_MASK_KINDS, LENGTHS, DIMS, GROUPS, ATT_ORDERS, 2, 2};

struct cover {
    bool has[FACTORS][MOST][FACTORS][MOST];
    int left;
};

static int gain(const struct cover *cover, const int *value, int known, int factor, int choice)
{
    int n = 0;
    for (int f = 0; f < known; f++)
        n += !cover->has[f][value[f]][factor][choice];
    return n;
}

/* The first uncovered pair, then for every other factor the value that covers most. */
static bool next_case(struct cover *cover, int *value)
{
    int best = -1;
    for (int start = 0; start < values[0] * values[1]; start++) {
        int candidate[FACTORS] = {start / values[1], start % values[1]};
        int n = gain(cover, candidate, 1, 1, candidate[1]);
        for (int f = 2; f < FACTORS; f++) {
            int choice = 0;
            for (int v = 1; v < values[f]; v++)
                if (gain(cover, candidate, f, f, v) > gain(cover, candidate, f, f, choice))
                    choice = v;
            n += gain(cover, candidate, f, f, choice);
            candidate[f] = choice;
        }
        if (n > best) {
            best = n;
            memcpy(value, candidate, sizeof candidate);
        }
    }
    for (int a = 0; a < FACTORS; a++)
        for (int b = a + 1; b < FACTORS; b++)
            cover->has[a][value[a]][b][value[b]] = true;
    cover->left -= best;
    return best > 0;
}

static int pairs_of_values(void)
{
    int n = 0;
    for (int a = 0; a < FACTORS; a++)
        for (int b = a + 1; b < FACTORS; b++)
            n += values[a] * values[b];
    return n;
}

/* The greedy choice may gain nothing although a pair of later factors is left: such pairs are put
 * into cases of their own. */
static bool force_case(struct cover *cover, int *value)
{
    for (int a = 0; a < FACTORS; a++)
        for (int b = a + 1; b < FACTORS; b++)
            for (int i = 0; i < values[a] * values[b]; i++) {
                if (cover->has[a][i / values[b]][b][i % values[b]])
                    continue;
                for (int f = 0; f < FACTORS; f++)
                    value[f] = 0;
                value[a] = i / values[b];
                value[b] = i % values[b];
                cover->left--;
                cover->has[a][value[a]][b][value[b]] = true;
                return true;
            }
    return false;
}

static struct att_case case_of(const int *value, int number)
{
    return (struct att_case){.kind = (enum cs_mask_kind)value[0],
                             .tokens = lengths[value[1]],
                             .dim = dims[value[2]],
                             .group = groups[value[3]],
                             .order = (enum att_order)value[4],
                             .is_capped = value[5] != 0,
                             .has_sinks = value[6] != 0,
                             .is_tight = number % 3 == 0,
                             .is_deterministic = number % 4 == 0};
}

static void pairs(struct att_lab *lab, struct att_oracle *oracle, enum att_path path)
{
    struct cover cover = {.left = pairs_of_values()};
    int value[FACTORS];
    for (int n = 0; cover.left > 0 && (next_case(&cover, value) || force_case(&cover, value));
         n++) {
        struct att_case c = case_of(value, n);
        c.path = path;
        one(lab, oracle, &c);
    }
}

void att_test_pairs(struct att_lab *lab)
{
    struct part part = part_begin(lab, "attention, every pair of properties");
    pairs(lab, part.oracle, ATT_LISTS);
    part_end(lab, &part);
}

/* Every stride-th case of the product. */
static void product(struct att_lab *lab, struct att_oracle *oracle, enum att_path path, int stride)
{
    int n = 0;
    for (int kind = 0; kind < CS_MASK_KINDS; kind++)
        for (int length = 0; length < SHORT; length++)
            for (int dim = 0; dim < DIMS; dim++)
                for (int group = 0; group < GROUPS; group++, n++) {
                    const int value[FACTORS] = {kind,           length,     dim,      group,
                                                n % ATT_ORDERS, n % 5 == 4, n % 7 < 3};
                    struct att_case c = case_of(value, n);
                    c.path = path;
                    if (n % stride == 0)
                        one(lab, oracle, &c);
                }
}

void att_test_product(struct att_lab *lab)
{
    struct part part = part_begin(lab, "attention, every rule, length to 512, size and group");
    product(lab, part.oracle, ATT_LISTS, 1);
    part_end(lab, &part);
}

void att_test_mma(struct att_lab *lab)
{
    struct part part = part_begin(lab, "attention, kernels for every card since 8.0");
    pairs(lab, part.oracle, ATT_MMA);
    product(lab, part.oracle, ATT_MMA, 5);
    part_end(lab, &part);
}

/* Ordinary scores hardly ever outgrow the largest of a row's first step by what the online softmax
 * lets pass; these do, at every step in some rows. */
void att_test_steep(struct att_lab *lab)
{
    struct part part = part_begin(lab, "attention, maxima of rows that grow");
    for (int n = 0; n < CS_MASK_KINDS * DIMS; n++) {
        const int value[FACTORS] = {n / DIMS,       5 + n % 3, n % DIMS, n % GROUPS,
                                    n % ATT_ORDERS, 0,         n % 2};
        struct att_case c = case_of(value, n);
        c.is_steep = true;
        for (int path = ATT_LISTS; path <= ATT_MMA; path++) {
            c.path = (enum att_path)path;
            one(lab, part.oracle, &c);
        }
    }
    part_end(lab, &part);
}

void att_test_portable(struct att_lab *lab)
{
    struct part part = part_begin(lab, "attention, portable kernels");
    int n = 0;
    for (int kind = 0; kind < CS_MASK_KINDS; kind++)
        for (int order = 0; order < ATT_ORDERS; order++, n++) {
            const int value[FACTORS] = {kind,  n % SHORT,  n * 5 % DIMS, n % GROUPS,
                                        order, n % 3 == 0, n % 4 < 2};
            struct att_case c = case_of(value, n);
            c.path = n % 2 == 0 ? ATT_RULE : ATT_F32;
            one(lab, part.oracle, &c);
        }
    part_end(lab, &part);
}

void att_test_small(struct att_lab *lab)
{
    const int passed = lab->passed;
    for (int i = 0; i < 4 * DIMS; i++) {
        const int n = i % (2 * DIMS);
        const int value[FACTORS] = {n % 2 == 0 ? CS_MASK_IMAGE_BIDIR : CS_MASK_CORNSTARCH,
                                    n < DIMS ? 4 : 1,
                                    n % DIMS,
                                    n % GROUPS,
                                    n % ATT_ORDERS,
                                    n == 3,
                                    n % 2};
        struct att_case c = case_of(value, n);
        struct att_setup s;
        c.path = i < 2 * DIMS ? ATT_LISTS : ATT_MMA;
        c.is_deterministic = n >= DIMS;
        att_set_up(lab, &c, &s);
        att_run(lab, &s);
        att_sync(lab);
        att_no_errors(lab);
        att_verdict(lab, &c, true);
        att_tear_down(lab, &s);
    }
    printf("ok   attention, few and short, not compared: %d ran\n", lab->passed - passed);
}

/* A recorded step (lists, forward, backward) is right for the operands and the mask that it
 * finds. */
void att_test_graph(struct att_lab *lab)
{
    struct part part = part_begin(lab, "attention, recorded and replayed under other masks");
    for (int n = 0; n < 2 * DIMS; n++) {
        const int value[FACTORS] = {n % CS_MASK_KINDS, 5 + n % 2, n % DIMS, n % GROUPS,
                                    ATT_PLAIN,         0,         n / 2 % 2};
        struct att_case c = case_of(value, n);
        struct att_setup s;
        struct att_mask other;
        c.path = n % 3 == 2 ? ATT_MMA : ATT_LISTS;
        att_set_up(lab, &c, &s);
        att_mask_make(lab, c.kind, c.tokens, ATT_PLAIN, &other);
        att_run(lab, &s); /* loads the kernels */
        att_record(lab);
        att_mask_build(lab, &s.mask);
        att_run(lab, &s);
        void *graph = att_recorded(lab);
        att_mask_take_tokens(lab, &s.mask, &other);
        att_random(lab->stream, s.q, true, (int64_t)(s.q_bytes / 2), lab->seed + 3);
        att_replay(lab, graph);
        att_sync(lab);
        att_no_errors(lab);
        att_verdict(lab, &c, check_results(lab, part.oracle, &s));
        lab->dev->graph_destroy(lab->handle, graph);
        att_mask_free(lab, &other);
        att_tear_down(lab, &s);
    }
    part_end(lab, &part);
}

/* ---- deterministic ---- */

static uint64_t hash_all(struct att_oracle *oracle, const struct att_setup *s)
{
    return att_hash(oracle, s->o, s->o_bytes) + 3 * att_hash(oracle, s->lse, s->lse_bytes) +
           5 * att_hash(oracle, s->dq, s->q_bytes) + 7 * att_hash(oracle, s->dkv, s->kv_bytes) +
           11 * att_hash(oracle, s->dsink, (size_t)s->shape.heads * sizeof *s->dsink);
}

void att_test_same(struct att_lab *lab)
{
    enum { RUNS = 20 };

    struct part part = part_begin(lab, "attention, deterministic: the same bits in 20 runs");
    for (int i = 0; i < 4 * DIMS; i++) {
        const int n = i % (2 * DIMS);
        const int value[FACTORS] = {n % CS_MASK_KINDS,
                                    n < DIMS ? 8 : 6,
                                    n % DIMS,
                                    (n + 1) % GROUPS,
                                    n % ATT_ORDERS,
                                    0,
                                    n % 2};
        struct att_case c = case_of(value, n);
        struct att_setup s;
        c.path = i < 2 * DIMS ? ATT_LISTS : ATT_MMA;
        c.is_deterministic = true;
        att_set_up(lab, &c, &s);
        att_run(lab, &s);
        const uint64_t first = hash_all(part.oracle, &s);
        int other = 0;
        for (int again = 1; again < RUNS; again++) {
            att_run(lab, &s);
            other += hash_all(part.oracle, &s) != first;
        }
        att_no_errors(lab);
        if (other > 0)
            printf("    %d of %d runs give other bits\n", other, RUNS - 1);
        att_verdict(lab, &c, other == 0);
        att_tear_down(lab, &s);
    }
    part_end(lab, &part);
}

/* ---- the naive kernels against the CPU operator ---- */

struct host {
    float *q, *k, *v, *d_o, *o, *lse, *dq, *dk, *dv;
    float sink[8], dsink[8];
};

static float *floats(int64_t n)
{
    float *x = malloc((size_t)n * sizeof *x);
    CS_ASSERT(x != NULL);
    return x;
}

static bool is_equal(struct att_oracle *oracle, const char *what, const float *cpu,
                     const double *device, int64_t n)
{
    double *x = malloc((size_t)n * sizeof *x), worst = 0.0;
    CS_ASSERT(x != NULL);
    att_download(oracle, x, device, n);
    int64_t bad = 0;
    for (int64_t i = 0; i < n; i++) {
        const double d = fabs((double)cpu[i] - x[i]);
        if ((double)cpu[i] == x[i] && isinf(x[i]))
            continue;
        bad += !(d <= 2e-5 * (1.0 + fabs(x[i])));
        worst = d > worst ? d : worst;
    }
    free(x);
    if (bad > 0)
        printf("    naive %s: %lld of %lld differ from the CPU, by up to %.3g\n", what,
               (long long)bad, (long long)n, worst);
    return bad == 0;
}

static bool compare_with_cpu(struct att_lab *lab, struct att_oracle *oracle,
                             const struct att_setup *s, struct host *h)
{
    struct att_reference exact, eager;
    const struct att_operands x = att_operands_of(s);
    struct cs_attention_shape dense = s->shape;
    const int64_t m = s->c.tokens, n = s->mask.n_keys;
    const int32_t qw = dense.heads * dense.head_dim, kw = dense.kv_heads * dense.head_dim;
    att_oracle_run(oracle, &s->shape, &s->plan, &x, &exact, &eager);
    att_download_rows(oracle, h->q, s->q, false, (int32_t)m, dense.q_stride, qw);
    att_download_rows(oracle, h->d_o, s->d_o, false, (int32_t)m, dense.o_stride, qw);
    att_download_rows(oracle, h->k, s->kv, false, (int32_t)n, dense.kv_stride, kw);
    att_download_rows(oracle, h->v, s->kv + s->v_at, false, (int32_t)n, dense.kv_stride, kw);
    att_copy(lab, h->sink, s->sink, (size_t)dense.heads * sizeof *h->sink);
    memset(h->dsink, 0, sizeof h->dsink);
    dense.sink = s->c.has_sinks ? h->sink : NULL;
    dense.dsink = s->c.has_sinks ? h->dsink : NULL;
    dense.q_stride = dense.o_stride = qw;
    dense.kv_stride = kw;
    const struct cs_ops *cpu = cs_ops_cpu();
    struct cs_ctx ctx = {.workspace_bytes = cpu->attention_workspace(&dense, &s->mask.plan)};
    ctx.workspace = malloc(ctx.workspace_bytes);
    cpu->attention(&ctx, &dense, &s->mask.plan, h->q, h->k, h->v, h->o, h->lse);
    cpu->attention_grad(&ctx, &dense, &s->mask.plan, h->q, h->k, h->v, h->o, h->lse, h->d_o, h->dq,
                        h->dk, h->dv);
    free(ctx.workspace);
    const bool is_good[] = {is_equal(oracle, "o", h->o, exact.o, m * qw),
                            is_equal(oracle, "lse", h->lse, exact.lse, m * dense.heads),
                            is_equal(oracle, "dq", h->dq, exact.dq, m * qw),
                            is_equal(oracle, "dk", h->dk, exact.dk, n * kw),
                            is_equal(oracle, "dv", h->dv, exact.dv, n * kw),
                            is_equal(oracle, "dsink", h->dsink, exact.dsink, dense.heads)};
    return is_good[0] && is_good[1] && is_good[2] && is_good[3] && is_good[4] && is_good[5];
}

static bool check_oracle(struct att_lab *lab, struct att_oracle *oracle, const struct att_setup *s)
{
    const struct cs_attention_shape *p = &s->shape;
    const int64_t q = (int64_t)s->c.tokens * p->heads * p->head_dim;
    const int64_t k = (int64_t)s->mask.n_keys * p->kv_heads * p->head_dim;
    struct host h = {floats(q), floats(k), floats(k),
                     floats(q), floats(q), floats((int64_t)s->c.tokens * p->heads),
                     floats(q), floats(k), floats(k),
                     {0},       {0}};
    const bool is_good = compare_with_cpu(lab, oracle, s, &h);
    float *const all[] = {h.q, h.k, h.v, h.d_o, h.o, h.lse, h.dq, h.dk, h.dv};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        free(all[i]);
    return is_good;
}

void att_test_oracle(struct att_lab *lab)
{
    struct part part = part_begin(lab, "the naive kernels against the CPU operator");
    int n = 0;
    for (int kind = 0; kind < CS_MASK_KINDS; kind++)
        for (int length = 0; length < SHORT; length++, n++) {
            const int value[FACTORS] = {kind,           length,     n * 5 % DIMS, n % GROUPS,
                                        n % ATT_ORDERS, n % 3 == 1, n % 4 < 2};
            struct att_case c = case_of(value, n);
            struct att_setup s;
            c.path = ATT_F32;
            att_set_up(lab, &c, &s);
            att_verdict(lab, &c, check_oracle(lab, part.oracle, &s));
            att_tear_down(lab, &s);
        }
    part_end(lab, &part);
}

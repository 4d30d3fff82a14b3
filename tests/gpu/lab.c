/* Runs an operator on the GPU and on the CPU with the same contents and compares all tensors. */
#include "gpu/lab.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What outputs contain before the call, a NaN: an element that only one side writes differs, and a
 * result that was made from what lay in the output is NaN. */
#define POISON_BITS 0x7fd3beefu
#define POISON_BF16 0x7fd3u

static float poison(void)
{
    const uint32_t bits = POISON_BITS;
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

uint32_t lab_bits(struct lab *lab)
{
    lab->seed = lab->seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(lab->seed >> 33);
}

int lab_between(struct lab *lab, int lo, int hi)
{
    return lo + (int)(lab_bits(lab) % (uint32_t)(hi - lo + 1));
}

void lab_cut(struct lab *lab, struct lab_list *list, int64_t largest)
{
    list->begin[0] = 0;
    for (int i = 0; i < LAB_LIST; i++) {
        const int64_t small = lab_between(lab, 1, 3000);
        list->begin[i + 1] = list->begin[i] + (i % 7 == 3 ? 0 : i % 31 == 0 ? largest : small);
    }
    list->total = list->begin[LAB_LIST];
}

int32_t lab_documents(struct lab *lab, struct lab_case *c, int32_t rows, int32_t longest)
{
    int32_t *doc = lab_raw(lab, c, LAB_I32, rows)->host, left = 0, d = 5;
    int32_t *segment = lab_raw(lab, c, LAB_I32, rows + 1)->host;
    for (int32_t i = 0; i < rows; i++) {
        if (left-- == 0) {
            d++;
            left = longest > 0 ? lab_between(lab, 0, longest - 1) : rows;
        }
        doc[i] = d;
    }
    return cs_mask_segments(doc, rows, segment);
}

bool lab_is_bf16(const struct lab *lab)
{
    return lab->gpu->act_bytes == 2;
}

static uint16_t to_bf16(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if (x != x)
        return bits == POISON_BITS ? POISON_BF16 : 0x7fff;
    return (uint16_t)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

static float from_bf16(uint16_t x)
{
    const uint32_t bits = (uint32_t)x << 16;
    float out;
    memcpy(&out, &bits, sizeof out);
    return out;
}

float lab_round(const struct lab *lab, float x)
{
    return lab_is_bf16(lab) ? from_bf16(to_bf16(x)) : x;
}

static size_t host_size(enum lab_type type)
{
    static const size_t size[] = {0, 4, 4, 8, 4, 8, 1, 2, 8};
    return size[type];
}

static size_t dev_size(const struct lab *lab, enum lab_type type)
{
    return type == LAB_ACT ? lab->gpu->act_bytes : host_size(type);
}

static void must(enum cs_status status, const struct cs_err *err)
{
    if (status == CS_OK)
        return;
    fprintf(stderr, "the GPU failed: %s\n", err->text);
    exit(1);
}

static void *new_host(size_t bytes)
{
    void *p = malloc(bytes + 1);
    if (p == NULL)
        abort();
    return p;
}

struct lab_tensor *lab_raw(struct lab *lab, struct lab_case *c, enum lab_type type, int64_t n)
{
    struct cs_err err;
    if (c->n >= LAB_TENSORS)
        abort();
    struct lab_tensor *t = &c->t[c->n++];
    *t = (struct lab_tensor){.type = type, .n = n};
    t->host = new_host((size_t)n * host_size(type));
    memset(t->host, 0, (size_t)n * host_size(type));
    must(lab->device->alloc(lab->handle, (size_t)n * dev_size(lab, type) + 16, &t->dev, &err),
         &err);
    return t;
}

void lab_null(struct lab_case *c)
{
    c->t[c->n++] = (struct lab_tensor){.type = LAB_NONE};
}

struct lab_tensor *lab_real(struct lab *lab, struct lab_case *c, enum lab_type type, int64_t n,
                            float lo, float hi)
{
    struct lab_tensor *t = lab_raw(lab, c, type, n);
    for (int64_t i = 0; i < n; i++) {
        const float x = lo + (hi - lo) * ((float)lab_bits(lab) / 2147483648.0f);
        if (type == LAB_BF16)
            ((uint16_t *)t->host)[i] = to_bf16(x);
        else
            ((float *)t->host)[i] = type == LAB_ACT ? lab_round(lab, x) : x;
    }
    return t;
}

struct lab_tensor *lab_output(struct lab *lab, struct lab_case *c, enum lab_type type, int64_t n,
                              double rel, double scale)
{
    struct lab_tensor *t = lab_raw(lab, c, type, n);
    t->rel = rel;
    t->scale = scale;
    if (type == LAB_ACT || type == LAB_F32)
        for (int64_t i = 0; i < n; i++)
            ((float *)t->host)[i] = poison();
    return t;
}

/* host -> device format and back; the buffer has the device's size */
static void pack(const struct lab *lab, const struct lab_tensor *t, const void *host, void *buffer)
{
    if (t->type == LAB_ACT && lab_is_bf16(lab))
        for (int64_t i = 0; i < t->n; i++)
            ((uint16_t *)buffer)[i] = to_bf16(((const float *)host)[i]);
    else
        memcpy(buffer, host, (size_t)t->n * host_size(t->type));
}

static void upload(struct lab *lab, const struct lab_tensor *t, const void *packed)
{
    struct cs_err err;
    must(lab->device->copy(lab->handle, lab->stream, t->dev, packed,
                           (size_t)t->n * dev_size(lab, t->type), &err),
         &err);
    must(lab->device->stream_sync(lab->handle, lab->stream, &err), &err);
}

static void *download(struct lab *lab, const struct lab_tensor *t)
{
    struct cs_err err;
    const size_t bytes = (size_t)t->n * dev_size(lab, t->type);
    void *p = new_host(bytes);
    must(lab->device->copy(lab->handle, lab->stream, p, t->dev, bytes, &err), &err);
    must(lab->device->stream_sync(lab->handle, lab->stream, &err), &err);
    return p;
}

static double value_at(const struct lab *lab, enum lab_type type, const void *x, int64_t i,
                       bool is_packed)
{
    switch (type) {
    case LAB_ACT:
        if (is_packed && lab_is_bf16(lab))
            return (double)from_bf16(((const uint16_t *)x)[i]);
        return (double)((const float *)x)[i];
    case LAB_F32:
        return (double)((const float *)x)[i];
    case LAB_BF16:
        return (double)from_bf16(((const uint16_t *)x)[i]);
    case LAB_F64:
        return ((const double *)x)[i];
    case LAB_I32:
        return ((const int32_t *)x)[i];
    case LAB_U64:
        return (double)((const uint64_t *)x)[i];
    case LAB_I64:
        return (double)((const int64_t *)x)[i];
    case LAB_U8:
        return ((const uint8_t *)x)[i];
    case LAB_NONE:
        break;
    }
    return NAN;
}

/* Neither side has written element i. */
static bool is_untouched(const struct lab *lab, const struct lab_tensor *t, const void *gpu,
                         int64_t i)
{
    const uint32_t bits = POISON_BITS;
    if (t->type != LAB_ACT && t->type != LAB_F32)
        return false;
    if (memcmp((const float *)t->host + i, &bits, sizeof bits) != 0)
        return false;
    if (t->type == LAB_ACT && lab_is_bf16(lab))
        return ((const uint16_t *)gpu)[i] == POISON_BF16;
    return memcmp((const float *)gpu + i, &bits, sizeof bits) == 0;
}

static bool compare_counts(const struct lab_case *c, const struct lab_tensor *t, const void *gpu)
{
    const size_t size = host_size(t->type);
    int64_t differ = 0;
    for (int64_t i = 0; i < t->n; i++)
        differ += memcmp((const char *)gpu + (size_t)i * size,
                         (const char *)t->host + (size_t)i * size, size) != 0;
    if ((double)differ <= t->rel * (double)t->n)
        return true;
    printf("    %s: tensor %d: %lld of %lld integers differ\n", c->what, (int)(t - c->t),
           (long long)differ, (long long)t->n);
    return false;
}

static bool compare(const struct lab *lab, const struct lab_case *c, const struct lab_tensor *t,
                    const void *gpu)
{
    if (t->type == LAB_I32 || t->type == LAB_U64 || t->type == LAB_U8)
        return compare_counts(c, t, gpu);
    double largest = 0.0, worst = 0.0;
    int64_t bad = 0, missed = 0, at = -1;
    for (int64_t i = 0; i < t->n; i++) {
        const double ref = fabs(value_at(lab, t->type, t->host, i, false));
        if (ref < INFINITY && ref > largest)
            largest = ref;
    }
    for (int64_t i = 0; i < t->n; i++) {
        const double ref = value_at(lab, t->type, t->host, i, false);
        const double got = value_at(lab, t->type, gpu, i, true);
        const double d = fabs(got - ref), tol = t->rel * fabs(ref) + t->scale * largest + t->floor;
        if (d <= tol || (isinf(ref) && got == ref) || is_untouched(lab, t, gpu, i))
            continue;
        if (d <= t->rare_rel * fabs(ref) && (double)++missed <= t->rare * (double)t->n)
            continue;
        bad++;
        if (at < 0 || d > worst || d != d) {
            worst = d;
            at = i;
        }
    }
    if (bad == 0)
        return true;
    printf("    %s: tensor %d: %lld of %lld differ, worst at %lld: gpu %.9g cpu %.9g (max %.3g)\n",
           c->what, (int)(t - c->t), (long long)bad, (long long)t->n, (long long)at,
           value_at(lab, t->type, gpu, at, true), value_at(lab, t->type, t->host, at, false),
           largest);
    return false;
}

static void pointers(const struct lab_case *c, bool is_dev, void **p)
{
    for (int i = 0; i < c->n; i++)
        p[i] = c->t[i].type == LAB_NONE ? NULL : is_dev ? c->t[i].dev : c->t[i].host;
}

enum how { PLAIN, RECORDED };

/* The call into a graph, the graph replayed. */
static bool record(struct lab *lab, const struct lab_case *c, void *const *p)
{
    struct cs_err err;
    void *graph = NULL;
    must(lab->device->capture_begin(lab->handle, lab->stream, &err), &err);
    c->call(lab->gpu, &lab->dev_ctx, p, c->args);
    if (lab->device->capture_end(lab->handle, lab->stream, &graph, &err) != CS_OK ||
        lab->device->graph_launch(lab->handle, graph, lab->stream, &err) != CS_OK) {
        printf("    %s: in a graph: %s\n", c->what, err.text);
        lab->device->graph_destroy(lab->handle, graph);
        return false;
    }
    must(lab->device->stream_sync(lab->handle, lab->stream, &err), &err);
    lab->device->graph_destroy(lab->handle, graph);
    return true;
}

static bool gpu_call(struct lab *lab, const struct lab_case *c, void *const *packed, enum how how)
{
    struct cs_err err;
    void *p[LAB_TENSORS];
    pointers(c, true, p);
    for (int i = 0; i < c->n; i++)
        if (c->t[i].type != LAB_NONE)
            upload(lab, &c->t[i], packed[i]);
    if (how == PLAIN)
        c->call(lab->gpu, &lab->dev_ctx, p, c->args);
    else if (!record(lab, c, p))
        return false;
    must(lab->device->stream_sync(lab->handle, lab->stream, &err), &err);
    if (lab->device->status(lab->handle, &err) == CS_OK)
        return true;
    printf("    %s: %s\n", c->what, err.text);
    return false;
}

void lab_verdict(struct lab *lab, const char *name, bool is_good)
{
    if (!is_good)
        printf("    %s: failed\n", name);
    lab->group_passed += is_good;
    lab->group_failed += !is_good;
}

/* Run again and compare with the first run's bits. */
static bool runs_again(struct lab *lab, const struct lab_case *c, void *const *packed,
                       void *const *first, enum how how)
{
    bool is_good = gpu_call(lab, c, packed, how);
    for (int i = 0; i < c->n; i++) {
        if (c->t[i].type == LAB_NONE)
            continue;
        void *again = download(lab, &c->t[i]);
        if (memcmp(first[i], again, (size_t)c->t[i].n * dev_size(lab, c->t[i].type)) != 0) {
            printf("    %s: tensor %d: %s run gives other bits\n", c->what, i,
                   how == PLAIN ? "a second" : "a recorded");
            is_good = false;
        }
        free(again);
    }
    return is_good;
}

static void free_tensors(struct lab *lab, const struct lab_case *c)
{
    for (int i = 0; i < c->n; i++) {
        if (c->t[i].type != LAB_NONE)
            lab->device->free(lab->handle, c->t[i].dev);
        free(c->t[i].host);
    }
}

static bool is_left_out(const struct lab *lab, const struct lab_case *c)
{
    int64_t total = 0;
    for (int i = 0; i < c->n; i++)
        total += c->t[i].n;
    return lab->most > 0 && total > lab->most;
}

void lab_run(struct lab *lab, struct lab_case *c)
{
    if (is_left_out(lab, c)) {
        free_tensors(lab, c);
        return;
    }
    void *packed[LAB_TENSORS] = {0}, *first[LAB_TENSORS] = {0}, *p[LAB_TENSORS];
    for (int i = 0; i < c->n; i++) {
        packed[i] = new_host((size_t)c->t[i].n * dev_size(lab, c->t[i].type));
        if (c->t[i].type != LAB_NONE)
            pack(lab, &c->t[i], c->t[i].host, packed[i]);
    }
    pointers(c, false, p);
    c->call(lab->cpu, &lab->host_ctx, p, c->args);
    bool is_good = gpu_call(lab, c, packed, PLAIN);
    for (int i = 0; i < c->n; i++)
        if (c->t[i].type != LAB_NONE) {
            first[i] = download(lab, &c->t[i]);
            is_good = compare(lab, c, &c->t[i], first[i]) && is_good;
        }
    is_good = runs_again(lab, c, packed, first, PLAIN) && is_good;
    is_good = runs_again(lab, c, packed, first, RECORDED) && is_good;
    for (int i = 0; i < c->n; i++) {
        free(first[i]);
        free(packed[i]);
    }
    free_tensors(lab, c);
    lab->group_passed += is_good;
    lab->group_failed += !is_good;
}

void lab_group(struct lab *lab, const char *name)
{
    printf("%-4s %-14s %s: %d passed, %d failed\n", lab->group_failed == 0 ? "ok" : "FAIL", name,
           lab_is_bf16(lab) ? "bf16" : "fp32", lab->group_passed, lab->group_failed);
    fflush(stdout);
    lab->passed += lab->group_passed;
    lab->failed += lab->group_failed;
    lab->group_passed = lab->group_failed = 0;
}

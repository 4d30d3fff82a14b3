/* Arrays with values of their own for every row of the slot, whichever rank has it. */
#include "bench/context_rank.h"

#include <stdlib.h>
#include <string.h>

#include "bench/vlm.h"
#include "core/plan/context.h"
#include "store/safetensors.h"
#include "worker/model/halves/context.h"

enum { DEADLINE_MS = 60000 };

/* ---- values: a function of the row of the slot and the column ---- */

static float value_at(uint64_t array, int64_t row, int64_t column)
{
    uint64_t x =
        ((uint64_t)row << 32 | (uint64_t)column << 3 | array) * UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 32) * UINT64_C(0xd6e8feb86659fd93);
    x ^= x >> 32;
    /* the sum of four uniform numbers is nearly normal; its variance is 1 */
    const uint64_t sum = (x & 0xffff) + (x >> 16 & 0xffff) + (x >> 32 & 0xffff) + (x >> 48);
    return ((float)sum / 65536.0f - 2.0f) * 1.7320508f;
}

static void *new_array(struct cs_context_rank *b, int64_t n)
{
    struct cs_err err = {0};
    void *p;
    cs_vlm_must(cs_device_alloc(b->device, (size_t)n * sizeof(float), &p, &err), &err);
    return p;
}

/* the row of the slot, -1: it was added */
static int64_t row_of(const struct cs_context_rank *b, int64_t row)
{
    const struct cs_input *in = &b->slot.input;
    if (in->split == NULL)
        return row < in->n_tokens ? row : -1;
    return row < in->split->n ? in->split->row[row] : -1;
}

static void fill(struct cs_context_rank *b, uint64_t array, int64_t columns, void *out)
{
    const size_t act = b->device->ops->act_bytes, bytes = (size_t)(b->rows * columns) * act;
    char *host = calloc(bytes + 1, 1);
    struct cs_err err = {0};
    CS_ASSERT(host != NULL);
    for (int64_t r = 0; r < b->rows; r++)
        for (int64_t c = 0; row_of(b, r) >= 0 && c < columns; c++) {
            const float v = value_at(array, row_of(b, r), c);
            if (act == sizeof v)
                ((float *)(void *)host)[r * columns + c] = v;
            else
                ((uint16_t *)(void *)host)[r * columns + c] = cs_bf16_from_f32(v);
        }
    cs_device_copy(b->device, out, host, bytes);
    cs_vlm_must(cs_device_sync(b->device, &err), &err);
    free(host);
}

/* columns [first, first + n) of rows of `columns` to the slot's rows */
static void keep(struct cs_context_rank *b, const void *from, int64_t columns, int64_t first,
                 int64_t n, float *out)
{
    const size_t act = b->device->ops->act_bytes, bytes = (size_t)(b->rows * columns) * act;
    char *host = malloc(bytes + 1);
    struct cs_err err = {0};
    CS_ASSERT(host != NULL);
    cs_vlm_must(cs_device_read(b->device, host, from, bytes, &err), &err);
    for (int64_t r = 0; r < b->rows; r++)
        for (int64_t c = 0; row_of(b, r) >= 0 && c < n; c++) {
            const int64_t at = r * columns + first + c;
            float v;
            if (act == sizeof v) {
                v = ((const float *)(const void *)host)[at];
            } else {
                const uint32_t bits = (uint32_t)((const uint16_t *)(const void *)host)[at] << 16;
                memcpy(&v, &bits, sizeof v);
            }
            out[row_of(b, r) * n + c] = v;
        }
    free(host);
}

/* ---- a rank ---- */

static void start(void *user, int32_t which, const struct cs_context_exchange *x)
{
    const struct cs_context_rank *b = user;
    struct cs_err err = {0};
    cs_vlm_must(cs_context_comm_start(b->comm, which, x->move, x->n, &err), &err);
}

static void finish(void *user, int32_t which)
{
    const struct cs_context_rank *b = user;
    struct cs_err err = {0};
    cs_vlm_must(cs_context_comm_finish(b->comm, which, &err), &err);
}

void cs_context_rank_open(struct cs_context_rank *b, const struct cs_context_lab *lab,
                          struct cs_device *device, int place, struct cs_comm *sockets,
                          struct cs_context_comm **comm)
{
    *b = (struct cs_context_rank){.lab = lab, .device = device, .rank = place};
    struct cs_err err = {0};
    cs_context_slot_open(&b->slot, lab, b->device, b->rank);
    if (lab->ranks > 1 && *comm == NULL)
        cs_vlm_must(cs_context_comm_new(b->device, b->slot.made.plan, CS_GROUP_CP, b->rank, sockets,
                                        DEADLINE_MS, comm, &err),
                    &err);
    b->comm = *comm;
    b->context = (struct cs_context){
        .n = lab->ranks,
        .place = b->rank,
        .groups = lab->groups > 0 ? lab->groups : CS_CONTEXT_GROUPS_AHEAD,
        .group_bytes = lab->groups > 0 ? lab->group_bytes : CS_CONTEXT_GROUP_BYTES,
        .start = start,
        .finish = finish,
        .user = b};
    b->scratch.device = b->device;
    b->ctx = cs_device_ctx(b->device);
    b->run = (struct cs_run){.device = b->device,
                             .ops = b->device->ops,
                             .ctx = &b->ctx,
                             .scratch = &b->scratch,
                             .input = &b->slot.input,
                             .context = lab->ranks > 1 ? &b->context : NULL};
    b->rows = b->slot.input.llm_rows;
    b->q = (int64_t)lab->heads * lab->dim;
    b->kv = (int64_t)lab->kv_heads * lab->dim;
    b->all = b->q + 2 * b->kv;
    b->qkv = new_array(b, b->rows * b->all);
    b->dqkv = new_array(b, b->rows * b->all);
    b->o = new_array(b, b->rows * b->q);
    b->d_o = new_array(b, b->rows * b->q);
    b->lse_rows = cs_context_splits(&b->run, &b->slot.layer)
                      ? cs_context_lse_rows(&b->run, &b->slot.layer, b->rows)
                      : b->rows;
    b->lse = new_array(b, b->lse_rows * lab->heads);
    fill(b, 0, b->all, b->qkv);
    fill(b, 1, b->q, b->d_o);
    cs_vlm_must(b->device->mem->event_create(b->device->handle, &b->begin, &err), &err);
    cs_vlm_must(b->device->mem->event_create(b->device->handle, &b->end, &err), &err);
}

void cs_context_rank_close(struct cs_context_rank *b)
{
    const size_t bytes = (size_t)b->rows * sizeof(float);
    b->device->mem->event_destroy(b->device->handle, b->begin);
    b->device->mem->event_destroy(b->device->handle, b->end);
    cs_device_free(b->device, b->qkv, bytes * (size_t)b->all);
    cs_device_free(b->device, b->dqkv, bytes * (size_t)b->all);
    cs_device_free(b->device, b->o, bytes * (size_t)b->q);
    cs_device_free(b->device, b->d_o, bytes * (size_t)b->q);
    cs_device_free(b->device, b->lse, sizeof(float) * (size_t)(b->lse_rows * b->lab->heads));
    cs_scratch_free(&b->scratch);
    cs_context_free(&b->context);
    cs_context_slot_close(&b->slot);
}

static struct cs_heads heads_of(struct cs_context_rank *b)
{
    const struct cs_context_lab *lab = b->lab;
    return (struct cs_heads){
        .shape = {.tokens = (int32_t)b->rows,
                  .heads = lab->heads,
                  .kv_heads = lab->kv_heads,
                  .head_dim = lab->dim,
                  .q_stride = (int32_t)b->all,
                  .kv_stride = (int32_t)b->all,
                  .o_stride = (int32_t)b->q,
                  .scale = 1.0f / 11.3137085f},
        .q = b->qkv,
        .k = cs_run_at(&b->run, b->qkv, b->q),
        .v = cs_run_at(&b->run, b->qkv, b->q + b->kv)
    };
}

void cs_context_rank_forward(struct cs_context_rank *b)
{
    const struct cs_heads h = heads_of(b);
    const struct cs_layer_model *l = &b->slot.layer;
    if (cs_context_splits(&b->run, l)) {
        cs_context_attention(&b->run, l, &h, b->o, b->lse);
        return;
    }
    const struct cs_mask_plan *mask = cs_mask_of(&b->run, l);
    struct cs_ctx ctx = cs_run_attention_ctx(&b->run, &h.shape, mask);
    b->run.ops->attention(&ctx, &h.shape, mask, h.q, h.k, h.v, b->o, b->lse);
}

void cs_context_rank_backward(struct cs_context_rank *b)
{
    const struct cs_heads h = heads_of(b);
    const struct cs_layer_model *l = &b->slot.layer;
    const struct cs_head_grads d = {b->dqkv, cs_run_at(&b->run, b->dqkv, b->q),
                                    cs_run_at(&b->run, b->dqkv, b->q + b->kv)};
    if (cs_context_splits(&b->run, l)) {
        cs_context_attention_grad(&b->run, l, &h, b->o, b->lse, b->d_o, &d);
        return;
    }
    const struct cs_mask_plan *mask = cs_mask_of(&b->run, l);
    struct cs_ctx ctx = cs_run_attention_ctx(&b->run, &h.shape, mask);
    b->run.ops->attention_grad(&ctx, &h.shape, mask, h.q, h.k, h.v, b->o, b->lse, b->d_o, d.q, d.k,
                               d.v);
}

void cs_context_rank_keep(struct cs_context_rank *b, const struct cs_context_lab_values *out)
{
    keep(b, b->o, b->q, 0, b->q, out->o);
    keep(b, b->dqkv, b->all, 0, b->q, out->dq);
    keep(b, b->dqkv, b->all, b->q, b->kv, out->dk);
    keep(b, b->dqkv, b->all, b->q + b->kv, b->kv, out->dv);
}

/* Records calls of operators with their arguments, plays them, and says which arguments two records
 * share. How each operator is written and played say the files of operators (tape_calls.h). */
#include "worker/device/tape_calls.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/hash.h"

/* ---- memory ---- */

static enum cs_status copy(void *handle, void *stream, void *to, const void *from, size_t bytes,
                           struct cs_err *err)
{
    const struct cs_ctx own = {.handle = handle}, *ctx = &own;
    (void)stream;
    (void)err;
    PUT(COPY, P(to), P(from), I(bytes));
    return CS_OK;
}

static enum cs_status fill(void *handle, void *stream, void *p, int byte, size_t bytes,
                           struct cs_err *err)
{
    const struct cs_ctx own = {.handle = handle}, *ctx = &own;
    (void)stream;
    if (byte != 0)
        return cs_fail(err, CS_INTERNAL, "only zeros are written on a tape");
    PUT(FILL, P(p), I(bytes));
    return CS_OK;
}

/* ---- the tape ---- */

void cs_tape_open(struct cs_tape *tape, struct cs_device *device)
{
    *tape = (struct cs_tape){.device = device};
    tape->mem = (struct cs_device_ops){.version = CS_DEVICE_VERSION, .copy = copy, .fill = fill};
    tape->ops = (struct cs_ops){
        .version = CS_OPS_VERSION,
        .name = "tape",
        .act_bytes = device->ops->act_bytes,
        .device = &tape->mem,
    };
    cs_tape_layers(&tape->ops, device->ops);
    cs_tape_attention(&tape->ops, device->ops);
    cs_tape_parts(&tape->ops);
    cs_tape_recurrent(&tape->ops, device->ops);
    cs_tape_front(&tape->ops);
    tape->recorder = *device;
    tape->recorder.ops = &tape->ops;
    tape->recorder.mem = &tape->mem;
    tape->recorder.handle = tape;
}

void cs_tape_close(struct cs_tape *tape)
{
    free(tape->word);
    *tape = (struct cs_tape){.word = NULL};
}

struct cs_ctx cs_tape_ctx(struct cs_tape *tape)
{
    return cs_device_ctx(&tape->recorder);
}

struct cs_tape_mark cs_tape_mark(const struct cs_tape *tape)
{
    return (struct cs_tape_mark){tape->used, tape->n_calls};
}

void cs_tape_clear(struct cs_tape *tape)
{
    tape->used = 0;
    tape->n_calls = 0;
}

void cs_tape_append(struct cs_tape *tape, const struct cs_tape *other, struct cs_tape_mark from,
                    struct cs_tape_mark to)
{
    const size_t n = to.word - from.word;
    CS_ASSERT(tape != other);
    if (n > 0)
        memcpy(cs_tape_grow(tape, n), other->word + from.word, n * sizeof *tape->word);
    tape->n_calls += to.n_calls - from.n_calls;
}

void cs_tape_hash(const struct cs_tape *tape, struct cs_tape_mark from, struct cs_tape_mark to,
                  char out[33])
{
    cs_xxh3_128_hex(tape->word + from.word, (to.word - from.word) * sizeof *tape->word, out);
}

static void play_call(const struct cs_tape *tape, words head)
{
    struct cs_device *d = tape->device;
    const enum cs_tape_call op = (enum cs_tape_call)head[HEAD_OP].i;
    words w = head + HEAD;
    if (op == CS_TAPE_COPY) {
        cs_device_copy(d, w[0].m, w[1].p, (size_t)w[2].i);
    } else if (op == CS_TAPE_FILL) {
        cs_device_zero(d, w[0].m, (size_t)w[1].i);
    } else {
        struct cs_ctx ctx = cs_device_ctx(d);
        ctx.workspace = head[HEAD_SPACE].m;
        ctx.workspace_bytes = (size_t)head[HEAD_BYTES].i;
        ctx.grad = (enum cs_grad_type)head[HEAD_GRAD].i;
        ctx.is_grad_new = (int)head[HEAD_NEW].i;
        cs_tape_player *const *const tables[] = {cs_tape_layers_play, cs_tape_attention_play,
                                                 cs_tape_parts_play, cs_tape_recurrent_play,
                                                 cs_tape_front_play};
        size_t t = 0;
        while (tables[t][op] == NULL)
            t++;
        tables[t][op](d->ops, &ctx, w);
    }
}

void cs_tape_play(const struct cs_tape *tape, struct cs_tape_mark from, struct cs_tape_mark to)
{
    for (size_t at = from.word; at < to.word; at += HEAD + (size_t)tape->word[at + HEAD_WORDS].i)
        play_call(tape, tape->word + at);
}

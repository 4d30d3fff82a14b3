/* Writing on a tape: calls in order, each with its context in front. */
#include <stdlib.h>
#include <string.h>

#include "worker/device/tape_calls.h"

union cs_tape_word *cs_tape_grow(struct cs_tape *tape, size_t n)
{
    if (tape->used + n > tape->room) {
        tape->room = 2 * tape->room > tape->used + n ? 2 * tape->room : tape->used + n + 1024;
        tape->word = realloc(tape->word, tape->room * sizeof *tape->word);
        CS_ASSERT(tape->word != NULL);
    }
    union cs_tape_word *out = tape->word + tape->used;
    tape->used += n;
    return out;
}

void cs_tape_put(const struct cs_ctx *ctx, enum cs_tape_call op, words word, size_t n)
{
    struct cs_tape *tape = ctx->handle;
    union cs_tape_word *out = cs_tape_grow(tape, HEAD + n);
    out[HEAD_OP].i = op;
    out[HEAD_WORDS].i = (int64_t)n;
    out[HEAD_SPACE].p = ctx->workspace;
    out[HEAD_BYTES].i = (int64_t)ctx->workspace_bytes;
    out[HEAD_GRAD].i = ctx->grad;
    out[HEAD_NEW].i = ctx->is_grad_new;
    memcpy(out + HEAD, word, n * sizeof *word);
    tape->n_calls++;
}

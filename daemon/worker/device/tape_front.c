/* Calls of what is around the blocks of encoders on a tape: patches, positions, convolutions, joined
 * rows. */
#include "worker/device/tape_calls.h"

/* A field that is added must be written below. */
_Static_assert(sizeof(struct cs_patch_shape) == 16, "shape of a patch");

static void mix_rows(struct cs_ctx *ctx, int64_t rows, int64_t n, const int32_t *start,
                     const int32_t *index, const float *weight, const void *x, int is_added,
                     void *y)
{
    PUT(MIX_ROWS, I(rows), I(n), P(start), P(index), P(weight), P(x), I(is_added), P(y));
}

PLAY(mix_rows)
{
    o->mix_rows(c, w[0].i, w[1].i, w[2].p, w[3].p, w[4].p, w[5].p, (int)w[6].i, w[7].m);
}

static void mix_rows_grad(struct cs_ctx *ctx, int64_t rows, int64_t n, const int32_t *start,
                          const int32_t *index, const float *weight, const void *dy, void *dx)
{
    PUT(MIX_ROWS_GRAD, I(rows), I(n), P(start), P(index), P(weight), P(dy), P(dx));
}

PLAY(mix_rows_grad)
{
    o->mix_rows_grad(c, w[0].i, w[1].i, w[2].p, w[3].p, w[4].p, w[5].p, w[6].m);
}

static void unfold(struct cs_ctx *ctx, int64_t rows, int32_t taps, int64_t n, const int32_t *index,
                   const void *x, void *y)
{
    PUT(UNFOLD, I(rows), I(taps), I(n), P(index), P(x), P(y));
}

PLAY(unfold)
{
    o->unfold(c, w[0].i, INT32(w[1]), w[2].i, w[3].p, w[4].p, w[5].m);
}

static void fold(struct cs_ctx *ctx, int64_t rows, int32_t taps, int64_t n, const int32_t *start,
                 const int32_t *entry, const void *dy, void *dx)
{
    PUT(FOLD, I(rows), I(taps), I(n), P(start), P(entry), P(dy), P(dx));
}

PLAY(fold)
{
    o->fold(c, w[0].i, INT32(w[1]), w[2].i, w[3].p, w[4].p, w[5].p, w[6].m);
}

static void patches(struct cs_ctx *ctx, int64_t rows, const struct cs_patch_shape *shape,
                    const struct cs_patch_place *place, const uint8_t *pixels, float rescale,
                    const float *mean, const float *std, void *y)
{
    PUT(PATCHES, I(rows), I(shape->channels), I(shape->frames), I(shape->patch),
        I(shape->is_channels_last), P(place), P(pixels), D(rescale), P(mean), P(std), P(y));
}

PLAY(patches)
{
    const struct cs_patch_shape shape = {.channels = INT32(w[1]),
                                         .frames = INT32(w[2]),
                                         .patch = INT32(w[3]),
                                         .is_channels_last = INT32(w[4])};
    o->patches(c, w[0].i, &shape, w[5].p, w[6].p, FLOAT(w[7]), w[8].p, w[9].p, w[10].m);
}

cs_tape_player *const cs_tape_front_play[CS_TAPE_CALLS] = {
    [CS_TAPE_MIX_ROWS] = play_mix_rows, [CS_TAPE_MIX_ROWS_GRAD] = play_mix_rows_grad,
    [CS_TAPE_UNFOLD] = play_unfold,     [CS_TAPE_FOLD] = play_fold,
    [CS_TAPE_PATCHES] = play_patches,
};

void cs_tape_front(struct cs_ops *tape)
{
    tape->mix_rows = mix_rows;
    tape->mix_rows_grad = mix_rows_grad;
    tape->unfold = unfold;
    tape->fold = fold;
    tape->patches = patches;
}

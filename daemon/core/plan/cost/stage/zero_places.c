/* Deals a block of memory out to layers that need it one after the other. */
#include "core/plan/cost/stage/zero.h"

enum { LOOKS_BACK = 16 }; /* layers; what was run before them is long over */

struct block {
    const int64_t *bytes;
    int64_t capacity, *at;
    int32_t n, layer; /* that is placed; those behind it are */
};

/* The nearest layer that was run before it whose bytes it would share at this place; n: none. -1: it does not fit there. */
static int32_t nearest(const struct block *b, int64_t at)
{
    const int64_t end = at + b->bytes[b->layer];
    if (at < 0 || end > b->capacity)
        return -1;
    for (int32_t j = b->layer + 1; j < b->n && j <= b->layer + LOOKS_BACK; j++)
        if (b->bytes[j] > 0 && b->at[j] < end && at < b->at[j] + b->bytes[j])
            return j;
    return b->n;
}

static void try_place(const struct block *b, int64_t at, int32_t *best)
{
    const int32_t found = nearest(b, at);
    if (found <= *best)
        return;
    *best = found;
    b->at[b->layer] = at;
}

/* Places begin or end where others do, or the block does. */
static void place(const struct block *b)
{
    const int64_t bytes = b->bytes[b->layer];
    int32_t best = -1;
    try_place(b, 0, &best);
    try_place(b, b->capacity - bytes, &best);
    for (int32_t j = b->layer + 1; j < b->n && j <= b->layer + LOOKS_BACK; j++) {
        try_place(b, b->at[j] + b->bytes[j], &best);
        try_place(b, b->at[j] - bytes, &best);
    }
}

void cs_zero_places(const int64_t *bytes, int32_t n, int64_t capacity, int64_t *at)
{
    for (int32_t layer = n - 1; layer >= 0; layer--) {
        at[layer] = 0;
        if (bytes[layer] > 0)
            place(&(struct block){bytes, capacity, at, n, layer});
    }
}

int64_t cs_zero_room(const int64_t *bytes, int32_t n, int32_t turns)
{
    int64_t most[CS_ZERO_TURNS] = {0};
    for (int32_t i = 0; i < n; i++)
        most[i % turns] = bytes[i] > most[i % turns] ? bytes[i] : most[i % turns];
    return most[0] + most[1];
}

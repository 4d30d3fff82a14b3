/* Takes and rewinds bump memory, in a region that was given or in pieces of its own. */
#include "worker/device/scratch.h"

#include <stdio.h>
#include <stdlib.h>

#include "worker/device/device.h"

#define ALIGN       ((size_t)256)
#define FIRST_CHUNK ((size_t)64 * 1024)
#define NOWHERE     ((uintptr_t)1 << 32) /* nothing is read or written there */

static void add_chunk(struct cs_scratch *s, size_t bytes)
{
    struct cs_err err = {0};
    void *data;
    CS_ASSERT(s->n_chunks < CS_SCRATCH_MAX_CHUNKS);
    bytes = (bytes + ALIGN - 1) & ~(ALIGN - 1);
    if (cs_device_alloc(s->device, bytes, &data, &err) != CS_OK) {
        fprintf(stderr,
                "activations do not fit: %s; fewer seq_tokens, more pipeline stages or recompute "
                "need less\n",
                err.text);
        abort();
    }
    s->chunk[s->n_chunks].data = data;
    s->chunk[s->n_chunks].bytes = bytes;
    s->n_chunks++;
}

static void drop_chunks(struct cs_scratch *s)
{
    for (int i = s->is_bound ? 1 : 0; i < s->n_chunks; i++)
        cs_device_free(s->device, s->chunk[i].data, s->chunk[i].bytes);
    s->n_chunks = 0;
    s->is_bound = false;
}

void cs_scratch_free(struct cs_scratch *scratch)
{
    drop_chunks(scratch);
    *scratch = (struct cs_scratch){.device = scratch->device};
}

void cs_scratch_bind(struct cs_scratch *scratch, void *data, size_t bytes)
{
    if (!scratch->is_bound || data == NULL)
        drop_chunks(scratch);
    cs_scratch_clear(scratch);
    if (data == NULL)
        return;
    scratch->chunk[0].data = data;
    scratch->chunk[0].bytes = bytes;
    scratch->n_chunks = scratch->n_chunks > 1 ? scratch->n_chunks : 1;
    scratch->is_bound = true;
}

void cs_scratch_bind_counting(struct cs_scratch *scratch)
{
    void *nowhere = (void *)NOWHERE;
    cs_scratch_bind(scratch, nowhere, SIZE_MAX / 2 - NOWHERE);
}

size_t cs_scratch_capacity(const struct cs_scratch *scratch)
{
    size_t bytes = 0;
    for (int i = 0; i < scratch->n_chunks; i++)
        bytes += scratch->chunk[i].bytes;
    return bytes;
}

void cs_scratch_clear(struct cs_scratch *scratch)
{
    scratch->at = 0;
    scratch->offset = 0;
    scratch->used = 0;
}

void cs_scratch_reset(struct cs_scratch *scratch)
{
    if (scratch->n_chunks > 1 && !scratch->is_bound) {
        const size_t bytes = cs_scratch_capacity(scratch);
        drop_chunks(scratch);
        add_chunk(scratch, bytes);
    }
    cs_scratch_clear(scratch);
}

/* The host's memory is only taken when it is written to: grow by doubling. A device's is taken at
 * once: grow by an eighth. */
static size_t growth_of(const struct cs_scratch *s)
{
    const size_t capacity = cs_scratch_capacity(s);
    const size_t grown = s->device != NULL && s->device->mem != NULL ? capacity / 8 : capacity;
    return grown > FIRST_CHUNK ? grown : FIRST_CHUNK;
}

static void count_peak(struct cs_scratch *s)
{
    size_t end = s->offset;
    for (int i = 0; i < s->at; i++)
        end += s->chunk[i].bytes;
    s->peak = end > s->peak ? end : s->peak;
}

/* A plan of memory was too small: a mistake, but not one to lose a job for. */
static void tell_overflow(const struct cs_scratch *s, size_t bytes)
{
    if (s->is_bound && s->n_chunks == 1)
        fprintf(stderr, "a step needs more than the %zu bytes that were planned: %zu are added\n",
                s->chunk[0].bytes, bytes);
}

void *cs_scratch_take(struct cs_scratch *scratch, size_t bytes)
{
    CS_ASSERT(bytes < SIZE_MAX / 4);
    const size_t need = bytes == 0 ? ALIGN : (bytes + ALIGN - 1) & ~(ALIGN - 1);
    while (scratch->at < scratch->n_chunks &&
           scratch->chunk[scratch->at].bytes - scratch->offset < need) {
        scratch->at++;
        scratch->offset = 0;
    }
    if (scratch->at == scratch->n_chunks) {
        const size_t least = scratch->is_bound ? need : growth_of(scratch);
        tell_overflow(scratch, need > least ? need : least);
        add_chunk(scratch, need > least ? need : least);
    }
    void *p = scratch->chunk[scratch->at].data + scratch->offset;
    scratch->offset += need;
    scratch->used += bytes;
    count_peak(scratch);
    return p;
}

float *cs_scratch_floats(struct cs_scratch *scratch, int64_t n)
{
    CS_ASSERT(n >= 0);
    return cs_scratch_take(scratch, (size_t)n * sizeof(float));
}

struct cs_scratch_mark cs_scratch_mark(const struct cs_scratch *scratch)
{
    return (struct cs_scratch_mark){scratch->at, scratch->offset, scratch->used};
}

void cs_scratch_rewind(struct cs_scratch *scratch, struct cs_scratch_mark mark)
{
    scratch->at = mark.at;
    scratch->offset = mark.offset;
    scratch->used = mark.used;
}

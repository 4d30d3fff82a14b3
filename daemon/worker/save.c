/* Copies what this rank updates at the end of a step; a thread of its own writes the copy. */
#include "worker/save.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/system/pages.h"

struct cs_saver {
    struct cs_params *params;
    char *dir;
    int rank;
    cs_save_done *done;
    void *user;
    const struct cs_shard **shard; /* (n_shards) what is stored */
    struct cs_ckpt_part *part;     /* (n_parts) pointing into copy */
    int n_shards, n_parts;
    float *copy;  /* made at the first save, used again */
    float *range; /* of one parameter, where ranks share matrices */
    pthread_t thread;
    bool is_running;
    int64_t step;
};

enum cs_status cs_saver_new(struct cs_params *params, const char *dir, int rank, cs_save_done *done,
                            void *user, struct cs_saver **out, struct cs_err *err)
{
    const size_t n = (size_t)params->n + 1;
    struct cs_saver *s = calloc(1, sizeof *s);
    *out = NULL;
    if (s == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory for checkpoints");
    *s = (struct cs_saver){
        .params = params,
        .dir = strdup(dir),
        .rank = rank,
        .done = done,
        .user = user,
        .shard = calloc(n, sizeof *s->shard),
        .part = calloc(n * CS_TP_SLICES, sizeof *s->part),
    };
    if (s->dir == NULL || s->shard == NULL || s->part == NULL) {
        cs_saver_free(s);
        return cs_fail(err, CS_NO_MEMORY, "no memory for checkpoints");
    }
    *out = s;
    return CS_OK;
}

static void *write_files(void *arg)
{
    struct cs_saver *s = arg;
    struct cs_ckpt_file files[2] = {{.bytes = 0}};
    struct cs_err err = {0};
    const enum cs_status status =
        cs_ckpt_write_rank(s->dir, s->step, s->rank, s->part, s->n_parts, files, &err);
    s->done(s->user, s->step, status, files, &err);
    return NULL;
}

static enum cs_status make_room(struct cs_saver *s, struct cs_err *err)
{
    size_t floats = 1, most = 1;
    s->n_shards = cs_params_listed(s->params, s->shard);
    for (int i = 0; i < s->n_shards; i++) {
        floats += CS_STATES * (size_t)s->shard[i]->own_n;
        most = (size_t)s->shard[i]->own_n > most ? (size_t)s->shard[i]->own_n : most;
    }
    if (s->params->tp.ranks > 1 && s->range == NULL &&
        (s->range = malloc(most * sizeof *s->range)) == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory to copy %zu bytes of parameters",
                       most * sizeof *s->range);
    if (s->copy == NULL && (s->copy = cs_alloc_array(floats * sizeof *s->copy)) == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory to copy %zu bytes of parameters",
                       floats * sizeof *s->copy);
    return CS_OK;
}

/* The slices of what this rank has of a parameter; its arrays follow each other from `copy` on. */
static void add_parts(struct cs_saver *s, const struct cs_shard *shard,
                      const struct cs_tp_slice *slice, int n, const float *copy)
{
    for (int i = 0; i < n; copy += cs_slice_count(&slice[i].whole), i++)
        s->part[s->n_parts++] = (struct cs_ckpt_part){
            .param = shard->whole,
            .slice = slice[i].whole,
            .master = copy,
            .exp_avg = copy + shard->own_n,
            .exp_avg_sq = copy + 2 * shard->own_n,
        };
}

/* Elements of the shard as they lie on the rank become the arrays of its slices, in the same place. */
static void sort(struct cs_saver *s, const struct cs_tp_slice *slice, int n, int64_t count,
                 float *copy)
{
    float *to = s->range;
    for (int i = 0; i < n; to += cs_slice_count(&slice[i].whole), i++)
        cs_tp_slice_take(&slice[i], copy, to);
    memcpy(copy, s->range, (size_t)count * sizeof *copy);
}

static int slices_of(const struct cs_shard *t, struct cs_tp_slice slice[CS_TP_SLICES])
{
    static const struct cs_tp_part all = {.dim = -1, .holders = 1};
    return cs_tp_slices(t->part != NULL ? t->part : &all, t->param, t->own_at, t->own_n, slice);
}

static enum cs_status snapshot(struct cs_saver *s, struct cs_err *err)
{
    CS_TRY(make_room(s, err));
    float *at = s->copy;
    s->n_parts = 0;
    for (int i = 0; i < s->n_shards; i++) {
        const struct cs_shard *shard = s->shard[i];
        struct cs_tp_slice slice[CS_TP_SLICES];
        const int n = slices_of(shard, slice);
        float *const copy = at;
        for (int k = 0; k < CS_STATES; k++, at += shard->own_n) {
            CS_TRY(cs_params_state(s->params, shard, (enum cs_state)k, at, err));
            if (s->range != NULL)
                sort(s, slice, n, shard->own_n, at);
        }
        add_parts(s, shard, slice, n, copy);
    }
    return CS_OK;
}

void cs_saver_start(struct cs_saver *saver, int64_t step)
{
    static const struct cs_ckpt_file none[2];
    struct cs_err err = {0};
    cs_saver_wait(saver);
    saver->step = step;
    enum cs_status status = snapshot(saver, &err);
    if (status == CS_OK && pthread_create(&saver->thread, NULL, write_files, saver) != 0)
        status = cs_fail(&err, CS_NO_MEMORY, "the checkpoint's thread cannot be started");
    saver->is_running = status == CS_OK;
    if (status != CS_OK)
        saver->done(saver->user, step, status, none, &err);
}

void cs_saver_wait(struct cs_saver *saver)
{
    if (!saver->is_running)
        return;
    pthread_join(saver->thread, NULL);
    saver->is_running = false;
}

void cs_saver_free(struct cs_saver *saver)
{
    if (saver == NULL)
        return;
    cs_saver_wait(saver);
    free(saver->dir);
    free(saver->shard);
    free(saver->part);
    free(saver->copy);
    free(saver->range);
    free(saver);
}

/* See save.h. */
#include "worker/save.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct cs_saver {
    struct cs_params *params;
    struct cs_replicas *replicas; /* NULL: one */
    char *dir;
    int rank;
    cs_save_done *done;
    void *user;
    const struct cs_shard **tensor; /* what is stored */
    struct cs_ckpt_param *param;    /* pointing into copy */
    int n;
    float *copy; /* made at the first save, used again */
    pthread_t thread;
    bool is_running;
    int64_t step;
};

enum cs_status cs_saver_new(struct cs_params *params, struct cs_replicas *replicas, const char *dir,
                            int rank, cs_save_done *done, void *user, struct cs_saver **out,
                            struct cs_err *err)
{
    struct cs_saver *s = calloc(1, sizeof *s);
    *out = NULL;
    if (s == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory for checkpoints");
    *s = (struct cs_saver){
        .params = params,
        .replicas = replicas,
        .dir = strdup(dir),
        .rank = rank,
        .done = done,
        .user = user,
        .tensor = calloc((size_t)params->n + 1, sizeof *s->tensor),
        .param = calloc((size_t)params->n + 1, sizeof *s->param),
    };
    if (s->dir == NULL || s->tensor == NULL || s->param == NULL) {
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
        cs_ckpt_write_rank(s->dir, s->step, s->rank, s->param, s->n, files, &err);
    s->done(s->user, s->step, status, files, &err);
    return NULL;
}

/* One array of an entry behind what is copied already; replicas but the first only send it. */
static enum cs_status copy_to(struct cs_saver *s, const struct cs_shard *t, enum cs_state which,
                              float **at, const float **array, struct cs_err *err)
{
    float *to = *at;
    CS_TRY(cs_replicas_collect(s->replicas, s->params, t, which, to, err));
    *at += s->params->replica == 0 ? t->param->count : 0;
    *array = to;
    return CS_OK;
}

static enum cs_status make_room(struct cs_saver *s, struct cs_err *err)
{
    size_t floats = 1;
    s->n = cs_params_listed(s->params, s->tensor);
    for (int i = 0; i < s->n; i++) {
        const size_t own = (size_t)s->tensor[i]->own_n;
        floats = s->params->replica == 0 ? floats + 3 * (size_t)s->tensor[i]->param->count
                 : own > floats          ? own
                                         : floats;
    }
    if (s->copy == NULL && (s->copy = malloc(floats * sizeof *s->copy)) == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory to copy %zu bytes of parameters",
                       floats * sizeof *s->copy);
    return CS_OK;
}

static enum cs_status snapshot(struct cs_saver *s, struct cs_err *err)
{
    CS_TRY(make_room(s, err));
    float *at = s->copy;
    for (int i = 0; i < s->n; i++) {
        const struct cs_shard *t = s->tensor[i];
        struct cs_ckpt_param *p = &s->param[i];
        *p = (struct cs_ckpt_param){.param = t->param};
        CS_TRY(copy_to(s, t, CS_STATE_MASTER, &at, &p->master, err));
        CS_TRY(copy_to(s, t, CS_STATE_EXP_AVG, &at, &p->exp_avg, err));
        CS_TRY(copy_to(s, t, CS_STATE_EXP_AVG_SQ, &at, &p->exp_avg_sq, err));
    }
    if (s->params->replica != 0)
        s->n = 0;
    return CS_OK;
}

enum cs_status cs_saver_start(struct cs_saver *saver, int64_t step, struct cs_err *out)
{
    static const struct cs_ckpt_file none[2];
    struct cs_err err = {0};
    cs_saver_wait(saver);
    saver->step = step;
    enum cs_status status = snapshot(saver, &err);
    const bool is_lost = status != CS_OK && saver->replicas != NULL;
    if (status == CS_OK && pthread_create(&saver->thread, NULL, write_files, saver) != 0)
        status = cs_fail(&err, CS_NO_MEMORY, "the checkpoint's thread cannot be started");
    saver->is_running = status == CS_OK;
    if (status != CS_OK)
        saver->done(saver->user, step, status, none, &err);
    if (is_lost && out != NULL)
        *out = err;
    return is_lost ? status : CS_OK;
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
    free(saver->tensor);
    free(saver->param);
    free(saver->copy);
    free(saver);
}

/* Ranks of a layout as processes with sockets between them, each with what a worker has. */
#include "cover/job.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "store/fsio.h"
#include "support/step.h"
#include "support/tmpdir.h"
#include "worker/save.h"
#include "worker/train/trainer.h"

enum { DEADLINE_MS = 60000 };

const int cover_saved_steps[COVER_SAVES] = {1, COVER_HALF, COVER_STEPS};

/* What a rank tells, in memory that it shares with its parent. */
struct rank {
    enum cs_status status;
    struct cs_err err;
    bool has_loss;
    double loss[COVER_STEPS], norm[COVER_STEPS];
    struct cs_ckpt_file file[COVER_SAVES][2];
};

struct job {
    const struct cover_plan *plan;
    const char *from, *dir;
    struct cs_test_step step[COVER_STEPS];
    struct rank *rank;
};

/* Which slots have pictures, in percent of samples: not one, those of the first replica or of the last slot
 * alone. */
static const int images[COVER_STEPS][COVER_SLOTS] = {
    {60,  60,  60, 60,  60, 60 },
    {0,   0,   0,  0,   0,  0  },
    {100, 0,   0,  0,   0,  0  },
    {0,   0,   0,  0,   0,  100},
    {60,  60,  60, 60,  60, 60 },
    {100, 100, 0,  0,   0,  0  },
    {60,  60,  60, 60,  60, 60 },
    {0,   0,   0,  0,   0,  0  },
    {0,   100, 0,  100, 0,  100},
    {60,  60,  60, 60,  60, 60 },
};

static void fill_steps(struct job *job)
{
    for (int s = 0; s < COVER_STEPS; s++) {
        cs_test_step_new(&job->step[s], &job->plan->plan->budget, COVER_SLOTS, s);
        for (int i = 0; i < COVER_SLOTS; i++)
            if (s != 1 || i < COVER_SLOTS - 1) /* one slot is empty */
                cs_test_step_fill(&job->step[s], i, (uint64_t)(s * COVER_SLOTS + i) + 5, 199,
                                  images[s][i]);
    }
}

/* what one rank has of its own */
struct worker {
    struct cs_device device;
    struct cs_comm *comm;
    struct cs_replicas *replicas;
    struct cs_trainer *trainer;
    struct cs_saver *saver;
    struct rank *told;
};

static void note_save(void *user, int64_t step, enum cs_status status,
                      const struct cs_ckpt_file files[2], const struct cs_err *err)
{
    struct worker *w = user;
    if (status != CS_OK) {
        w->told->status = status;
        w->told->err = *err;
    }
    for (int i = 0; i < COVER_SAVES; i++)
        if (cover_saved_steps[i] == step)
            memcpy(w->told->file[i], files, 2 * sizeof files[0]);
}

static void close_trainer(struct worker *w)
{
    cs_saver_free(w->saver);
    cs_trainer_free(w->trainer);
    w->saver = NULL;
    w->trainer = NULL;
}

static enum cs_status open_trainer(struct worker *w, const struct job *job, int rank,
                                   struct cs_err *err)
{
    const struct cover_plan *p = job->plan;
    const struct cs_trainer_config config = {
        .spec = p->spec,
        .graph = p->graph,
        .plan = p->plan,
        .device = &w->device,
        .comm = w->comm,
        .replicas = w->replicas,
        .rank = rank,
        .deadline_ms = DEADLINE_MS,
    };
    CS_TRY(cs_trainer_new(&config, &w->trainer, err));
    CS_TRY(cs_params_load(w->trainer->params, p->spec->seed, err));
    return cs_saver_new(w->trainer->params, job->dir, rank, note_save, w, &w->saver, err);
}

/* as a job that begins anew from another one's checkpoint */
static enum cs_status resume(struct worker *w, const struct job *job, int rank, struct cs_err *err)
{
    struct cs_ckpt *ckpt = NULL;
    int32_t missing = 0;
    close_trainer(w);
    CS_TRY(open_trainer(w, job, rank, err));
    CS_TRY(cs_ckpt_open(job->from, &ckpt, err));
    enum cs_status status = cs_params_resume(w->trainer->params, ckpt, &missing, err);
    cs_ckpt_close(ckpt);
    if (status == CS_OK && missing > 0)
        status = cs_fail(err, CS_CORRUPT, "%d parameters are not in %s", missing, job->from);
    return status;
}

static enum cs_status train(struct worker *w, const struct job *job, int rank, struct cs_err *err)
{
    CS_TRY(open_trainer(w, job, rank, err));
    for (int s = 0; s < COVER_STEPS; s++) {
        struct cs_step_result result;
        if (s == COVER_HALF && job->from != NULL)
            CS_TRY(resume(w, job, rank, err));
        CS_TRY(cs_trainer_step(w->trainer, &job->step[s].manifest, job->step[s].slot, NULL, &result,
                               err));
        if (!cs_exec_keeps_plan(w->trainer->exec))
            return cs_fail(err, CS_PLAN, "step %d took more memory than was planned for it", s);
        if (result.has_loss) {
            w->told->has_loss = true;
            w->told->loss[s] = result.loss_sum;
            w->told->norm[s] = result.grad_norm;
        }
        for (int i = 0; i < COVER_SAVES; i++)
            if (cover_saved_steps[i] == s + 1)
                cs_saver_start(w->saver, s + 1);
    }
    return CS_OK;
}

static enum cs_status run_rank(const struct job *job, int rank, const int *fds, struct cs_err *err)
{
    const int n = cs_plan_world(job->plan->plan);
    struct worker w = {.told = &job->rank[rank]};
    enum cs_status status = n > 1 ? cs_comm_socket_new(rank, n, fds, &w.comm, err) : CS_OK;
    if (status == CS_OK)
        status = cs_device_open("cpu:0", NULL, &w.device, err);
    if (status == CS_OK)
        status = cs_replicas_new(&w.device, job->plan->plan, rank, w.comm, DEADLINE_MS, &w.replicas,
                                 err);
    if (status == CS_OK)
        status = train(&w, job, rank, err);
    close_trainer(&w);
    cs_replicas_free(w.replicas);
    if (w.comm != NULL)
        w.comm->table->free(w.comm);
    cs_device_close(&w.device);
    return status;
}

/* its ends of the sockets are fds, all others are closed */
static pid_t start_rank(const struct job *job, int rank, int n, int (*fd)[COVER_RANKS])
{
    const pid_t pid = fork();
    if (pid != 0)
        return pid;
    for (int a = 0; a < n; a++)
        for (int b = 0; b < n; b++)
            if (a != rank && fd[a][b] >= 0)
                close(fd[a][b]);
    struct rank *told = &job->rank[rank];
    struct cs_err err = {.text = ""};
    const enum cs_status status = run_rank(job, rank, fd[rank], &err);
    if (status != CS_OK) {
        told->err = err;
        told->status = status;
    }
    _exit(told->status != CS_OK);
}

static void connect_ranks(int n, int (*fd)[COVER_RANKS])
{
    for (int a = 0; a < n; a++) {
        fd[a][a] = -1;
        for (int b = a + 1; b < n; b++) {
            int pair[2];
            assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
            fd[a][b] = pair[0];
            fd[b][a] = pair[1];
        }
    }
}

/* Whoever lost a peer only says what another rank's failure did to it. */
static enum cs_status tell(const struct rank *rank, int n, struct cs_err *err)
{
    int bad = -1;
    for (int r = 0; r < n; r++)
        if (rank[r].status != CS_OK &&
            (bad < 0 || (rank[bad].status == CS_PEER_GONE && rank[r].status != CS_PEER_GONE)))
            bad = r;
    return bad < 0 ? CS_OK : cs_fail(err, rank[bad].status, "rank %d: %s", bad, rank[bad].err.text);
}

static enum cs_status run_ranks(const struct job *job, int n, struct cs_err *err)
{
    int fd[COVER_RANKS][COVER_RANKS];
    pid_t pid[COVER_RANKS];
    connect_ranks(n, fd);
    fflush(NULL);
    for (int r = 0; r < n; r++)
        assert_true((pid[r] = start_rank(job, r, n, fd)) > 0);
    for (int a = 0; a < n; a++)
        for (int b = 0; b < n; b++)
            if (fd[a][b] >= 0)
                close(fd[a][b]);
    for (int r = 0; r < n; r++) {
        int status;
        assert_int_equal(waitpid(pid[r], &status, 0), pid[r]);
        if (WIFSIGNALED(status) && job->rank[r].status == CS_OK)
            job->rank[r].status = cs_fail(&job->rank[r].err, CS_CORRUPT, "died of signal %d (%s)",
                                          WTERMSIG(status), strsignal(WTERMSIG(status)));
    }
    return tell(job->rank, n, err);
}

static enum cs_status commit(const struct job *job, int n, struct cs_err *err)
{
    const struct cs_ckpt_origin origin = {.spec_hash = "spec",
                                          .trained_hash = "trained",
                                          .plan_hash = "plan",
                                          .params = job->plan->graph->params,
                                          .n_params = job->plan->graph->n_params};
    json_t *trainer = json_object();
    enum cs_status status = CS_OK;
    for (int i = 0; status == CS_OK && i < COVER_SAVES; i++) {
        struct cs_ckpt_file file[2 * COVER_RANKS];
        for (int r = 0; r < n; r++)
            memcpy(&file[2 * r], job->rank[r].file[i], 2 * sizeof file[0]);
        status = cs_ckpt_commit(job->dir, cover_saved_steps[i], &origin, trainer, file, 2 * n, err);
    }
    json_decref(trainer);
    return status;
}

/* losses of replicas and parts of a context add up, norms are all the same */
static enum cs_status add_up(const struct rank *rank, int n, struct cover_outcome *out,
                             struct cs_err *err)
{
    for (int s = 0; s < COVER_STEPS; s++) {
        const struct rank *first = NULL;
        for (int r = 0; r < n; r++) {
            if (!rank[r].has_loss)
                continue;
            first = first == NULL ? &rank[r] : first;
            out->loss[s] += rank[r].loss[s];
            out->norm[s] = rank[r].norm[s];
            if (memcmp(&rank[r].norm[s], &first->norm[s], sizeof(double)) != 0)
                return cs_fail(err, CS_CORRUPT, "step %d: norms are %.17g and %.17g", s,
                               first->norm[s], rank[r].norm[s]);
        }
    }
    return CS_OK;
}

enum cs_status cover_job_run(const struct cover_plan *plan, const char *from,
                             struct cover_outcome *out, struct cs_err *err)
{
    const int n = cs_plan_world(plan->plan);
    const size_t bytes = (size_t)n * sizeof(struct rank);
    *out = (struct cover_outcome){.dir = tmpdir_new(), .n_ranks = n};
    struct job job = {.plan = plan, .from = from, .dir = out->dir};
    job.rank = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(job.rank != MAP_FAILED);
    fill_steps(&job);
    enum cs_status status = run_ranks(&job, n, err);
    if (status == CS_OK)
        status = commit(&job, n, err);
    if (status == CS_OK)
        status = add_up(job.rank, n, out, err);
    for (int s = 0; s < COVER_STEPS; s++)
        cs_test_step_free(&job.step[s]);
    munmap(job.rank, bytes);
    return status;
}

void cover_job_saved(const struct cover_outcome *o, int save, char *path)
{
    snprintf(path, CS_PATH_CAP, "%s/ckpt-%d", o->dir, cover_saved_steps[save]);
}

void cover_outcome_free(struct cover_outcome *o)
{
    if (o->dir != NULL)
        tmpdir_free(o->dir);
    *o = (struct cover_outcome){.dir = NULL};
}

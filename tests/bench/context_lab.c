/* Runs attention of one slot on every rank and measures it. */
#include "bench/context_lab.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench/context_rank.h"
#include "bench/vlm.h"
#include "support/lazy_device.h"
#include "worker/selftest/ranks.h"

enum { MAX_CASES = 256, MAX_ROUNDS = 64 };

const char *const cs_context_lab_layouts[CS_CONTEXT_LAB_LAYOUTS] = {"causal", "packed", "video"};

/* What ranks tell each other and the parent, in shared memory. */
struct told {
    double ms[2][CS_CONTEXT_LAB_RANKS]; /* forward, backward */
    int64_t pairs[CS_CONTEXT_LAB_RANKS], rows[CS_CONTEXT_LAB_RANKS];
};

struct shared {
    pthread_barrier_t barrier;
    struct told told[MAX_CASES];
};

static void *share(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) {
        perror("shared memory");
        exit(1);
    }
    return p;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* All ranks begin together; the median. */
static double measure(struct cs_context_rank *b, pthread_barrier_t *barrier,
                      void (*pass)(struct cs_context_rank *b))
{
    const struct cs_device *d = b->device;
    double ms[MAX_ROUNDS];
    struct cs_err err = {0};
    for (int i = -b->lab->warm; i < b->lab->rounds; i++) {
        cs_scratch_reset(&b->scratch);
        cs_context_begin(b->run.context);
        cs_vlm_must(cs_device_sync(b->device, &err), &err);
        pthread_barrier_wait(barrier);
        cs_vlm_must(d->mem->event_record(d->handle, b->begin, d->stream, &err), &err);
        pass(b);
        cs_vlm_must(d->mem->event_record(d->handle, b->end, d->stream, &err), &err);
        cs_vlm_must(cs_device_sync(b->device, &err), &err);
        if (i >= 0)
            cs_vlm_must(d->mem->event_elapsed(d->handle, b->begin, b->end, &ms[i], &err), &err);
    }
    qsort(ms, (size_t)b->lab->rounds, sizeof *ms, compare);
    return ms[b->lab->rounds / 2];
}

/* What a rank of either kind runs. */
struct start {
    const struct cs_context_lab *lab; /* (n) */
    int n;
    struct shared *shared;
    struct cs_context_lab_values *values; /* (n), NULL */
};

static void run_case(const struct start *s, int which, struct cs_context_rank *b)
{
    struct told *told = &s->shared->told[which];
    struct cs_err err = {0};
    told->ms[0][b->rank] = measure(b, &s->shared->barrier, cs_context_rank_forward);
    told->ms[1][b->rank] = measure(b, &s->shared->barrier, cs_context_rank_backward);
    cs_vlm_must(cs_input_check(&b->slot.input, &err), &err);
    const struct cs_input_split *split = b->slot.input.split;
    told->rows[b->rank] = split != NULL ? split->n : b->slot.input.n_tokens;
    told->pairs[b->rank] = split != NULL ? split->load[b->rank].pairs : b->slot.pairs;
    if (s->values != NULL)
        cs_context_rank_keep(b, &s->values[which]);
}

static void run_rank(const struct start *s, struct cs_device *device, int rank,
                     struct cs_comm *sockets)
{
    struct cs_context_comm *comm = NULL;
    for (int i = 0; i < s->n; i++) {
        struct cs_context_rank b;
        cs_context_rank_open(&b, &s->lab[i], device, rank, sockets, &comm);
        run_case(s, i, &b);
        cs_context_rank_close(&b);
    }
    cs_context_comm_free(comm);
}

/* cs_selftest_rank_fn */
static enum cs_status run_thread(void *user, int rank, const int *fds, struct cs_err *err)
{
    const struct start *s = user;
    struct cs_device *device = cs_lazy_device_new();
    struct cs_comm *sockets = NULL;
    if (s->lab->ranks > 1)
        CS_TRY(cs_comm_socket_new(rank, s->lab->ranks, fds, &sockets, err));
    run_rank(s, device, rank, sockets);
    if (sockets != NULL)
        sockets->table->free(sockets);
    cs_lazy_device_free(device);
    return CS_OK;
}

/* cs_vlm_rank */
static void run_process(void *user, int rank, const int *fds)
{
    const struct start *s = user;
    struct cs_device device;
    struct cs_comm *sockets = NULL;
    struct cs_err err = {0};
    char name[32];
    snprintf(name, sizeof name, "%s:%d", s->lab->device, rank);
    cs_vlm_must(cs_device_open(name, s->lab->precision, &device, &err), &err);
    if (s->lab->ranks > 1)
        cs_vlm_must(cs_comm_socket_new(rank, s->lab->ranks, fds, &sockets, &err), &err);
    run_rank(s, &device, rank, sockets);
    if (sockets != NULL)
        sockets->table->free(sockets);
    cs_device_close(&device);
    fflush(NULL);
}

static struct cs_context_lab_result result_of(const struct told *told, int ranks)
{
    struct cs_context_lab_result out = {.fwd_ms = 0};
    for (int r = 0; r < ranks; r++) {
        out.fwd_ms = told->ms[0][r] > out.fwd_ms ? told->ms[0][r] : out.fwd_ms;
        out.bwd_ms = told->ms[1][r] > out.bwd_ms ? told->ms[1][r] : out.bwd_ms;
        out.pairs += out.rank_pairs[r] = told->pairs[r];
        out.rank_rows[r] = told->rows[r];
    }
    return out;
}

void cs_context_lab_run(const struct cs_context_lab *lab, int n,
                        struct cs_context_lab_values *values, struct cs_context_lab_result *out)
{
    struct start s = {lab, n, share(sizeof *s.shared), values};
    pthread_barrierattr_t attr;
    struct cs_err err = {0};
    CS_ASSERT(n <= MAX_CASES && lab->ranks <= CS_CONTEXT_LAB_RANKS);
    for (int i = 0; i < n; i++)
        CS_ASSERT(lab[i].ranks == lab->ranks && lab[i].rounds > 0 && lab[i].rounds <= MAX_ROUNDS);
    pthread_barrierattr_init(&attr);
    pthread_barrierattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&s.shared->barrier, &attr, (unsigned)lab->ranks);
    if (strcmp(lab->device, "lazy") == 0) {
        cs_vlm_must(cs_selftest_run_ranks(lab->ranks, run_thread, &s, &err), &err);
    } else if (!cs_vlm_run_ranks(lab->ranks, run_process, &s)) {
        fprintf(stderr, "a rank has failed\n");
        exit(1);
    }
    for (int i = 0; i < n; i++)
        out[i] = result_of(&s.shared->told[i], lab->ranks);
    munmap(s.shared, sizeof *s.shared);
}

/* ---- arrays of all ranks ---- */

static size_t value_bytes(const struct cs_context_lab *lab, int32_t heads)
{
    return (size_t)lab->tokens * (size_t)heads * (size_t)lab->dim * sizeof(float);
}

struct cs_context_lab_values cs_context_lab_new_values(const struct cs_context_lab *lab)
{
    return (struct cs_context_lab_values){
        share(value_bytes(lab, lab->heads)), share(value_bytes(lab, lab->heads)),
        share(value_bytes(lab, lab->kv_heads)), share(value_bytes(lab, lab->kv_heads))};
}

void cs_context_lab_free_values(const struct cs_context_lab *lab,
                                struct cs_context_lab_values *values)
{
    munmap(values->o, value_bytes(lab, lab->heads));
    munmap(values->dq, value_bytes(lab, lab->heads));
    munmap(values->dk, value_bytes(lab, lab->kv_heads));
    munmap(values->dv, value_bytes(lab, lab->kv_heads));
}

int cs_context_lab_gpus(void)
{
    int *n = share(sizeof *n), status, found;
    fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0) {
        struct cs_device device;
        if (cs_device_open("cuda:0", "bf16", &device, NULL) == CS_OK)
            (void)device.mem->count(n, NULL);
        _exit(0);
    }
    waitpid(pid, &status, 0);
    found = *n;
    munmap(n, sizeof *n);
    return found;
}

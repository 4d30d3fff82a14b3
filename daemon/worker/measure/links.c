/* The ranks of a group run one kind of exchange after the other, of several sizes. */
#include "worker/measure/links.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/system/clock.h"
#include "worker/measure/beside.h"
#include "worker/measure/fit.h"

enum { SAMPLES = 7, SIZES = CS_LINK_POINTS, HOST_RANKS = 4 };

static const int group_sizes[] = {2, 4, 8};

/* What a rank tells; children write it into memory that they share with this process. */
struct told {
    int64_t ns[CS_LINK_OPS][SIZES];            /* of one exchange, by size */
    struct cs_beside_told beside[CS_LINK_OPS]; /* of large ones; the host: nothing */
    bool by_copy_engines[CS_LINK_OPS];
    enum cs_status status;
    struct cs_err err;
};

struct member {
    const struct cs_link_devices *devices; /* NULL: the host */
    struct cs_comm *comm;
    int fds[CS_LINK_RANKS];
    struct told *told;
    pthread_t thread;
    pid_t child;
};

static const struct cs_exchanges *exchanges_of(const struct cs_link_devices *devices)
{
    return devices == NULL ? &cs_host_exchanges : &cs_device_exchanges;
}

static size_t bytes_of(const struct cs_link_devices *devices)
{
    return devices != NULL && devices->bytes > 0 ? devices->bytes : exchanges_of(devices)->large;
}

/* From the smallest to the largest in equal ratios, in whole numbers for every rank. */
static size_t size_of(const struct cs_exchanges *x, size_t large, int index)
{
    const double share = (double)index / (SIZES - 1);
    const double bytes = (double)x->small * pow((double)large / (double)x->small, share);
    const size_t unit = CS_LINK_RANKS * sizeof(float);
    return index == SIZES - 1 ? large : (size_t)bytes / unit * unit;
}

static bool is_run(int kind, int n_ranks)
{
    return kind != CS_LINK_SEND || n_ranks == 2; /* a message has two ends */
}

static enum cs_status exchange_once(const struct cs_exchanges *x, struct cs_link_rank *rank,
                                    int kind, size_t bytes, struct cs_err *err)
{
    if (x->before != NULL)
        CS_TRY(x->before(rank, kind, false, err));
    CS_TRY(x->kind[kind].run(rank, bytes, err));
    return x->after != NULL ? x->after(rank, err) : CS_OK;
}

/* messages are not waited for by who sends them */
static bool is_met(int kind)
{
    return kind != CS_LINK_SEND;
}

/* One sample of a kind, of no kind (below 0) of the work between exchanges alone. */
static enum cs_status time_sample(const struct cs_exchanges *x, struct cs_link_rank *rank, int kind,
                                  size_t bytes, double *ns, struct cs_err *err)
{
    const bool works = x->work != NULL && (kind < 0 || is_met(kind));
    const int64_t start = cs_now_ns();
    for (int k = 0; k < x->repeats; k++) {
        if (works)
            x->work(rank);
        if (kind >= 0)
            CS_TRY(exchange_once(x, rank, kind, bytes, err));
    }
    CS_TRY(x->settle(rank, err));
    *ns = (double)(cs_now_ns() - start) / x->repeats;
    return CS_OK;
}

static enum cs_status time_one(const struct cs_exchanges *x, struct cs_link_rank *rank, int kind,
                               size_t bytes, int64_t *ns, struct cs_err *err)
{
    double sample[SAMPLES], alone[SAMPLES] = {0}, spare;
    CS_TRY(time_sample(x, rank, kind, bytes, &spare, err)); /* warms up */
    for (int i = 0; i < SAMPLES; i++) {
        CS_TRY(time_sample(x, rank, kind, bytes, &sample[i], err));
        if (x->work == NULL || !is_met(kind))
            continue;
        CS_TRY(time_sample(x, rank, -1, 0, &alone[i], err));
        CS_TRY(exchange_once(x, rank, kind, bytes, err)); /* they begin together again */
    }
    const double both = cs_median(SAMPLES, sample), work = cs_median(SAMPLES, alone);
    *ns = (int64_t)(fmax(both - work, 1) / x->kind[kind].counts);
    return CS_OK;
}

/* Exchanges of the host do not run beside computing. */
static enum cs_status time_beside(const struct cs_exchanges *x, struct cs_link_rank *rank,
                                  struct cs_products *products, struct told *told,
                                  struct cs_err *err)
{
    if (rank->device == NULL)
        return CS_OK;
    CS_TRY(cs_products_open(products, rank, err));
    for (int k = 0; k < CS_LINK_OPS; k++)
        if (is_run(k, rank->comm->n_ranks))
            CS_TRY(cs_beside_time(products, x, rank, k, told->ns[k][SIZES - 1], &told->beside[k],
                                  err));
    return CS_OK;
}

static enum cs_status time_kinds(const struct cs_exchanges *x, struct cs_link_rank *rank,
                                 struct cs_products *products, struct told *told,
                                 struct cs_err *err)
{
    CS_TRY(x->open(rank, err));
    for (int k = 0; k < CS_LINK_OPS; k++)
        told->by_copy_engines[k] = x->by_copy_engines != NULL && x->by_copy_engines(rank, k);
    for (int k = 0; k < CS_LINK_OPS; k++)
        for (int s = 0; is_run(k, rank->comm->n_ranks) && s < SIZES; s++)
            CS_TRY(time_one(x, rank, k, size_of(x, rank->bytes, s), &told->ns[k][s], err));
    return time_beside(x, rank, products, told, err);
}

static bool is_process(const struct member *m)
{
    return m->devices != NULL && m->devices->are_processes;
}

/* A process ends with all that it has: what it shares with others may hold up who closes or frees anything. */
static void fail_member(struct member *m, enum cs_status status)
{
    m->told->status = status;
    if (is_process(m))
        _exit(0);
    m->comm->table->abort(m->comm);
}

/* A rank that failed is waited for by peers in the middle of an exchange, and would wait for them where it closes: it
 * tells, and ends what they share, before anything is closed. */
static enum cs_status time_all(const struct cs_exchanges *x, struct cs_link_rank *rank,
                               struct member *m, struct cs_err *err)
{
    struct cs_products products = {0};
    const enum cs_status status = time_kinds(x, rank, &products, m->told, err);
    if (status != CS_OK) {
        fail_member(m, status);
        x->abort(rank);
    }
    if (rank->device != NULL)
        cs_products_close(&products, rank);
    x->close(rank);
    return status;
}

/* Communicators wait for all their ranks without end, so none begins before every rank has its device. */
static enum cs_status meet(const struct member *m, struct cs_err *err)
{
    const size_t bytes[CS_LINK_RANKS] = {1, 1, 1, 1, 1, 1, 1, 1};
    char all[CS_LINK_RANKS];
    return m->comm->table->allgather(m->comm, "", all, bytes, CS_LINK_DEADLINE_MS, err);
}

static enum cs_status time_member(struct member *m, struct cs_err *err)
{
    struct cs_link_rank rank = {.comm = m->comm, .bytes = bytes_of(m->devices)};
    if (m->devices == NULL)
        return time_all(&cs_host_exchanges, &rank, m, err);
    CS_TRY(m->devices->open(m->comm->rank, &rank.device, err));
    enum cs_status status = meet(m, err);
    if (status == CS_OK)
        status = time_all(&cs_device_exchanges, &rank, m, err);
    m->devices->close(rank.device);
    return status;
}

static void *run_member(void *arg)
{
    struct member *m = arg;
    const enum cs_status status = time_member(m, &m->told->err);
    if (status != CS_OK)
        fail_member(m, status);
    else
        m->told->status = CS_OK; /* of a child only now */
    return NULL;
}

/* bytes per second of what an exchange takes more for more bytes */
static double rate_between(size_t few, double few_ns, size_t many, double many_ns)
{
    return (double)(many - few) * 1e9 / fmax(many_ns - few_ns, 1);
}

static struct cs_profile_link fit(const struct cs_exchanges *x, size_t large,
                                  const int64_t ns[SIZES], int kind, int n)
{
    const double rate = rate_between(x->small, (double)ns[0], large, (double)ns[SIZES - 1]);
    const double latency = (double)ns[0] - (double)x->small * 1e9 / rate;
    struct cs_profile_link link = {.op = cs_link_op_names[kind],
                                   .ranks = n,
                                   .latency_ns = latency > 0 ? (int64_t)latency : 0,
                                   .bytes_per_s = (int64_t)rate,
                                   .n_points = SIZES};
    for (int s = 0; s < SIZES; s++)
        link.point[s] = (struct cs_link_point){(int64_t)size_of(x, large, s), ns[s]};
    return link;
}

/* Of all ranks the mean. Beside products nothing is faster than alone; what is no part of the bytes takes as long. */
static void fit_beside(const struct member *member, int kind, int n, size_t large,
                       struct cs_profile_link *link)
{
    double ns = 0, slows = 0;
    for (int r = 0; r < n; r++) {
        ns += member[r].told->beside[kind].ns / n;
        slows += member[r].told->beside[kind].slows / n;
    }
    if (ns <= 0)
        return;
    const double rate = fmax(rate_between(0, (double)link->latency_ns, large, ns), 1);
    link->beside_bytes_per_s = (int64_t)fmin(rate, (double)link->bytes_per_s);
    link->slows = fmin(fmax(slows, 0), CS_SLOWS_MOST);
}

static void add_links(const struct member *member, int n, struct cs_profile *profile)
{
    const struct cs_exchanges *x = exchanges_of(member->devices);
    const size_t large = bytes_of(member->devices);
    for (int k = 0; k < CS_LINK_OPS; k++) {
        if (!is_run(k, n))
            continue;
        struct cs_profile_link *link = &profile->link[profile->n_links++];
        *link = fit(x, large, member->told->ns[k], k, n);
        fit_beside(member, k, n, large, link);
        link->by_copy_engines =
            cs_link_can_copy((enum cs_link_op)k) && member->told->by_copy_engines[k];
    }
}

static void close_sockets(struct member *m)
{
    if (m->comm != NULL)
        m->comm->table->free(m->comm);
    m->comm = NULL;
}

/* Of a rank's sockets only its own process has one end: they end with it. */
static void run_child(struct member *member, int rank, int n)
{
    for (int r = 0; r < n; r++)
        if (r != rank)
            close_sockets(&member[r]);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    (void)dup2(STDERR_FILENO,
               STDOUT_FILENO); /* libraries may write there, and readers want a document */
    run_member(&member[rank]);
    _exit(0);
}

static bool start_member(struct member *member, int rank, int n)
{
    struct member *m = &member[rank];
    if (!is_process(m))
        return pthread_create(&m->thread, NULL, run_member, m) == 0;
    m->told->status =
        cs_fail(&m->told->err, CS_STATE, "the process of rank %d ended", rank); /* till it tells */
    m->child = fork();
    if (m->child == 0)
        run_child(member, rank, n);
    return m->child > 0;
}

static void end_threads(struct member *member, int n)
{
    for (int r = 0; r < n; r++)
        pthread_join(member[r].thread, NULL);
}

/* An exchange of devices waits without end for a rank that is gone: who is left when one has failed goes as well. One
 * that lost a peer has not failed itself: the peer will tell why. */
static void end_children(struct member *member, int n)
{
    for (int left = n; left > 0;) {
        const pid_t ended = waitpid(-1, NULL, 0);
        bool has_failed = false;
        if (ended == -1 && errno != EINTR)
            return;
        for (int r = 0; r < n; r++)
            if (member[r].child == ended) {
                const enum cs_status status = member[r].told->status;
                has_failed = status != CS_OK && status != CS_PEER_GONE;
                member[r].child = 0;
                left--;
            }
        for (int r = 0; has_failed && r < n; r++)
            if (member[r].child > 0 && kill(member[r].child, SIGKILL) == 0)
                member[r].told->status = CS_PEER_GONE;
    }
}

static enum cs_status run_members(struct member *member, int n, struct cs_err *err)
{
    int started = 0;
    while (started < n && start_member(member, started, n))
        started++;
    for (int r = 0; r < n; r++)
        if (is_process(&member[r]))
            close_sockets(&member[r]);
        else if (started < n)
            member[r].comm->table->abort(member[r].comm);
    if (is_process(&member[0]))
        end_children(member, started);
    else
        end_threads(member, started);
    if (started < n)
        return cs_fail(err, CS_LIMIT, "no thread or process to measure links with");
    for (int r = 0; r < n; r++) /* who lost a peer says less than the peer */
        if (member[r].told->status != CS_OK && member[r].told->status != CS_PEER_GONE)
            return cs_fail(err, member[r].told->status, "measuring links: %s",
                           member[r].told->err.text);
    for (int r = 0; r < n; r++)
        if (member[r].told->status != CS_OK)
            return cs_fail(err, member[r].told->status, "measuring links: %s",
                           member[r].told->err.text);
    return CS_OK;
}

static enum cs_status connect_members(struct member *member, int n, struct cs_err *err)
{
    for (int a = 0; a < n; a++)
        for (int b = a + 1; b < n; b++) {
            int pair[2];
            if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0)
                return cs_fail_errno(err, "a socket to measure links with");
            member[a].fds[b] = pair[0];
            member[b].fds[a] = pair[1];
        }
    for (int r = 0; r < n; r++) {
        CS_TRY(cs_comm_socket_new(r, n, member[r].fds, &member[r].comm, err));
        for (int i = 0; i < n; i++)
            member[r].fds[i] = -1; /* they are its now */
    }
    return CS_OK;
}

static void close_members(struct member *member, int n)
{
    for (int r = 0; r < n; r++) {
        close_sockets(&member[r]);
        for (int i = 0; i < n; i++)
            if (member[r].fds[i] >= 0)
                close(member[r].fds[i]);
    }
}

static enum cs_status measure_group(struct member *member, int n, struct cs_profile *profile,
                                    struct cs_err *err)
{
    enum cs_status status = connect_members(member, n, err);
    if (status == CS_OK)
        status = run_members(member, n, err);
    if (status == CS_OK)
        add_links(member, n, profile);
    close_members(member, n);
    return status;
}

static void clear_members(struct member *member, const struct cs_link_devices *devices,
                          struct told *told)
{
    memset(told, 0, CS_LINK_RANKS * sizeof *told);
    for (int r = 0; r < CS_LINK_RANKS; r++) {
        member[r] = (struct member){.devices = devices, .told = &told[r]};
        for (int i = 0; i < CS_LINK_RANKS; i++)
            member[r].fds[i] = -1;
    }
}

enum cs_status cs_measure_links(const struct cs_link_devices *devices, struct cs_arena *arena,
                                struct cs_profile *profile, struct cs_err *err)
{
    const int most = devices != NULL ? devices->n : HOST_RANKS;
    profile->link =
        CS_NEW_ARRAY(arena, struct cs_profile_link, CS_ARRAY_LEN(group_sizes) * CS_LINK_OPS);
    profile->n_links = 0;
    struct member member[CS_LINK_RANKS];
    struct told *told = mmap(NULL, CS_LINK_RANKS * sizeof *told, PROT_READ | PROT_WRITE,
                             MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (told == MAP_FAILED)
        return cs_fail_errno(err, "memory to measure links");
    enum cs_status status = CS_OK;
    for (size_t i = 0; status == CS_OK && i < CS_ARRAY_LEN(group_sizes) && group_sizes[i] <= most;
         i++) {
        clear_members(member, devices, told);
        status = measure_group(member, group_sizes[i], profile, err);
    }
    (void)munmap(told, CS_LINK_RANKS * sizeof *told);
    return status;
}

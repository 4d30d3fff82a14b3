/* Ranks of a job as threads of one process, each connected to all others by socket pairs: what
 * cornstarch-runner does with processes. */
#ifndef CS_WORKER_SELFTEST_RANKS_H
#define CS_WORKER_SELFTEST_RANKS_H

#include "core/base/status.h"

enum { CS_SELFTEST_RANKS = 32 };

/* One rank, in a thread of its own. fds: (n) to the other ranks, its own is -1; it takes them over, as
 * cs_comm_socket_new does. */
typedef enum cs_status (*cs_selftest_rank_fn)(void *user, int rank, const int *fds,
                                              struct cs_err *err);

/* Runs n ranks (1 to CS_SELFTEST_RANKS) to their ends. A rank that fails closes its sockets, which ends
 * the others; the error is that of the first rank that failed by itself. */
enum cs_status cs_selftest_run_ranks(int n, cs_selftest_rank_fn run, void *user,
                                     struct cs_err *err) CS_NODISCARD;

#endif

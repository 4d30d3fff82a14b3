/* Ranks of a job as threads of a test, each connected to all others by socket pairs. */
#ifndef CS_TESTS_SUPPORT_RANKS_H
#define CS_TESTS_SUPPORT_RANKS_H

#include "core/base/status.h"

enum { CS_TEST_MAX_RANKS = 8 };

/* One rank, in a thread of its own. fds: (n) to the other ranks, its own is -1; taken over, as
 * cs_comm_socket_new does. */
typedef enum cs_status (*cs_test_rank_fn)(void *user, int rank, const int *fds, struct cs_err *err);

/* Runs n ranks, 1 to CS_TEST_MAX_RANKS, to their ends; the test fails when one of them does. */
void cs_test_run_ranks(int n, cs_test_rank_fn run, void *user);

#endif

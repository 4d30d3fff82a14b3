/* NCCL and a device that only count who comes: ranks are threads of the test, a message is there when all ranks of its
 * communicator have asked for as many. The plugin's own table is made of it (nccl.cc). */
#ifndef CS_TESTS_NCCL_FAKE_H
#define CS_TESTS_NCCL_FAKE_H

#include "kernels/device.h"

#ifdef __cplusplus
extern "C" {
#endif

extern const struct cs_device_comm_ops cs_cuda_comm_ops; /* of kernels/cuda/comm/nccl.cu */

/* where a rank stands still from the next call on: others wait for it */
enum fake_place { FAKE_NOWHERE, FAKE_INIT, FAKE_MESSAGE, FAKE_CLOSE };

/* Rank 1 of every communicator: it does not come to that place. */
void fake_nccl_stop(enum fake_place place);
/* From now on who opens a communicator, or asks whether one is well, is told so; `said` stays with the caller. */
void fake_nccl_fail(int code, const char *said);
/* All that wait are told that a peer is gone, from now on. Returns when none is in a call any more. */
void fake_nccl_release(void);
int fake_nccl_aborted(void);
int fake_nccl_destroyed(void);
/* back to the beginning, when all calls have ended; memory that was left to the end of the process is freed */
void fake_nccl_reset(void);

#ifdef __cplusplus
}
#endif

#endif

/* Messages between the GPUs of one host by their copy engines, beside a communicator of NCCL: no
 * multiprocessor takes part, so that products beside them keep all of theirs.
 *
 * Every rank has a window of memory that the others write to: for each of them a ring of pieces, and two
 * counters. A piece is pushed into the ring of the peer, whose counter of arrivals then says so; the peer
 * copies it to where it belongs and raises this rank's counter of what is free again. Streams wait for
 * counters, the host for nobody. Each direction between two ranks has a stream of its own, so that what
 * waits holds up nothing else: it needs the one counterpart only, which is on its way. Of a lane, whose
 * messages go from rank 0 to rank 1, that is the caller's. */
#ifndef CS_CUDA_COMM_PEERS_CUH
#define CS_CUDA_COMM_PEERS_CUH

#include "kernels/cuda/check.cuh"

struct cs_cuda_peers;

enum { CS_CUDA_PEERS_HANDLE = 64 };

/* This rank's window, and what others open it by. The current device's. */
enum cs_status cs_cuda_peers_new(int rank, int n, bool is_lane, char handle[CS_CUDA_PEERS_HANDLE],
                                 struct cs_cuda_peers **out, struct cs_err *err);
/* The window of a rank, the own one too, for which nothing is to do. CS_UNSUPPORTED: it cannot be reached. */
enum cs_status cs_cuda_peers_open(struct cs_cuda_peers *peers, int rank, const char *handle,
                                  struct cs_err *err);
/* as cs_device_comm_ops.move; at most one message to, and one from, a peer at a time is fastest */
enum cs_status cs_cuda_peers_move(struct cs_cuda_peers *peers, const struct cs_device_move *moves,
                                  int n, cudaStream_t stream, struct cs_err *err);
/* Nobody is waited for any more; what is copied afterwards makes no sense. Others may still write to the window,
 * and what is on the device may still wait for other communicators: both, and their memory, stay until the
 * process ends, which follows. NULL: nothing. From any thread. */
void cs_cuda_peers_abort(struct cs_cuda_peers *peers);
/* The windows of others are closed. All ranks have done so before one comes to free. */
void cs_cuda_peers_close(struct cs_cuda_peers *peers);
void cs_cuda_peers_free(struct cs_cuda_peers *peers); /* accepts NULL */

#endif

/* Messages between GPUs: one channel per peer and direction, each an NCCL communicator of two ranks
 * on a stream of its own, so that channels progress independently as programs assume. They are
 * narrow, for messages run beside computing; the gradient of a tied embedding, whose ranks do
 * nothing else meanwhile, has a wide communicator both ways. All of a plan are made when the worker
 * starts, in one sorted order on every rank; their ids travel over the job's sockets. Used by one
 * thread; abort may come from another. */
#ifndef CS_WORKER_COMM_CHANNELS_H
#define CS_WORKER_COMM_CHANNELS_H

#include "core/plan/plan.h"
#include "kernels/comm.h"
#include "worker/device/device.h"

struct cs_channels;

/* Channels for every edge of the plan between this rank and others, both ways where a gradient
 * flows back; the wide channel where this rank has one end of a tied embedding that trains. rank and
 * peers, here and below: of all. comm: the sockets of all ranks, borrowed for the call.
 * CS_UNSUPPORTED: no NCCL. */
enum cs_status cs_channels_new(struct cs_device *device, const struct cs_plan *plan, int rank,
                               struct cs_comm *comm, int deadline_ms, struct cs_channels **out,
                               struct cs_err *err) CS_NODISCARD;
/* Accepts NULL. Channels that work are closed together with their peers, so every rank must come
 * here; after cs_channels_abort, or when a peer is gone, nobody is waited for. */
void cs_channels_free(struct cs_channels *channels);

void *cs_channels_stream(const struct cs_channels *channels, int peer, bool is_send);
/* Enqueue one message on its channel: n parts, data and bytes of each; the peer has parts of the same
 * sizes. */
enum cs_status cs_channels_move(struct cs_channels *channels, int peer, bool is_send,
                                const struct cs_device_move *part, int n,
                                struct cs_err *err) CS_NODISCARD;
/* On `stream`: mine goes, and theirs comes, over the wide channel to the tied embedding's other
 * rank. */
enum cs_status cs_channels_exchange(struct cs_channels *channels, int peer, void *mine,
                                    void *theirs, size_t bytes, void *stream,
                                    struct cs_err *err) CS_NODISCARD;
/* A channel or the wide channel has failed: CS_PEER_GONE, or what this host lacks; names its peer. Does not wait. */
enum cs_status cs_channels_check(struct cs_channels *channels, struct cs_err *err) CS_NODISCARD;
/* until all messages of the channels are through; an exchange is its stream's */
enum cs_status cs_channels_await(struct cs_channels *channels, struct cs_err *err) CS_NODISCARD;
void cs_channels_abort(struct cs_channels *channels); /* accepts NULL */

#endif

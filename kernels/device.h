/* What a back end with memory of its own offers besides the operators: memory, copies, streams,
 * events and the operators' private state (the handle of cs_ctx). Plain C; found through
 * cs_ops.device, NULL where operators work on host memory.
 *
 * Rules for operators of such a back end: every array is device memory, also the arrays that a
 * struct cs_mask_plan points at (segment too), loss, sum, mean and std; structs are host memory.
 * One handle serves one stream and one host thread at a time. A handle owns fixed scratch for
 * operators that have no *_workspace query (column sums, sums of squares, GEMM). An operator that
 * cannot be launched leaves its first error in the handle: status() returns it from then on.
 *
 * Capture: no operator allocates, waits or creates anything while its stream is captured, but its
 * first run loads its kernels. So before it is captured an operator has run once outside, with the
 * same act type and
 *     gemm, gemm_wgrad, linear*       the same shape, strides, alignment of pointers (up to 16
 *                                     bytes) and presence of bias, residual, pre: makes the plan
 *                                     (and measures it: tune). Not met: the library's first plan
 *     linear_xent                     the same rows, in, vocab, workspace and wants
 *     act*, gated*                    the same kind
 *     norm, add_norm, norm_grad       the same kind, n and presence of gradients
 *     attention*, mask_build          the same head_dim and shape
 *     adamw*, sumsq*, embed_grad,
 *     bias*, casts and the rest       once, whatever the shape
 * A captured adamw keeps its hyperparameters: record the optimizer anew when they change, or leave
 * it out. The scratch of the handle is reused by its next operator: replay graphs of one handle on
 * its stream only. */
#ifndef CS_KERNELS_DEVICE_H
#define CS_KERNELS_DEVICE_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/status.h"
#include "kernels/ops.h"

enum { CS_DEVICE_COMM_ID = 128 };

/* Memory of the device that each rank of a SUMS communicator on one host takes for every other one, while they are at
 * most so many, and the second of a COPY_LANE for the first. */
#define CS_DEVICE_COMM_RING_BYTES ((size_t)32 << 20)
#define CS_DEVICE_COMM_LANE_BYTES ((size_t)16 << 20)

enum { CS_DEVICE_COMM_RING_RANKS = 8 };

/* what a communicator is for: how much of the device it may take */
enum cs_device_comm_kind {
    CS_DEVICE_COMM_LANE, /* a channel: two ranks, messages from the first to the second, beside computing */
    CS_DEVICE_COMM_GROUP,  /* collectives of large buffers */
    CS_DEVICE_COMM_BULK,   /* two ranks, large messages both ways while nothing else runs */
    CS_DEVICE_COMM_ROWS,   /* messages between all ranks, large ones, beside computing */
    CS_DEVICE_COMM_SUMS,   /* sums that all ranks wait for, large ones, partly beside computing */
    CS_DEVICE_COMM_TOTALS, /* sums of large buffers at the end of a step */
    CS_DEVICE_COMM_COPY_LANE /* a lane that waits on no multiprocessor where both ranks are of one host: copy engines
                              * move what goes there. Each of a rank takes a queue of the device */
};

/* One of several messages that go together. */
struct cs_device_move {
    void *data;
    size_t bytes;
    int peer;
    int is_send;
};

/* Collectives and messages between devices (NCCL). Communicators are made for the device that is
 * current; calls of one communicator come from one thread. Everything is enqueued on the stream that
 * is given; nothing but open and close waits for the device or for other ranks, for 65 s at most.
 * CS_UNSUPPORTED: the library is not there. */
struct cs_device_comm_ops {
    enum cs_status (*new_id)(char id[CS_DEVICE_COMM_ID], struct cs_err *err);
    /* All n ranks call it, when all of them are there; returns when the communicator is ready and what its kind is for has been done once, so that
     * nothing is connected in a step: LANE, BULK, ROWS: messages; GROUP: reduce_scatter and all_gather; SUMS: messages
     * and all_reduce; TOTALS: all_reduce. CS_TIMEOUT: others did not come to it, and a thread of this process may wait
     * for them for ever: end the process without its destructors. */
    enum cs_status (*open)(const char id[CS_DEVICE_COMM_ID], int rank, int n,
                           enum cs_device_comm_kind kind, void **comm, struct cs_err *err);
    /* All at once: no order of sends and receives can wait for ever, as calls on one stream could.
     * Those between two ranks in one direction are a FIFO. Arrays that are received do not overlap
     * with others. A rank may be its own peer. */
    enum cs_status (*move)(void *comm, const struct cs_device_move *moves, int n, void *stream,
                           struct cs_err *err);
    /* sums of n arrays of n * count gradients; part `rank` of them to `to`, which may lie in place.
     * bf16: every partial sum is rounded to nearest */
    enum cs_status (*reduce_scatter)(void *comm, const void *from, void *to, size_t count,
                                     enum cs_grad_type type, void *stream, struct cs_err *err);
    /* data (n) = the sum of what all ranks have there: the same bits on all of them, and whenever
     * they sum the same again. bf16: every partial sum is rounded to nearest */
    enum cs_status (*all_reduce)(void *comm, void *data, size_t n, enum cs_grad_type type,
                                 void *stream, struct cs_err *err);
    /* bytes of every rank, in rank order, to `to`; from may lie in place */
    enum cs_status (*all_gather)(void *comm, const void *from, void *to, size_t bytes, void *stream,
                                 struct cs_err *err);
    /* whether copy engines do what move asks for, and no multiprocessor: the same on all ranks */
    int (*moves_by_copy_engines)(const void *comm);
    /* An error was noticed beside the calls: CS_PEER_GONE, or what this host lacks. */
    enum cs_status (*check)(void *comm, struct cs_err *err);
    void (*abort)(void *comm); /* ends what is under way and frees it */
    /* All its ranks call it, and it waits for them; afterwards a thread may be left as open says. NULL: nothing */
    void (*close)(void *comm);
};

#define CS_DEVICE_VERSION 10

struct cs_device_properties {
    char name[128];
    size_t memory_bytes;
    int32_t capability_major, capability_minor;
    int32_t processors; /* multiprocessors */
    int32_t l2_bytes;
};

struct cs_device_ops {
    uint32_t version;
    const struct cs_ops *ops_f32; /* the same operators with fp32 as act type */
    const struct cs_device_comm_ops *comm;

    /* CS_UNSUPPORTED: no driver, or it is too old; *n is 0 then */
    enum cs_status (*count)(int *n, struct cs_err *err);
    enum cs_status (*properties)(int index, struct cs_device_properties *out, struct cs_err *err);

    /* Makes the device current in the calling thread; all calls with this handle come from threads
     * for which it is. CS_UNSUPPORTED: no such device or compiled for another kind. */
    enum cs_status (*open)(int index, void **handle, struct cs_err *err);
    void (*close)(void *handle); /* NULL: nothing */
    /* The first error of an operator, or of the device, noticed so far; does not wait. */
    enum cs_status (*status)(void *handle, struct cs_err *err);

    /* alloc does not wait for what runs on the device, free does */
    enum cs_status (*alloc)(void *handle, size_t bytes, void **p, struct cs_err *err);
    void (*free)(void *handle, void *p);
    /* page-locked host memory */
    enum cs_status (*alloc_host)(void *handle, size_t bytes, void **p, struct cs_err *err);
    void (*free_host)(void *handle, void *p);
    /* in order of the stream; any direction; asynchronous for page-locked host memory */
    enum cs_status (*copy)(void *handle, void *stream, void *to, const void *from, size_t bytes,
                           struct cs_err *err);
    enum cs_status (*fill)(void *handle, void *stream, void *p, int byte, size_t bytes,
                           struct cs_err *err);

    enum cs_status (*stream_create)(void *handle, void **stream, struct cs_err *err);
    /* What is on it begins before what other streams have to begin. */
    enum cs_status (*stream_create_urgent)(void *handle, void **stream, struct cs_err *err);
    void (*stream_destroy)(void *handle, void *stream);
    enum cs_status (*stream_sync)(void *handle, void *stream, struct cs_err *err);
    enum cs_status (*event_create)(void *handle, void **event, struct cs_err *err);
    void (*event_destroy)(void *handle, void *event);
    enum cs_status (*event_record)(void *handle, void *event, void *stream, struct cs_err *err);
    enum cs_status (*stream_wait)(void *handle, void *stream, void *event, struct cs_err *err);
    /* CS_STATE: not reached yet */
    enum cs_status (*event_query)(void *handle, void *event, struct cs_err *err);
    enum cs_status (*event_elapsed)(void *handle, void *begin, void *end, double *ms,
                                    struct cs_err *err);

    /* How plans of matrix products are chosen from now on. candidates 0 (so it begins): the
     * library's first, or what the file says. Else the first product of a shape outside of stream
     * capture times that many candidates (at most 64; 8 find what there is to find) on memory of
     * its own, which takes tens of milliseconds and waits for the device. path NULL or a file:
     * choices found there for this card and library version are taken without timing, new ones are
     * appended; it is created where it is missing, workers may share it. Other choices round
     * differently: use one file where runs must agree to the bit. CS_IO: the file cannot be opened,
     * CS_INVALID: candidates. */
    enum cs_status (*tune)(void *handle, int32_t candidates, const char *path, struct cs_err *err);
    /* For callers that must not wait in the middle of their work (tune with 0 candidates, and with
     * the file, then this now and then): measure, on this stream and now, the products outside of
     * graphs that ran at least `uses` times and whose plans are neither measured nor from the file,
     * at most `most` of them. Waits for what runs on the device. *measured (may be NULL) counts
     * them. */
    enum cs_status (*tune_used)(void *handle, void *stream, int32_t candidates, int64_t uses,
                                int32_t most, int32_t *measured, struct cs_err *err);

    /* Graphs: what is launched on the stream between begin and end, by this thread, is recorded
     * instead of run, and replayed by launch with the same pointers, sizes and hyperparameters.
     * What a recorded operator needs to have done before: the rule at the top. begin refuses after
     * an error; end gives the first error of an operator that was recorded and takes it out of the
     * handle, for nothing has run: what was recorded can be run as ever. end and graph_destroy may
     * wait for what runs on the device, launch does not. */
    enum cs_status (*capture_begin)(void *handle, void *stream, struct cs_err *err);
    enum cs_status (*capture_end)(void *handle, void *stream, void **graph, struct cs_err *err);
    enum cs_status (*graph_launch)(void *handle, void *graph, void *stream, struct cs_err *err);
    void (*graph_destroy)(void *handle, void *graph); /* NULL: nothing */
};

/* The one symbol that libcornstarch-cuda.so exports: operators with bf16 as act type, NULL when
 * version is not CS_OPS_VERSION. */
typedef const struct cs_ops *cs_cuda_ops_fn(uint32_t version);

#endif

/* Graphs of stage actions: what a forward or backward launches on a GPU is recorded once and then
 * launched as a whole, where launching it one by one takes the host longer than the device needs.
 *
 * Every stage action is written on a tape first (worker/device/tape.h): the list of operator calls
 * with all their arguments, which costs a few percent of launching them. The tape is cut into
 * pieces at layers that see ragged numbers of rows (the LLM's embedding and the head: encoder rows
 * and labels of the slot) and where somebody watches (replicas wait for weights, or send gradients:
 * such calls stay outside). A piece's key is the hash of its bytes on the tape. It is complete by
 * construction: operators are functions of the arguments that are on the tape (numbers, addresses,
 * structs by value), of their handle, which is one per process, and of what those addresses hold
 * when the device gets there. Nobody has to list what an action depends on, and a new argument is
 * in the key because without it the tape could not be played. (Two different pieces with one
 * xxh3-128 are less likely than a broken memory module.)
 *
 * A key that was seen before may be captured: by then its operators have run outside of a capture
 * with the same arguments, as kernels/device.h asks for, so kernels are loaded and plans of matrix
 * products are made and measured. Which ones: AUTO captures pieces of actions whose host time was
 * more than half of their time on the device when they ran without a graph the second time or later
 * (the first run loads and plans). Others are enqueued as they are. Where several slots are
 * enqueued, a host that is far ahead waits for room in the device's queue, and that counts as host
 * time: such actions are captured too and gain as well, for in a graph the gaps between kernels are
 * shorter. Making a graph of a few hundred calls takes half a millisecond, so the first dozen of
 * steps are longer. At most 1024 keys are known, the least recently used goes; at most 256 graphs
 * are kept, one that was not used for 32 steps makes room (a job that works on more in turn keeps
 * those it has, instead of making all anew). A capture that fails is said once, its key is not
 * tried again, and the piece is enqueued as it is.
 *
 * Captures are made before a step begins, from a copy of the tape, for making a graph allocates and
 * may wait for what runs on the device: in the middle of a step that can be a message whose peer
 * waits for us.
 *
 * Keys repeat because slots are placed at addresses that do not depend on what they hold, and
 * because rows of the LLM are rounded up to buckets on a GPU (worker/slot/slot.h).
 *
 * Not in graphs: messages, collectives, the optimizer (its step number is an argument that
 * changes), building the lists of masks, copies between host and device. One thread. */
#ifndef CS_WORKER_EXEC_GRAPHS_H
#define CS_WORKER_EXEC_GRAPHS_H

#include "core/model/graph.h"
#include "worker/layer/layers.h"

enum cs_graphs_mode {
    CS_GRAPHS_AUTO,  /* where they pay */
    CS_GRAPHS_OFF,   /* never */
    CS_GRAPHS_ALWAYS /* every piece that ran twice, for tests */
};

enum {
    CS_GRAPHS_MAX_KEYS = 1024,
    CS_GRAPHS_MAX = 256,
    CS_GRAPHS_MAX_NEW = 32, /* captures before a step */
    CS_GRAPHS_STALE = 32    /* steps */
};

struct cs_graphs_counts {
    int64_t pieces, calls;           /* that were enqueued, graphs or not */
    int64_t replays, replayed_calls; /* of those: by a graph */
    int64_t known;                   /* of the pieces: with a key that was seen before */
    int64_t captures, failures, dropped;
};

struct cs_graphs;

/* what the environment says (CS_VAR_GRAPHS) */
enum cs_graphs_mode cs_graphs_mode_wanted(void);

/* *out is NULL for the host and for OFF: every function below accepts that and does nothing.
 * graph: whose layers stages are made of, borrowed as device is. */
enum cs_status cs_graphs_new(struct cs_device *device, const struct cs_graph *graph,
                             enum cs_graphs_mode mode, struct cs_graphs **out,
                             struct cs_err *err) CS_NODISCARD;
void cs_graphs_free(struct cs_graphs *graphs); /* the device is idle */

/* A step begins, no message is under way on the device: captures what was put off. */
void cs_graphs_begin(struct cs_graphs *graphs);
/* Activations lie elsewhere from now on, the device is idle: what was put off is void and graphs,
 * which name the old addresses, go. Between steps. */
void cs_graphs_moved(struct cs_graphs *graphs);
/* From here on what is run through `run` is written down; its context, operators, device and watch
 * are replaced. The watch it had is asked when the tape is played, in the same order. */
void cs_graphs_open(struct cs_graphs *graphs, struct cs_run *run);
/* Enqueue what was written down; action: whose it was. Trouble is kept in the device. */
void cs_graphs_close(struct cs_graphs *graphs, uint32_t action);

/* After the step: the n-th action whose time on the device is to be told, UINT32_MAX: no more. */
uint32_t cs_graphs_asks(const struct cs_graphs *graphs, uint32_t n);
void cs_graphs_tell(struct cs_graphs *graphs, uint32_t n, int64_t device_ns);

struct cs_graphs_counts cs_graphs_counts(const struct cs_graphs *graphs); /* since the start */

#endif

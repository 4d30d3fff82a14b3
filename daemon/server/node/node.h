/* The node's GPUs in the daemon: found once at its start, read every second while somebody watches,
 * Prometheus asks or a job runs on them, and at a question when the last reading is old; leased to jobs. They are
 * read in a thread (gpu_watch.h): no client waits for the driver but who asks for its figures, and
 * that one not longer than a second.
 *
 * A node offers its GPUs where it has some and CPU ranks beside them for plans that say
 * device = "cpu"; --devices narrows that. */
#ifndef CS_SERVER_NODE_H
#define CS_SERVER_NODE_H

#include "core/plan/cluster.h"
#include "server/jobs/job.h"

/* Finds the GPUs and settles what --devices offers. No GPUs is no error unless they are asked for. */
enum cs_status cs_node_open(struct cs_server *server, struct cs_err *err) CS_NODISCARD;
void cs_node_close(struct cs_server *server);
void cs_node_tick(struct cs_server *server); /* reads and publishes when it is time */

/* what cs.cluster "here" means on this node: its GPUs, else the CPU ranks that it offers */
struct cs_here cs_node_here(const struct cs_server *server);
const char *cs_node_gpus_note(const struct cs_server *server); /* "" nothing to say */
const char *cs_node_driver(const struct cs_server *server);    /* "" unknown */
/* Is the last reading younger than half a second? When not, one is asked for: let the request wait
 * (cs_caller_wait with job 0), it is handled again once the reading is there or late. */
bool cs_node_is_fresh(struct cs_server *server);

/* what jobs can use; the GPUs that there are, offered or not; both */
enum cs_devices { CS_DEVICES_OFFERED, CS_DEVICES_GPUS, CS_DEVICES_ALL };

/* device objects of the last reading */
json_t *cs_node_devices(const struct cs_server *server, enum cs_devices which);

/* how many ranks of the kind the node offers, and how many of them jobs hold */
int64_t cs_node_offers(const struct cs_server *server, bool is_gpu);
int64_t cs_node_held(const struct cs_server *server, bool is_gpu);
/* row.gpus becomes the lowest free GPUs; call it when there are enough */
void cs_node_lease(struct cs_job *job);
/* The devices of the job's ranks in their order, as its own processes name them: "cuda:0,cuda:1". */
void cs_node_rank_devices(const struct cs_job *job, char *out, size_t cap);
/* what CUDA_VISIBLE_DEVICES of the job's processes says; "" for CPU ranks */
void cs_node_visible(const struct cs_job *job, char *out, size_t cap);

#endif

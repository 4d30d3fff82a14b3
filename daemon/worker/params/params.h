/* The parameters one rank holds, in the memory of its device: weights of every layer of its stages
 * in the act type; trainable ones also have an fp32 master, a gradient and AdamW's two moments.
 * Where acts are fp32, weight and master are one array. A device that keeps its state in bf16
 * (cs_device_keep) has no masters, and gradients and moments in bf16: 8 bytes for a trained
 * parameter instead of 18. Planned from the graph and the plan.
 *
 * Weights of one layer that one GEMM reads (q, k, v; gate, up) lie side by side without gaps, in
 * all four areas, so that the fused matrix is a view. A tied head on the rank of the head stage is
 * a second entry of the embedding's parameter: the weights are a copy (a view where both stages are
 * on one rank), the gradient is always its own buffer, and sums are embedding first, head second;
 * hence every layout adds in the same order. Only state in bf16 has one gradient for both where
 * both are on one rank.
 *
 * Where a plan divides gradients of a stage among the ranks that have its weights (zero 2) they are whole
 * only while the backward of a slot is in their layer, in a buffer that layers share; what stays from slot
 * to slot is the own part of the sum over all those ranks. Where it divides weights too (zero 3), trained
 * or frozen, a rank keeps its own part and they are whole in such a buffer while their layer runs. Tied
 * tables stay whole (core/plan/cost/stage/zero.h). */
#ifndef CS_WORKER_PARAMS_PARAMS_H
#define CS_WORKER_PARAMS_PARAMS_H

#include "core/model/tensor_parallel.h"
#include "core/plan/plan.h"
#include "store/ckpt/checkpoint.h"
#include "store/hf/hfdir.h"
#include "worker/device/device.h"

struct cs_shard;

/* LoRA beside a matrix of a product (core/model/graph.h): its factors, and which columns of the
 * product's output they add to. */
struct cs_adapter {
    const struct cs_shard *a, *b; /* (rank, in), (out, rank) */
    int64_t at, out, rank;
    float scale;
};

/* What this rank has of one parameter: weights, and where it trains a gradient and the optimizer's
 * state. */
struct cs_shard {
    const struct cs_param *param; /* as this rank has it */
    const struct cs_param *whole; /* of the model: the same where it is not cut */
    const struct cs_tp_part
        *part;  /* what param is of it; NULL: no other rank of the stage has some */
    void *w;    /* (param->dim) acts, what operators read; zero 3: while its layer runs */
    void *grad; /* of the loss sum, in the device's type of gradients; NULL: frozen */
    int64_t at; /* in a bucket: its first element among those of all buckets */
    /* nothing was added to grad yet, whatever lies there: what comes overwrites it. One for all
     * that one product makes; the host clears instead, there it stays false */
    bool *is_grad_new;
    /* elements own_at .. own_at + own_n - 1 are updated by this rank: all of them, or this
     * replica's part (possibly none). The next three have that part only. */
    int64_t own_at, own_n;
    void *own_w, *own_grad; /* acts, and gradients summed over replicas; in w and grad, or apart */
    float *master; /* fp32; in own_w where acts are fp32, else NULL: frozen, or state in bf16 */
    void *exp_avg, *exp_avg_sq; /* of grad's type. NULL: frozen, or a tied view (its owner is
                                 * updated) */
    int32_t bucket;             /* -1: a tied view, or frozen and not divided */
    bool is_tied_head;          /* the head's entry of the embedding */
    bool is_counted; /* in the norm, in checkpoints, in the hash: once over all stages and copies */
    bool is_restored; /* frozen, but from a checkpoint: it was trained before it was frozen */
    float *restored;  /* host memory, what the checkpoint held; NULL: master has it */
    /* of the whole product that begins with this matrix (a group's first); the parameters' own */
    const struct cs_adapter *adapter;
    int32_t n_adapters;
};

/* Ranks that have the same parameters, and which of them this one is: those of all replicas of the
 * stage and all parts of a context. Of experts that are spread over ranks every ep-th has the same. */
enum cs_held { CS_HELD_BY_ALL, CS_HELD_EXPERTS, CS_HELDS };

struct cs_holders {
    int32_t n, at;
};

/* What of a slot's work makes a gradient complete. Where gradients are divided they are summed behind it,
 * and their memory is another layer's then: those that halves of a split backward make are apart. */
enum cs_made {
    CS_MADE_FORWARD = 1 << 0,      /* the loss makes those of its own weights */
    CS_MADE_WITH_INPUT = 1 << 1,   /* the input half of a backward: norms, tables */
    CS_MADE_WITH_WEIGHTS = 1 << 2, /* its weight half, or the whole backward */
    CS_MADE_BACKWARD = CS_MADE_WITH_INPUT | CS_MADE_WITH_WEIGHTS
};

/* Parameters that replicas sum, or gather, together: those of some layers of one stage, one behind the
 * other. Its elements are dealt out evenly: replica k updates the k-th part (ZeRO, Rajbhandari et al.
 * 2020). Where gradients or weights are divided it has those of one layer. */
struct cs_bucket {
    int64_t at, n;                  /* elements, a multiple of its holders */
    int64_t own_at;                 /* of this rank's parts of all buckets, one behind the other */
    enum cs_held held;              /* whose it is */
    int32_t first_layer, end_layer; /* graph->layers; it is complete when first_layer's backward is
                                     * done; -1: of a tied embedding, after all others */
    int32_t zero;                   /* what is divided (cs_stage.zero), of a tied embedding 1 */
    int32_t stage;                  /* of the plan */
    enum cs_made made;              /* where gradients are divided: of which kind they are */
    bool
        has_copies; /* of an encoder, on other ranks of the replica: they are summed before replicas are */
    /* bytes from the beginning of `weights` and of `state`: all of it, and this replica's part */
    size_t w, own_w, grad, own_grad;
};

struct cs_params {
    const struct cs_graph *graph; /* as this rank has it: the model's, or a view of it */
    struct cs_tp_view view;       /* where ranks share the stage; whole NULL: they do not */
    struct cs_arena *arena;       /* of the view */
    struct cs_tp tp;              /* this rank among those */
    struct cs_shard *shard;       /* by parameter id; the tied head's entry is the last */
    int32_t n;
    int32_t *index;                /* (graph->n_params) -> shard, -1: not on this rank */
    bool *is_grad_new;             /* (n) what shards point at */
    struct cs_shard *tied;         /* the head's entry, NULL: untied or head stage elsewhere */
    struct cs_shard *embed;        /* the embedding's entry when tied, NULL: elsewhere */
    int32_t embed_rank, head_rank; /* when tied, else -1 */
    struct cs_device *device;
    int threads;   /* that this rank may use to load, the other ranks too */
    void *weights; /* one block of acts */
    void *state;   /* one block: gradients, moments, masters where they are apart */
    size_t weight_bytes, state_bytes;
    void *grads; /* all gradients, one block in state */
    size_t grad_bytes;
    size_t grad_size;            /* bytes of an element of gradients and moments: 4, or 2 in bf16 */
    int32_t n_replicas, replica; /* ranks with these weights (cs_plan_holders), and which of them */
    struct cs_holders holders[CS_HELDS]; /* the same; experts: as all where they are not spread */
    struct cs_bucket
        *bucket; /* (n_all_buckets) trained ones, in order of layers, then frozen ones */
    int32_t n_buckets, n_all_buckets; /* trained; and frozen, whose weights are divided */
    int32_t
        n_turns; /* layers that have room for what is whole for a while; buffers of weights (cs_params_turn) */
    struct cs_adapter *adapter; /* by the shard that has them */
    float *staging;             /* host: one tensor on its way, NULL: one replica on the host */
    int64_t staging_count;      /* elements it has room for */
};

/* Plan the arena for the stages of a rank (of all replicas' ranks), which may share their matrices with
 * other ranks (core/model/tensor_parallel.h); graph: of the model; weights are not filled, moments
 * and gradients are 0. */
enum cs_status cs_params_new(const struct cs_graph *graph, const struct cs_plan *plan, int rank,
                             struct cs_device *device, struct cs_params **out,
                             struct cs_err *err) CS_NODISCARD;
void cs_params_free(struct cs_params *params); /* accepts NULL */

/* Fill the weights: module init "weights" from its directory (CS_NOT_FOUND names a missing tensor,
 * CS_INVALID a wrong shape), "random": Philox(seed, hash of the global name, element), so the
 * values do not depend on the layout. */
enum cs_status cs_params_load(struct cs_params *params, uint64_t seed,
                              struct cs_err *err) CS_NODISCARD;
/* Resume: masters and moments of the trainable parameters, which checkpoints hold in fp32: what was
 * kept in bf16 comes back as it was, what was not is rounded to nearest. One that the checkpoint
 * does not hold (it was frozen then) keeps its weights with zero moments. *n_missing (may be NULL)
 * counts those. */
enum cs_status cs_params_resume(struct cs_params *params, const struct cs_ckpt *ckpt,
                                int32_t *n_missing, struct cs_err *err) CS_NODISCARD;

/* the entry of a parameter on this rank, NULL: not here */
struct cs_shard *cs_params_find(const struct cs_params *params, int32_t param_id);
/* All gradients are 0: on the host at once; on a device with the first that is added, or with
 * settle, which clears what nothing has been added to (of a bucket; -1: of all that are not divided; in
 * order of the device's stream). */
void cs_params_zero_grads(struct cs_params *params);
void cs_params_settle_grads(struct cs_params *params, int32_t bucket);
/* those of a bucket once more, for the next slot */
void cs_params_renew_grads(struct cs_params *params, int32_t bucket);
/* The fp32 values of an entry on the host, valid until the next call: its master, or its weights
 * where it has none or only a part. Waits for the device. CS_STATE: weights are divided among replicas
 * (cs_shard_is_whole), who together have them. */
enum cs_status cs_params_values(struct cs_params *params, const struct cs_shard *shard,
                                const float **out, struct cs_err *err) CS_NODISCARD;
/* Replace the values of an entry: master and weights. */
enum cs_status cs_params_set(struct cs_params *params, struct cs_shard *shard, const float *host,
                             struct cs_err *err) CS_NODISCARD;
/* xxh3-128 of the fp32 values of an entry */
enum cs_status cs_params_hash(struct cs_params *params, const struct cs_shard *shard, char out[33],
                              struct cs_err *err) CS_NODISCARD;

/* all values of the weights are here between steps */
static inline bool cs_shard_is_whole(const struct cs_params *params, const struct cs_shard *t)
{
    return t->bucket < 0 || params->bucket[t->bucket].zero < 3;
}

/* This rank is the first of those that have the same of it: it counts its squares, it stores it. */
static inline bool cs_shard_is_first(const struct cs_shard *t)
{
    return t->part == NULL || t->part->holder == 0;
}

/* Ranks that share its stage have parts of its gradient, which are added up once a step. */
static inline bool cs_shard_is_summed(const struct cs_shard *t)
{
    return t->part != NULL && t->part->is_summed;
}

/* The shards of which this rank writes its own part to checkpoints (room for n): what is trained,
 * and, on the first replica, what a checkpoint brought although it is frozen now; its source
 * directory does not have those values. */
int cs_params_listed(const struct cs_params *params, const struct cs_shard **out);

/* This replica's part (own_n elements) of what an entry is in a checkpoint, in fp32; moments of a
 * frozen one are 0. Waits for the device. */
enum cs_state { CS_STATE_MASTER, CS_STATE_EXP_AVG, CS_STATE_EXP_AVG_SQ, CS_STATES };
enum cs_status cs_params_state(struct cs_params *params, const struct cs_shard *t,
                               enum cs_state which, float *host, struct cs_err *err) CS_NODISCARD;

/* gradients and weights of a bucket: all, and this replica's part */
static inline void *cs_params_at(void *block, size_t bytes)
{
    return (char *)block + bytes;
}

/* which of the buffers has what is whole of a layer */
static inline int32_t cs_params_turn(const struct cs_params *params, int32_t layer)
{
    return layer % params->n_turns;
}

/* who has the same of an entry */
const struct cs_holders *cs_params_holders(const struct cs_params *params,
                                           const struct cs_shard *t);
/* the elements of an entry that one of its holders updates */
void cs_params_part(const struct cs_params *params, const struct cs_shard *t, int32_t holder,
                    int64_t *at, int64_t *n);

#endif

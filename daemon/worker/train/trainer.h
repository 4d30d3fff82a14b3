/* One rank of a training run without processes around it: parameters, interpreter, optimizer and
 * the programs of the plan. cornstarch-worker drives it from the slot pool; tests and `selftest`
 * call it with slots of their own. */
#ifndef CS_WORKER_TRAIN_TRAINER_H
#define CS_WORKER_TRAIN_TRAINER_H

#include "core/base/system/laps.h"
#include "worker/comm/experts.h"
#include "worker/exec/exec.h"

struct cs_trainer_config {
    const struct cs_spec *spec;
    const struct cs_graph *graph; /* graph, plan, spec: borrowed, outlive the trainer */
    const struct cs_plan *plan;
    struct cs_device *device;        /* borrowed */
    struct cs_comm *comm;            /* of all ranks, borrowed; NULL when there is one */
    struct cs_channels *channels;    /* borrowed; NULL: the device is the host, or one rank */
    struct cs_context_comm *context; /* borrowed; NULL: the host, or rows are not split */
    struct cs_context_comm *sharers; /* borrowed; NULL: the host, or matrices are not shared */
    struct cs_context_comm
        *items; /* borrowed; NULL: the host, or items are not shared beside matrices */
    struct cs_context_comm *experts; /* borrowed; NULL: the host, or experts are not spread */
    struct cs_context_comm *copies;  /* borrowed; NULL: the host, or no encoder has copies */
    struct cs_replicas *replicas;    /* borrowed; NULL: one */
    struct cs_ring *ring;            /* borrowed; NULL: no events */
    int rank;                        /* of all replicas' ranks */
    int deadline_ms;                 /* see struct cs_exec_config */
    struct cs_laps *laps;            /* while it is made; NULL: nobody asks */
};

struct cs_trainer {
    struct cs_trainer_config config;
    struct cs_params *params;
    struct cs_optim *optim;
    struct cs_exec *exec;
    struct cs_input_tables *tables;
    int32_t slot_room;       /* slots of all lanes that inputs, slot and counts have room for */
    struct cs_input *inputs; /* (slot_room) memory is reused */
    struct cs_program_entry *programs;
    struct cs_tensor_ranks *tensors; /* NULL: no others share its stage */
    struct cs_expert_ranks *experts; /* NULL: no others have experts of it */
    struct cs_copies *copies;        /* NULL: it has none of an encoder */
    bool has_head; /* a rank that tells the loss, one in every replica and part of a context */
    /* of a step: the slots of this rank's lane of its replica; of another one, while these are prepared */
    struct cs_manifest own, beside;
    struct cs_slot_counts *own_counts, *beside_counts; /* (slot_room) */
    struct cs_slot *slot;                              /* (slot_room) the own ones */
};

/* What a rank of a context had of the LLM's rows of its slots (core/plan/tokens/context_map.h). */
struct cs_context_figures {
    bool is_split; /* else it has no other rank, and all is 0 */
    int64_t rows, pairs, wait_ns;
    double flops; /* of the forward, as the map counts them */
};

struct cs_step_result {
    bool is_eval;
    bool has_loss;   /* this rank has the head */
    double loss_sum; /* over the trained tokens of this replica, slots in order */
    /* The balancing loss of the step's experts (worker/layer/loads.h): what this replica, and this part of a
     * context, has of it; the step's is the sum over them. 0 where the model trains none. */
    bool has_balance;
    double balance;
    int64_t trained_tokens;                       /* of this replica */
    struct cs_source_loss source[CS_SOURCES_MAX]; /* the same by source (core/data/sources.h) */
    int64_t n_samples, n_exact; /* evaluation: samples with a trained token, all of them right */
    double grad_norm;           /* of the mean loss, before clipping; NaN in evaluation */
    double lr;
    bool is_skipped; /* the norm was not finite: no update */
    struct cs_exec_counts counts;
    struct cs_context_figures context;
};

/* Weights are loaded by the caller through params (cs_params_load, cs_params_resume). */
enum cs_status cs_trainer_new(const struct cs_trainer_config *config, struct cs_trainer **out,
                              struct cs_err *err) CS_NODISCARD;
void cs_trainer_free(struct cs_trainer *trainer); /* accepts NULL */

/* The program for n_slots slots, made and verified at its first use. */
enum cs_status cs_trainer_program(struct cs_trainer *trainer, int n_slots, bool is_eval,
                                  const struct cs_program **out, struct cs_err *err) CS_NODISCARD;

/* Run one step of the manifest on its slots (manifest->n_slots, of all replicas: it takes its own).
 * patches (may be NULL): per slot and encoder normalised patches in place of pixels, see struct
 * cs_input. CS_CORRUPT: a slot is not what the manifest says or names rows that do not exist; all
 * slots are checked before the first action, and nothing was done then. */
enum cs_status cs_trainer_step(struct cs_trainer *trainer, const struct cs_manifest *manifest,
                               const struct cs_slot *slots,
                               const float *const (*patches)[CS_MAX_ENCODERS],
                               struct cs_step_result *result, struct cs_err *err) CS_NODISCARD;

#endif

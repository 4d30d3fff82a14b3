/* The interpreter of a rank's program: one step at a time.
 *
 * The calling thread runs the compute stream. When the rank has peers, a second thread
 * runs the communication stream: a send or receive is posted when its dependencies are done and
 * everything before it in its channel (peer and direction) is posted; collectives wait for all
 * earlier communication. With a single rank both streams are run by the caller. The first
 * failure of either thread ends the step on both and is what the caller gets. On a device with
 * streams the caller enqueues everything (enqueue.c).
 *
 * Slots come to the device one by one, each before its first compute action; what could go wrong
 * with one was found out before the step (worker/slot/slot.h). */
#ifndef CS_WORKER_EXEC_EXEC_H
#define CS_WORKER_EXEC_EXEC_H

#include "worker/exec/state/config.h"

struct cs_exec;

struct cs_exec_counts {
    int64_t messages_sent, bytes_sent; /* rows and gradients; collectives are not counted */
    size_t saved_bytes;                /* activations kept for a backward, at the peak */
    int64_t context_wait_ns;           /* of the compute thread for other ranks of its stage */
};

enum cs_status cs_exec_new(const struct cs_exec_config *config, struct cs_exec **out,
                           struct cs_err *err) CS_NODISCARD;
void cs_exec_free(struct cs_exec *exec); /* accepts NULL */

/* Slots that steps of a job have, of one replica. */
struct cs_exec_steps {
    int most;          /* that memory is made ready for: none has more, or one in many */
    int usual;         /* few have more */
    size_t slot_bytes; /* what the caller takes of the device for every slot beside */
    bool has_eval;
};

/* Before the first step: memory for every step that may come, as worker/memory/plan.h plans it, in
 * one piece which all programs share. Nothing is allocated afterwards. Where steps of `most` slots
 * do not fit in the device, those of `usual` slots must; that is said on stderr, and a step that
 * needs more makes the piece grow or fails. *n_slots: how many it was. CS_NO_MEMORY names the rank,
 * what it needs, what is there and what needs less. Without it cs_exec_run allocates when it
 * must. */
enum cs_status cs_exec_reserve(struct cs_exec *exec, const struct cs_exec_steps *steps,
                               const struct cs_input_tables *tables, int *n_slots,
                               struct cs_err *err) CS_NODISCARD;
struct cs_exec_memory cs_exec_memory(const struct cs_exec *exec);
/* No step took more than its plan said: one that does is a mistake, which is told and lived with. */
bool cs_exec_keeps_plan(const struct cs_exec *exec);

/* inputs: (program->n_slots) slots, prepared and with room but not placed: each is placed before
 * the first action that computes on it. After an error the exec can only be freed. */
enum cs_status cs_exec_run(struct cs_exec *exec, const struct cs_program *program,
                           const struct cs_manifest *manifest, struct cs_input *inputs,
                           struct cs_exec_counts *counts, struct cs_err *err) CS_NODISCARD;

/* CS_INPUT_* flags: what the stages of this rank read of a slot */
unsigned cs_exec_needs(const struct cs_exec *exec, bool is_eval);
/* the compute action in work or the last one, for people: "F llm.1 slot 2"; "" before the first */
void cs_exec_where(const struct cs_exec *exec, char *out, size_t cap);
/* what became of compute actions on a device with streams, since the start */
struct cs_graphs_counts cs_exec_graphs(const struct cs_exec *exec);
/* a stage of this rank, NULL: elsewhere (tests) */
const struct cs_stage_model *cs_exec_stage(const struct cs_exec *exec, int32_t stage);

#endif

/* Measured costs: mean thread CPU time, on GPUs mean time on the device, of the compute actions of every stage, over
 * the first training steps of a run, and what the steps took beside it. They replace the plan's costs in the simulator; the plan stays as it is. Messages and collectives keep the costs of the
 * device class and have those of waiting (core/sched/sim/waits.h) on top. */
#ifndef CS_SCHED_SIM_CALIBRATE_H
#define CS_SCHED_SIM_CALIBRATE_H

#include "core/sched/sim/sim.h"
#include "core/trace/span.h"

/* Training steps of a run that count, from 0: the first ones touch cold memory, and in the first dozen on a GPU graphs of
 * launches are made. */
enum { CS_CALIBRATE_FIRST = 2, CS_CALIBRATE_GPU_FIRST = 12, CS_CALIBRATE_STEPS = 20 };

struct cs_measured_cost {
    int64_t n;      /* actions seen */
    int64_t cpu_us; /* their CPU time, or the device's, in all */
    int64_t
        wall_us; /* from their begins to their ends, in all; 0: not known (a document has it not) */
    int64_t
        inside_us; /* of that what ranks of a stage wait for each other (core/sched/sim/waits.h) */
};

struct cs_measured {
    int32_t n_stages, n_ranks;
    int32_t n_steps;                      /* steps added */
    const struct cs_device_class *device; /* costs of all that was not measured; not owned */
    int64_t noted_ns[CS_CALIBRATE_STEPS]; /* (n_noted) what steps took */
    int32_t n_noted;
    /* (n_stages) thousandths of what the plan has for a full slot that slots of the data take, of what was not measured
     * (core/plan/cost/slot_fill.h); NULL: all of it */
    const int32_t *permille;
    int64_t hop_ns, rest_ns; /* of a message beside its transfer, of a step beside all of that */
    struct cs_measured_cost (*row)[CS_OP_COUNT]; /* (n_stages + n_ranks) stages, then what a rank
                                                    does for no stage (the optimizer step) */
};

/* Empty; memory of the arena. device must outlive it. */
struct cs_measured *cs_measured_new(int32_t n_stages, int32_t n_ranks,
                                    const struct cs_device_class *device, struct cs_arena *arena);
/* Its costs were measured: else it says alone how full slots are. */
bool cs_measured_has_costs(const struct cs_measured *m);
/* One training step. keys, events: (n_ranks); events of other kinds, of evaluations, and ids
 * without a key do not count. */
void cs_measured_add(struct cs_measured *m, const struct cs_span_keys *keys,
                     const struct cs_span_events *events);
/* How long a step took from the first rank's begin to the last one's end; the first CS_CALIBRATE_STEPS count. */
void cs_measured_note_step(struct cs_measured *m, int64_t step_ns);
int64_t cs_measured_step_ns(const struct cs_measured *m); /* their lower quartile; 0: none */
/* Mean of one action in ns, with what ranks wait inside; -1: never seen. stage -1: the rank's own. */
int64_t cs_measured_mean_ns(const struct cs_measured *m, int32_t stage, int32_t rank,
                            enum cs_op op);
/* cs_sim_cost; user: const struct cs_measured of the program's plan. */
int64_t cs_measured_sim_cost(void *user, const struct cs_program *program, int rank,
                             const struct cs_action *action);

/* {"schema":"cornstarch.profile.measured/1","stages":,"ranks":,"steps":,"cores":,"hop_ns":,
 * "rest_ns":,"permille":[..] or absent,"costs":[{"stage":or "rank":,"op":"F","n":,"cpu_us":,"inside_us":(0),"mean_ns":}, ..]}; what was not seen is absent. */
json_t *cs_measured_encode(const struct cs_measured *m, int32_t cores);
/* CS_CORRUPT names the field. mean_ns follows from the others and is not read. */
enum cs_status cs_measured_decode(const json_t *json, const struct cs_device_class *device,
                                  struct cs_arena *arena, struct cs_measured **out, int32_t *cores,
                                  struct cs_err *err) CS_NODISCARD;

#endif

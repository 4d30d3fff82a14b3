/* The proof that a program is complete and cannot hang. */
#ifndef CS_SCHED_PROOF_VERIFY_H
#define CS_SCHED_PROOF_VERIFY_H

#include "core/sched/program.h"

/* The proof before anything starts: sends match receives (edge, slot, direction, order per pair and
 * direction), collectives in one order, graph acyclic, every F has its B (or its I and W) iff the
 * stage has a backward, weight gradients in slot order, sums over copies, NORM after all of them,
 * every trainable parameter exactly one STEP. Names the actions involved. */
enum cs_status cs_program_verify(const struct cs_program *program, struct cs_err *err) CS_NODISCARD;

#endif

/* Measured costs of a model's layers on this machine: some layers of every kind of every module run
 * alone, at a few numbers of rows, in every way that freezing makes them run: nothing passes, a
 * gradient passes, they train. Quadratics are fitted through the medians (core/plan/cost/basis/profile.h:
 * what planners read); what a step does beside its layers is measured on the same parameters. What
 * depends on optimizer.state is measured with both, fp32 and bf16, where the device computes in
 * bf16, so that a profile serves either. Links between ranks are measured apart (links.h).
 *
 * Blocks and heads are measured on ranks that share their matrices too: this device is the first of them, with its part
 * of the parameters, and what the others would send is left out.
 *
 * Weights are random, one document fills the slot. Times are of the device (GPU), or of the
 * thread's CPU time. */
#ifndef CS_WORKER_MEASURE_MEASURE_H
#define CS_WORKER_MEASURE_MEASURE_H

#include "core/plan/cost/basis/profile.h"
#include "worker/device/device.h"

/* document: a cornstarch.job/1 (its freezing does not matter); class: of the device, goes into the
 * profile and its key; device: keeps state in fp32, and does again after. The rows go up to the
 * budgets of the document's slot. tp_ranks: of a node of the plan: the most ranks that share
 * matrices, of 2, 4 and 8; this device stands for them, and no others need be there. */
enum cs_status cs_measure(const json_t *document, const struct cs_device_class *class,
                          struct cs_device *device, int32_t tp_ranks, struct cs_arena *arena,
                          struct cs_profile **out, struct cs_err *err) CS_NODISCARD;

#endif

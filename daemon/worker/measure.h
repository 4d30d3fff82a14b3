/* Measured costs of a model's layers on this machine: every kind of layer of every module runs
 * alone, forward and both halves of its backward, at a few numbers of rows; quadratics are fitted
 * through the medians (core/plan/profile.h: what planners read).
 *
 * All parameters train and inputs have gradients, weights are random, one document fills the slot.
 * The head makes the gradients of its loss in the forward, so they are counted there. Times are of
 * the device (GPU), or of the thread's CPU time. */
#ifndef CS_WORKER_MEASURE_H
#define CS_WORKER_MEASURE_H

#include "core/plan/profile.h"
#include "worker/device.h"

/* document: a cornstarch.job/1; class: of the device, goes into the profile and its key. The rows
 * go up to the budgets of the document's slot. */
enum cs_status cs_measure(const json_t *document, const struct cs_device_class *class,
                          struct cs_device *device, struct cs_arena *arena, struct cs_profile **out,
                          struct cs_err *err) CS_NODISCARD;

#endif

/* How long every operator of a step takes where it runs: a table of operators that records an event
 * before and behind each call of another one's, and sums what lies between by operator and shape.
 *
 * The events cost a microsecond or two a call, launching included. Calls are seen one by one, so
 * graphs must be off (CORNSTARCH_GRAPHS=off). One device at a time: operators have nobody to ask
 * whom they belong to. */
#ifndef CS_TESTS_BENCH_TIMED_OPS_H
#define CS_TESTS_BENCH_TIMED_OPS_H

#include "worker/device/device.h"

/* From now on the device's operators, copies and fills are timed. device: with events of its own
 * (a GPU), between steps; it stays where it is. Ends the program with a message where it cannot. */
void cs_timed_open(struct cs_device *device);
/* Count what was seen since the last call as one step more; the device has finished it. */
void cs_timed_step(void);
/* What a step of those counted took, by operator and shape, dearest first: calls, milliseconds,
 * share of the sum, TFLOP/s of products or GB/s of all that must move. */
void cs_timed_print(void);
/* The device's own table again. */
void cs_timed_close(void);

#endif

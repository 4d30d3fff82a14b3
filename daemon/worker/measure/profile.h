/* cornstarch-worker --profile: measures the layers of a model on this machine.
 *
 * Standard input: {"document": a cornstarch.job/1, "device": "cpu:0" or "cuda:0", "class": "cpu" or
 * "h100-80g" ..., "precision": "bf16" (GPUs),
 * "devices": of a node (1): GPUs between which links are measured, ranks that share matrices}; standard output: a cornstarch.profile/1. */
#ifndef CS_WORKER_MEASURE_PROFILE_H
#define CS_WORKER_MEASURE_PROFILE_H

/* exit code of the program */
int cs_profile_program(void);

#endif

/* Native checkpoints: one directory per step, written by all ranks, committed by the runner.
 *
 *   ckpt-STEP/params/rank-N.safetensors   fp32 masters of what rank N updates, under global names
 *             opt/rank-N.safetensors      its moments: "NAME.exp_avg", "NAME.exp_avg_sq"
 *             trainer.json                data cursor, seed, counters, generation
 *             checkpoint.json             last: step, hashes, files with size and xxh3-128
 *
 *   ckpt-STEP.tmp   one that is being written     ckpt-STEP.old   one on its way out of the place of
 *   ckpt-STEP.bad   one that is damaged                           another of the same step
 *   before-N/       what was there when a job began anew in the directory
 *
 * Everything is written in ckpt-STEP.tmp, files and directory are fsynced, the directory is renamed
 * and its parent fsynced. A directory without a checkpoint.json that verifies does not exist for
 * us. Every rank writes what it owns, every element once: of a parameter that several replicas
 * update each file holds some slices (store/ckpt/ckpt_entry.h). Any layout can load any checkpoint.
 * Frozen parameters are not stored; they come from the source directories. */
#ifndef CS_STORE_CHECKPOINT_H
#define CS_STORE_CHECKPOINT_H

#include <jansson.h>
#include <stdint.h>

#include "core/base/status.h"
#include "core/model/slice.h"
#include "store/safetensors.h"

struct cs_ckpt_file {
    char name[128]; /* relative: "params/rank-0.safetensors" */
    uint64_t bytes;
    char xxh3[33];
    int64_t n_nonfinite; /* elements that are NaN or infinite */
};

/* A slice of a trained parameter and what a rank keeps of it: fp32 arrays of that slice. */
struct cs_ckpt_part {
    const struct cs_param *param;
    struct cs_slice slice;
    const float *master, *exp_avg, *exp_avg_sq;
};
/* worker side: create (if needed) DIR/ckpt-STEP.tmp and write this rank's two files */
enum cs_status cs_ckpt_write_rank(const char *dir, int64_t step, int rank,
                                  const struct cs_ckpt_part *part, int n,
                                  struct cs_ckpt_file files[2], struct cs_err *err) CS_NODISCARD;

/* What wrote a checkpoint. */
struct cs_ckpt_origin {
    const char *spec_hash, *trained_hash; /* of the whole spec, and of all but its layout */
    const char *plan_hash;
    int64_t generation;
    const struct cs_param *params; /* (n_params) every trained one must be in it whole; NULL: any */
    int32_t n_params;
};
/* runner side: all ranks have reported their files; trainer is stored as trainer.json. What they wrote
 * is opened before it counts: CS_CORRUPT where a part is missing. */
enum cs_status cs_ckpt_commit(const char *dir, int64_t step, const struct cs_ckpt_origin *origin,
                              const json_t *trainer, const struct cs_ckpt_file *files, int n_files,
                              struct cs_err *err) CS_NODISCARD;
/* Remove what a kill has left of saves (ckpt-*.tmp), and take back a checkpoint that was only on its
 * way out. Only while nobody saves there. */
enum cs_status cs_ckpt_clean(const char *dir, struct cs_err *err) CS_NODISCARD;
/* Remove all but the newest keep committed ones up to step `newest` (keep <= 0: keep all). Steps above
 * it, damaged ones, and the newest one without a NaN stay. Safe while ranks write the next one. */
enum cs_status cs_ckpt_prune(const char *dir, int64_t keep, int64_t newest,
                             struct cs_err *err) CS_NODISCARD;

struct cs_ckpt; /* one opened, verified checkpoint directory */

struct cs_ckpt_search {
    bool is_deep; /* contents too, not only sizes */
    /* what else must hold of it; NULL: nothing. Not CS_OK skips it. */
    enum cs_status (*accept)(void *user, const struct cs_ckpt *ckpt, struct cs_err *err);
    void (*on_skip)(void *user, int64_t step, const struct cs_err *why); /* may be NULL */
    void *user;
};

/* The newest committed step that verifies, opens and is accepted; path: CS_PATH_CAP bytes.
 * CS_NOT_FOUND: the directory has no checkpoint; CS_CORRUPT: none that can be used, with the reason of
 * the newest. */
enum cs_status cs_ckpt_latest(const char *dir, const struct cs_ckpt_search *search, int64_t *step,
                              char *path, struct cs_err *err) CS_NODISCARD;
/* The damaged checkpoint of a step becomes ckpt-STEP.bad: it is tried and counted no more. */
enum cs_status cs_ckpt_set_aside(const char *dir, int64_t step, struct cs_err *err) CS_NODISCARD;
/* All checkpoints of the directory move into before-N of it, the newest last: what is left of a kill
 * is the directory as it was. *n: how many. */
enum cs_status cs_ckpt_begin_anew(const char *dir, int *n, struct cs_err *err) CS_NODISCARD;
/* CS_CORRUPT also where an element of a parameter is missing or held twice: names it
 * and the range */
enum cs_status cs_ckpt_open(const char *path, struct cs_ckpt **out,
                            struct cs_err *err) CS_NODISCARD;
void cs_ckpt_close(struct cs_ckpt *ckpt); /* accepts NULL */
int64_t cs_ckpt_step(const struct cs_ckpt *ckpt);
const json_t *cs_ckpt_trainer(const struct cs_ckpt *ckpt);
const json_t *cs_ckpt_info(const struct cs_ckpt *ckpt); /* checkpoint.json */
/* CS_CORRUPT: a trained one of these parameters is not in it; CS_INVALID: with another shape */
enum cs_status cs_ckpt_check_whole(const struct cs_ckpt *ckpt, const struct cs_param *params,
                                   int32_t n, struct cs_err *err) CS_NODISCARD;
/* kind "master" | "exp_avg" | "exp_avg_sq"; CS_NOT_FOUND when the checkpoint does not hold it,
 * CS_INVALID when it has another shape there */
enum cs_status cs_ckpt_read(const struct cs_ckpt *ckpt, const struct cs_param *param,
                            const char *kind, float *out, struct cs_err *err) CS_NODISCARD;
/* elements at .. at + n - 1 of it */
enum cs_status cs_ckpt_read_part(const struct cs_ckpt *ckpt, const struct cs_param *param,
                                 const char *kind, int64_t at, int64_t n, float *out,
                                 struct cs_err *err) CS_NODISCARD;
/* the elements of a slice of it, whoever wrote them */
enum cs_status cs_ckpt_read_slice(const struct cs_ckpt *ckpt, const struct cs_param *param,
                                  const char *kind, const struct cs_slice *slice, float *out,
                                  struct cs_err *err) CS_NODISCARD;

#endif

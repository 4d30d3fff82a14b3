/* Native checkpoints: one directory per step, written by all ranks, committed by the runner.
 *
 *   ckpt-STEP/params/rank-N.safetensors   fp32 masters of what rank N updates, under global names
 *             opt/rank-N.safetensors      its moments: "NAME.exp_avg", "NAME.exp_avg_sq"
 *             trainer.json                data cursor, seed, counters, generation
 *             checkpoint.json             last: step, hashes, files with size and xxh3-128
 *
 * Everything is written in ckpt-STEP.tmp, files and directory are fsynced, the directory is renamed
 * and its parent fsynced. A directory without a checkpoint.json that verifies does not exist for
 * us. Every rank writes what it owns, every element once: of a parameter that several replicas
 * update each file holds some slices (store/ckpt_entry.h). Any layout can load any checkpoint.
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
};
/* runner side: all ranks have reported their files; trainer is stored as trainer.json */
enum cs_status cs_ckpt_commit(const char *dir, int64_t step, const struct cs_ckpt_origin *origin,
                              const json_t *trainer, const struct cs_ckpt_file *files, int n_files,
                              struct cs_err *err) CS_NODISCARD;
/* remove ckpt-*.tmp leftovers, and all but the newest keep committed ones (keep <= 0: keep all) */
enum cs_status cs_ckpt_clean(const char *dir, int64_t keep, struct cs_err *err) CS_NODISCARD;
/* the second half of it: safe while ranks write the next checkpoint */
enum cs_status cs_ckpt_prune(const char *dir, int64_t keep, struct cs_err *err) CS_NODISCARD;
/* newest committed step whose file sizes verify (hashes too with is_deep); CS_NOT_FOUND when none;
 * broken ones are skipped and named through on_skip (may be NULL) */
enum cs_status cs_ckpt_latest(const char *dir, bool is_deep, int64_t *step, char *path,
                              size_t path_bytes, void (*on_skip)(void *, const char *text),
                              void *user, struct cs_err *err) CS_NODISCARD;

struct cs_ckpt; /* one opened, verified checkpoint directory */
/* CS_CORRUPT also where an element of a parameter is missing or held twice: names it
 * and the range */
enum cs_status cs_ckpt_open(const char *path, struct cs_ckpt **out,
                            struct cs_err *err) CS_NODISCARD;
void cs_ckpt_close(struct cs_ckpt *ckpt); /* accepts NULL */
int64_t cs_ckpt_step(const struct cs_ckpt *ckpt);
const json_t *cs_ckpt_trainer(const struct cs_ckpt *ckpt);
const json_t *cs_ckpt_info(const struct cs_ckpt *ckpt); /* checkpoint.json */
/* kind "master" | "exp_avg" | "exp_avg_sq"; CS_NOT_FOUND when the checkpoint does not hold it,
 * CS_INVALID when it has another shape there */
enum cs_status cs_ckpt_read(const struct cs_ckpt *ckpt, const struct cs_param *param,
                            const char *kind, float *out, struct cs_err *err) CS_NODISCARD;
/* elements at .. at + n - 1 of it */
enum cs_status cs_ckpt_read_part(const struct cs_ckpt *ckpt, const struct cs_param *param,
                                 const char *kind, int64_t at, int64_t n, float *out,
                                 struct cs_err *err) CS_NODISCARD;

#endif

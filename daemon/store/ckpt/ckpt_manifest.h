/* checkpoint.json: the list of files that makes a directory a checkpoint; private to the store.
 *
 * {"schema": "cornstarch.checkpoint/2", "step", "spec_hash", "trained_hash", "plan_hash",
 *  "generation", "version", "files": [{"name", "bytes", "xxh3"}], "xxh3": hash of all the other keys
 *  in canonical JSON, "nonfinite": elements that are NaN or infinite}. Version 1 had neither slices nor trained_hash and generation. */
#ifndef CS_STORE_CKPT_MANIFEST_H
#define CS_STORE_CKPT_MANIFEST_H

#include "store/ckpt/checkpoint.h"
#include "store/fsio.h"

#define CS_CKPT_SCHEMA   "cornstarch.checkpoint/2"
#define CS_CKPT_SCHEMA_1 "cornstarch.checkpoint/1" /* still read */

json_t *cs_ckpt_manifest_new(int64_t step, const struct cs_ckpt_origin *origin,
                             const struct cs_ckpt_file *files, int n);
/* Read PATH/checkpoint.json and check every file it lists: size always, contents with is_deep; the
 * step must be the one in the directory's name. *out (may be NULL) is the manifest. */
enum cs_status cs_ckpt_verify(const char *path, bool is_deep, json_t **out,
                              struct cs_err *err) CS_NODISCARD;
/* "params/rank-0.safetensors", "opt/rank-0.safetensors", "trainer.json": nothing
 * else is accepted */
bool cs_ckpt_is_file_name(const char *name);
/* step of "ckpt-STEP" followed by the suffix ("", ".tmp", ".old"), -1 for any other name */
int64_t cs_ckpt_step_of(const char *name, const char *suffix);
/* steps of the directories ckpt-STEP with the suffix in dir, descending; *steps is malloc'ed. No dir:
 * none. */
enum cs_status cs_ckpt_list(const char *dir, const char *suffix, int64_t **steps, int *n,
                            struct cs_err *err) CS_NODISCARD;

#endif

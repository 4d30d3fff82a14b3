/* Data sets: LLaVA JSON (one big array) and JSON lines, told apart by their first character.
 * Opening reads the file once in blocks and keeps where every item lies (16 bytes each); items are
 * parsed when they are read. Immutable after opening; cs_dataset_read may be called from several
 * threads. */
#ifndef CS_INPUT_DATA_DATASET_H
#define CS_INPUT_DATA_DATASET_H

#include "core/base/io.h"
#include "input/data/record.h"

struct cs_dataset;

/* root: folder that files of samples are relative to, "": the folder of the file. tokens:
 * placeholder of every encoder. An empty or unterminated file is an error; a broken item only when
 * it is read. */
enum cs_status cs_dataset_open(const char *path, const char *root, const char *const *tokens,
                               int n_tokens, struct cs_dataset **out,
                               struct cs_err *err) CS_NODISCARD;
void cs_dataset_close(struct cs_dataset *set); /* accepts NULL */
uint64_t cs_dataset_count(const struct cs_dataset *set);
const char *cs_dataset_path(const struct cs_dataset *set);
enum cs_status cs_dataset_read(const struct cs_dataset *set, uint64_t index, struct cs_record **out,
                               struct cs_err *err) CS_NODISCARD;
/* file of a sample -> real path. CS_NOT_FOUND: missing; CS_REFUSED: leaves the root (absolute,
 * "..", symbolic link). */
enum cs_status cs_dataset_resolve(const struct cs_dataset *set, const char *file,
                                  char out[CS_PATH_CAP], struct cs_err *err) CS_NODISCARD;

#endif

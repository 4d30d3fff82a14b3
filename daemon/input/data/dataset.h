/* Data sets: a file, a folder of files or a pattern of their names ("train-*.parquet"), in the order of their
 * names. Files are LLaVA JSON (one big array), JSON lines, Parquet (parquet/parquet.h), tar archives
 * (shard_tar.c), told apart by their first bytes, or tables of separated values (shard_csv.c). Opening reads JSON once in blocks and keeps where every item
 * lies (16 bytes each), of the others what says where samples lie; samples are parsed when they are read. Immutable after opening; cs_dataset_read may be called from several
 * threads. */
#ifndef CS_INPUT_DATA_DATASET_H
#define CS_INPUT_DATA_DATASET_H

#include "core/base/system/io.h"
#include "input/data/record/record.h"

struct cs_dataset;

/* One source of a mixture beside the first. */
struct cs_dataset_more {
    const char *path, *root; /* as of the set */
    const char *name;        /* channel of samples that name none; "": nothing */
    double weight;           /* 0: none is said */
};

struct cs_dataset_options {
    const char *root; /* folder that files of samples are relative to; "": the folder of the file */
    bool follows_links; /* symbolic links may lead out of the root */
    int64_t max_pixels; /* of a picture, 0: CS_IMAGE_MAX_PIXELS */
    uint64_t max_items; /* look at so many only, 0: all */
    const char *name;   /* channel of samples that name none; NULL or "": nothing */
    double weight;      /* of the first source, where there are more; 0: none is said */
    const struct cs_dataset_more *more;
    int32_t n_more;
};

/* What a checkpoint keeps of a data set, to tell whether it is still the same. */
struct cs_dataset_id {
    uint64_t samples;
    char xxh3[33];  /* of the file's bytes (cs_shard_hash), of several files: of their hashes */
    uint64_t bytes; /* cs_dataset_identify: of all files */
};

/* keys must outlive the set. An empty or unterminated file is an error, and one that is no list of
 * samples at all; a broken item only when it is read. */
enum cs_status cs_dataset_open(const char *path, const struct cs_dataset_options *options,
                               const struct cs_record_keys *keys, struct cs_dataset **out,
                               struct cs_err *err) CS_NODISCARD;
void cs_dataset_close(struct cs_dataset *set); /* accepts NULL */
uint64_t cs_dataset_count(const struct cs_dataset *set);
const char *cs_dataset_path(const struct cs_dataset *set);
int64_t cs_dataset_max_pixels(const struct cs_dataset *set); /* as in its options */
/* Of a set that was opened whole. */
void cs_dataset_identity(const struct cs_dataset *set, struct cs_dataset_id *out);
/* The same of a file that nobody else needs to open. */
enum cs_status cs_dataset_identify(const char *path, struct cs_dataset_id *out,
                                   struct cs_err *err) CS_NODISCARD;
/* Sample at a position of an epoch (core/data/mixture.h). */
uint64_t cs_dataset_order(const struct cs_dataset *set, uint64_t seed, uint64_t epoch,
                          uint64_t position);
/* findings: as of cs_record_read */
enum cs_status cs_dataset_read(const struct cs_dataset *set, uint64_t index,
                               struct cs_findings *findings, struct cs_record **out,
                               struct cs_err *err) CS_NODISCARD;
/* file of a sample -> real path. CS_NOT_FOUND: missing; CS_REFUSED: leaves the root (by an absolute
 * path, "..", or a symbolic link that may not be followed). */
enum cs_status cs_dataset_resolve(const struct cs_dataset *set, const struct cs_media_file *file,
                                  char out[CS_PATH_CAP], struct cs_err *err) CS_NODISCARD;

#endif

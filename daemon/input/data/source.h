/* A source: one data set of a job specification with everything that turns index i into a sample
 * ready to be packed - file, tokenizer, template, processors. Content depends on (specification,
 * index) only. Used by the feeder, data check and inspect. cs_source_load may be called from
 * several threads. */
#ifndef CS_INPUT_DATA_SOURCE_H
#define CS_INPUT_DATA_SOURCE_H

#include "core/model/budget.h"
#include "core/model/graph.h"
#include "input/data/dataset.h"
#include "input/data/sample.h"
#include "input/media/disk_cache.h"
#include "input/media/processor.h"

struct cs_source;

struct cs_loaded {
    struct cs_record *record;
    struct cs_sample sample;
    struct cs_rendering rendering;
    uint8_t **data;      /* (sample.n_media) bytes of its items, one behind the other */
    int32_t n_saturated; /* pictures of 16-bit gray, decoded for this sample (not from the cache) */
};

struct cs_source_options {
    const struct cs_slot_budget *budget; /* refuse samples that no slot holds; NULL: only
                                            spec->seq_tokens counts */
    size_t cache_bytes;                  /* for resized pictures, 0: none */
    bool has_disk_cache;                 /* use that of the data, where it names one */
    uint64_t max_items;                  /* look at so many samples only, 0: all */
};

/* data: spec->data or spec->eval_data. spec and graph must outlive the source. */
enum cs_status cs_source_open(const struct cs_spec *spec, const struct cs_graph *graph,
                              const struct cs_spec_data *data,
                              const struct cs_source_options *options, struct cs_source **out,
                              struct cs_err *err) CS_NODISCARD;
void cs_source_close(struct cs_source *source); /* accepts NULL */
uint64_t cs_source_count(const struct cs_source *source);
const char *cs_source_path(const struct cs_source *source);
void cs_source_identity(const struct cs_source *source, struct cs_dataset_id *out);
/* Sample at a position of an epoch, which has as many as there are samples. */
uint64_t cs_source_order(const struct cs_source *source, uint64_t seed, uint64_t epoch,
                         uint64_t position);
/* Which key of a sample holds the files of which encoder. */
const struct cs_record_keys *cs_source_keys(const struct cs_source *source);
/* How its samples are rendered and cut into tokens, and the directory where both were found. */
const struct cs_template *cs_source_template(const struct cs_source *source);
const struct cs_tokenizer *cs_source_tokenizer(const struct cs_source *source);
const char *cs_source_tokenizer_dir(const struct cs_source *source);
/* What the cache on disk was good for so far; false: there is none. */
bool cs_source_disk_cache(const struct cs_source *source, struct cs_disk_cache_use *out);
/* The record alone: nothing rendered, no file opened. */
enum cs_status cs_source_record(const struct cs_source *source, uint64_t index,
                                struct cs_record **out, struct cs_err *err) CS_NODISCARD;

/* Anything but CS_OK and CS_NO_MEMORY, CS_INTERRUPTED: the sample is bad and err says why. *out is
 * empty then, apart from the record where one could be read (its id is wanted for the report) and
 * from the sample's fault and rows_wanted. findings: gets the keys that nothing reads; NULL: nowhere
 * (then it may be called from several threads). */
enum cs_status cs_source_load(struct cs_source *source, uint64_t index,
                              struct cs_findings *findings, struct cs_loaded *out,
                              struct cs_err *err) CS_NODISCARD;
/* The same without its pictures: data is NULL. Where sizes decide what a picture becomes its header is
 * read, else no file is opened. */
enum cs_status cs_source_load_text(struct cs_source *source, uint64_t index,
                                   struct cs_findings *findings, struct cs_loaded *out,
                                   struct cs_err *err) CS_NODISCARD;
/* Memory that it takes, about. */
int64_t cs_loaded_bytes(const struct cs_loaded *loaded);
void cs_loaded_free(struct cs_loaded *loaded);

#endif

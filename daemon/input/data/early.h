/* What can be known of a job's data before it runs, from its first samples: for plan, submit and the
 * start of a feeder. */
#ifndef CS_INPUT_DATA_EARLY_H
#define CS_INPUT_DATA_EARLY_H

#include "core/base/buf.h"
#include "input/data/source.h"

/* PICTURES: files are opened of so many. RECORDS: how far an encoder's first item is looked for. */
enum { CS_EARLY_SAMPLES = 256, CS_EARLY_PICTURES = 4, CS_EARLY_RECORDS = 65536 };

struct cs_early {
    uint64_t n_samples, n_good; /* looked at */
    uint64_t n_too_long, n_untrained;
    bool is_all;                   /* the data set has no more */
    int64_t shortest, longest;     /* rows after expansion; 0: not known */
    int64_t mean_rows, mean_bytes; /* of the usable ones, in the feeder's memory */
    double mean_squares;           /* of their rows: of samples that are alike mean_rows squared */
    int64_t n_items[CS_MAX_ENCODERS];   /* of the usable ones */
    int64_t item_rows[CS_MAX_ENCODERS]; /* of these items together, as the LLM has them */
    int64_t prepare_ns;     /* CPU time that one takes, with its pictures; 0: not known */
    char first_reason[500]; /* why the first bad one is; "": none is */
    uint64_t n_ended;       /* of the usable ones: a special token trains, as behind an answer */
    char never_ends
        [64]; /* the chat template under which none does, where the tokenizer has an end */
};

/* Opens the data (its tokens must be the tokenizer's, its file a list of samples) and looks at the
 * first CS_EARLY_SAMPLES. Errors name what to change: none of them can be used, all are longer than
 * seq_tokens, an encoder gets no item in the whole data set, a step of batch_samples does not fit its
 * slots or this machine's memory. budget: of the plan, NULL: not known yet. findings (may be NULL):
 * keys that nothing reads. */
enum cs_status cs_early_look(const struct cs_spec *spec, const struct cs_graph *graph,
                             const struct cs_slot_budget *budget, const struct cs_spec_data *data,
                             struct cs_findings *findings, struct cs_early *out,
                             struct cs_err *err) CS_NODISCARD;
/* A line for every encoder: which keys its files stand under, and how many there were. */
void cs_early_text(const struct cs_early *early, const struct cs_record_keys *keys,
                   struct cs_buf *out);
/* A line where some of the samples that were looked at are bad, and where no answer has an end. */
void cs_early_warnings(const struct cs_early *early, const char *path, struct cs_buf *out);

struct cs_early_depth {
    uint64_t n_pictures; /* files are opened of so many samples */
    bool is_one_enough;  /* stop at the first usable one */
};

/* The parts, of a source that is open already. None of the first CS_EARLY_SAMPLES is usable:
 * CS_INVALID. */
enum cs_status cs_early_samples(struct cs_source *source, const struct cs_early_depth *depth,
                                struct cs_findings *findings, struct cs_early *out,
                                struct cs_err *err) CS_NODISCARD;
/* Every encoder has an item in some sample: CS_INVALID names the one that has none in the whole data
 * set. is_found[e] (may be NULL) stays false where only part was looked at. */
enum cs_status cs_early_items(const struct cs_source *source, bool is_whole, bool *is_found,
                              struct cs_err *err) CS_NODISCARD;
/* A step of batch_samples: its slots hold them, `memory` bytes hold them and
 * what the feeder loads ahead (core/data/data_threads.h), for an evaluation too. */
enum cs_status cs_early_batch(const struct cs_spec *spec, const struct cs_early *early,
                              int64_t memory, struct cs_err *err) CS_NODISCARD;

#endif

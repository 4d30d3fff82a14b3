/* `data check`: every sample of a source is read, tokenized and decoded, before any training. */
#ifndef CS_INPUT_DATA_CHECK_H
#define CS_INPUT_DATA_CHECK_H

#include "input/data/source.h"

enum { CS_CHECK_BINS = 24, CS_CHECK_LONGEST = 10, CS_CHECK_REASONS = 64, CS_CHECK_EXAMPLES = 5 };

struct cs_check_long {
    uint64_t index;
    int32_t tokens;
    char id[64];
};

/* The samples with this kind of fault: texts that differ in numbers and paths only are of one kind. */
struct cs_check_reason {
    char kind[200]; /* the text with these folded */
    char text[400]; /* of the first one, as it is */
    uint64_t count;
    uint64_t example[CS_CHECK_EXAMPLES];
    int n_examples;
};

/* What one encoder is given, of the good samples. */
struct cs_check_media {
    int64_t n_files, n_items, n_rows, n_patches;

    struct {
        int32_t rows, width, height; /* pixels 0: they do not matter */
        uint64_t index;
        char name[160];
    } largest; /* file, by its rows; rows 0: there is none */
};

struct cs_check {
    uint64_t n_samples, n_good, n_bad;
    uint64_t n_too_long, n_too_large, n_untrained; /* of the bad ones */
    int64_t shortest_rows, longest_rows;           /* of all whose rows are known; 0: of none */
    int64_t n_tokens, n_labels;
    struct cs_check_media media[CS_MAX_ENCODERS];
    int64_t n_saturated;          /* pictures of 16-bit gray, white where they are over 255 */
    int64_t n_cut;                /* sounds that are longer than their encoder takes */
    struct cs_findings findings;  /* keys that nothing reads, in its arena */
    uint64_t bins[CS_CHECK_BINS]; /* samples with 2^i <= tokens < 2^(i+1) */
    struct cs_check_long longest[CS_CHECK_LONGEST]; /* longest first, n_longest of them */
    int n_longest;
    struct cs_check_reason reasons[CS_CHECK_REASONS]; /* most frequent first */
    int n_reasons;
};

/* Called after every sample: what it is, and why it is bad (NULL: it is not). false ends the check
 * early (CS_INTERRUPTED). */
typedef bool (*cs_check_each)(void *user, const struct cs_check *so_far,
                              const struct cs_loaded *sample, const char *why);

/* out->findings.arena: the caller's. each may be NULL. Bad samples are counted, never an error. */
enum cs_status cs_data_check(struct cs_source *source, cs_check_each each, void *user,
                             struct cs_check *out, struct cs_err *err) CS_NODISCARD;

#endif

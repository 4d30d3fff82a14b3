/* What if: the job's plan beside others, one row each. The list is made at once, its figures row by
 * row (cs_whatif_next), so that a screen can answer keys in between. Pure but for memory.
 *
 * Rows: the plan; the other cut (frozen-blind, or frozen-aware for a blind job); every other
 * schedule on as many ranks; a rank moved between an encoder and the LLM; encoders on the ranks of
 * the LLM; half and twice the slots; then the best that jobs run of the search over the job's cluster, in the
 * order that the costs of the job's own planning give them (its profile's, else the roofline's), with the figures of
 * the plans that jobs make of them. */
#ifndef CS_CONSOLE_WHATIF_WHATIF_H
#define CS_CONSOLE_WHATIF_WHATIF_H

#include "console/whatif/preview.h"

enum { CS_WHATIF_ROWS = 32, CS_WHATIF_BEST = 5, CS_WHATIF_LAYERS = 400 /* to search */ };

enum cs_whatif_kind { CS_WHATIF_VARIANT, CS_WHATIF_SEARCH };

struct cs_whatif_row {
    enum cs_whatif_kind kind;
    char name[48];
    struct cs_variant variant;
    bool is_variant; /* variant says how to look at it; else see error */
    bool is_done;
    bool runs; /* workers run such plans */
    char layout[120], schedule[16];
    int32_t ranks;      /* 0 unknown */
    int64_t step_ns;    /* 0: it cannot be planned, see error */
    double delta;       /* step over the plan's, minus 1; per slot where the slots differ; NaN */
    double bubble;      /* mean; NaN */
    int64_t peak_bytes; /* what the rank that needs most needs; -1 unknown */
    char error[160];
};

struct cs_whatif {
    struct cs_whatif_row row[CS_WHATIF_ROWS];
    int n;
    bool has_search; /* the search is still to come, or was done */
    bool is_searched;
};

/* The list; figures of none. */
void cs_whatif_list(struct cs_whatif *w, const struct cs_variant_base *base);
/* Figures of the next row; false: there was nothing left to do. */
bool cs_whatif_next(struct cs_whatif *w, const struct cs_variant_base *base);

#endif

/* Context parallelism: which of the LLM's rows of a slot are on this rank, and how they lie among all.
 *
 * The map (core/plan/tokens/context_map.h) is data of the slot; every rank makes the same one. Where a plan
 * gives slots a degree (context_groups.h) few ranks have the rows of a short one, the others none. On a rank of the
 * LLM all that layers read of a slot is then of its own rows, in their order in the slot: ids,
 * rotations by their positions, labels (which the slot has shifted before), encoder rows. Only masks
 * know all rows: queries are the own ones, keys are those of the whole slot. Rows of one owner that
 * follow each other are a run: what goes from rank to rank goes run by run. */
#ifndef CS_WORKER_SLOT_SPLIT_H
#define CS_WORKER_SLOT_SPLIT_H

#include "core/plan/tokens/context_groups.h"
#include "core/plan/tokens/context_view.h"
#include "worker/slot/slot.h"

/* Rows that follow each other in an array of all. */
struct cs_row_run {
    int32_t row, n;
};

/* Runs by owner: those of rank r are run[first[r] .. first[r + 1]), which are rows[r] rows. */
struct cs_row_runs {
    const struct cs_row_run *run;
    const int32_t *first, *rows;
};

/* Keys as they lie on this rank (row_keys.h): its own rows, padded, then those that come, by rank. Attention is over
 * all of them at once; or, where tables->context.own_first, over the own ones and over those that come. */
struct cs_row_keys {
    int32_t own, n,
        n_go;      /* own rows; with those that come; that go, once for each that needs them */
    int32_t first; /* key with which the plan begins: 0, or the first that comes */
    struct cs_mask_plan
        plan; /* (n - first) segments: the own rows, and those of every other rank */
    /* own_first: the own keys; the own queries over the plan */
    struct cs_mask_plan own_plan, far;
    const int32_t *go; /* (n_go) of the own rows, by the rank that they go to */
    /* (ranks), of the host: the first of these for every rank, where each rank's follow each other among the
     * own rows; else NULL */
    const int32_t *go_first;
    /* Of every own row its gradient: sums over the gradients of keys (n) and, behind them, what comes
     * back for those that went (n_go). */
    struct cs_row_mix back;
    /* (n - first) hosts, where keys of the plan are sorted once they are here: which is the i-th, where the i-th
     * goes; NULL: they stay as they lie */
    const int32_t *order, *place;
};

/* Under one mask: keys and values that come to the queries that are here, by the rank that has them, and
 * those from here that others need, by who. What no query sees stays where it is. */
struct cs_row_needs {
    struct cs_row_runs come, go;
    struct cs_row_keys keys, at; /* arrays of the host; what operators read */
};

/* What operators read of rows in order. Rows come rank by rank of those that they are dealt to, each rank's
 * in their order in the slot. */
struct cs_stretch_arrays {
    struct cs_mask_plan mask, wide; /* documents of the own rows; with the halo before them */
    const int32_t *order,
        *place; /* (n) which of those that come is the i-th row; the other way round */
};

/* Recurrent layers pass a state from row to row: they have rows of their own, as many on every rank,
 * which follow each other in the slot. A document may go on over several ranks. */
struct cs_split_stretch {
    const int32_t *begin; /* (ranks + 1) rank r has rows begin[r] .. begin[r + 1] of the slot */
    const int32_t *halo;  /* (ranks) rows before them of the same document that it reads */
    int32_t n;            /* rows that are here */
    int32_t from, to;     /* ranks with the first row of the document that the own rows begin in,
                             and with the last row of the one that they end in */
    /* (ranks) of the rows that are dealt to this rank those that each has in order, which follow each other;
     * of the own rows in order those that are dealt to each */
    const int32_t *go, *come;
    struct cs_stretch_arrays host, at; /* arrays of the host; what operators read */
};

/* Where heads are exchanged (tables->context.moves_heads): every rank of the slot's group has all rows of the slot for
 * some heads, and the masks of the LLM are of all rows. What comes lies by the rank that has it, each rank's in the order
 * of the slot. Other ranks have nothing of it; one alone has all heads of its rows, and nothing is exchanged. */
struct cs_split_heads {
    int32_t n,
        rows;    /* of the slot; with those that are added to it; 0: nothing is exchanged here */
    int32_t own; /* rows that are here, with those that are added to them */

    struct cs_split_heads_lists {
        const int32_t *order; /* (rows) which of those that come is the i-th row, -1: it is added */
        const int32_t *place; /* (n) which row of the slot is the i-th of those that come */
        /* By kind of attention whose heads of keys several ranks have: (own, copies) rows of as many arrays
         * (own, ..), whose sum is the gradient. */
        const int32_t *sums[CS_SLOT_MASKS];
    } host, at; /* arrays of the host; what operators read */
};

struct cs_input_split {
    int32_t ranks, place;                    /* as tables->context */
    struct cs_context_group group;           /* of these, those that have rows */
    const int32_t *owner;                    /* (n_tokens) */
    int32_t n;                               /* rows that are here */
    const int32_t *row;                      /* (n) of the slot, ascending */
    struct cs_row_runs tokens;               /* of the slot's rows */
    struct cs_row_needs need[CS_SLOT_MASKS]; /* by tables->mask, those of the LLM */
    struct cs_split_heads heads;             /* need is not set where these are */
    struct cs_split_stretch stretch;         /* begin NULL: no layer is recurrent */
    struct cs_context_load *load;            /* (ranks) */
    struct cs_mask_plan all;                 /* rows of the slot, for their masks' keys */
    /* labels of the whole slot, evaluation */
    int32_t n_labels;
    const int32_t *label_rows;
    uint8_t *correct; /* (n_labels), NULL: this rank does not have those of others */
};

/* Rows of a slot that are prepared become those of this rank. manifest: of the step; NULL will do where
 * slots have no degree of their own. */
enum cs_status cs_input_split(struct cs_input *input, const struct cs_manifest *manifest, int index,
                              struct cs_err *err) CS_NODISCARD;

/* This rank is of the group that splits the slot. It may have no rows of it all the same. */
static inline bool cs_split_has_part(const struct cs_input_split *split)
{
    const int32_t at = split->place - split->group.first;
    return at >= 0 && at < split->group.n;
}

/* The fullest slot: as many rows as a rank can have, of one that all ranks split. */
void cs_input_split_fullest(struct cs_input *input);
/* Where heads are exchanged any number of ranks may be the one that takes most of a rank: the next below n that can have
 * a slot, 0: all others take no more. */
int32_t cs_split_fewer(const struct cs_input_tables *tables, int32_t n);
/* The split of the longest slot that n ranks have, to be put in the place of fullest->split, whose arrays it has. */
struct cs_input_split cs_split_fullest_of(const struct cs_input *fullest, int32_t n);
/* rows of the LLM that are here */
int32_t cs_split_rows(const struct cs_input *input);

/* A context of a plan; place and rows_each as in struct cs_input_context. */
struct cs_split_config {
    int32_t ranks, place, rows_each;
    const char *how; /* NULL: the usual rule */
    bool moves_heads, own_first;
    struct cs_tp tp; /* that has the heads of this rank */
};

/* CS_INVALID: no such rule, or heads that do not divide. */
enum cs_status cs_split_tables(struct cs_input_tables *tables, const struct cs_split_config *config,
                               struct cs_err *err) CS_NODISCARD;

/* A split slot on a rank of the context, for people. */
enum cs_status cs_split_view(const struct cs_input *input, struct cs_arena *arena,
                             struct cs_context_view *out, struct cs_err *err) CS_NODISCARD;

/* the slot's row of a label that is here */
int32_t cs_split_label_row(const struct cs_input *input, int32_t label);

/* Labels of the whole slot; correct NULL: not known here. */
struct cs_split_labels {
    int32_t n;
    const int32_t *row;
    const uint8_t *correct;
};

struct cs_split_labels cs_split_labels(const struct cs_input *input);
/* labels that are on a rank of the context */
int32_t cs_split_count_labels(const struct cs_input *input, int32_t place);
/* What the head of a rank said of its labels takes its place among those of the slot. */
void cs_split_take_correct(struct cs_input *input, int32_t place, const uint8_t *correct);

#endif

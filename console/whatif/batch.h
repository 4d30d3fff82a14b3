/* A sample batch for the token balance of the Plan view, and how every rule spreads it.
 *
 * The console knows budgets, not samples, so it draws a batch from the specification, the same on
 * every machine: one draw per slot, keyed by the job's seed. Samples follow each other, each a
 * document: a question, one item of every encoder whose rows still fit budget and slot, an answer.
 * Question and answer have from 8 to about seq_tokens / 8 tokens each: every octave is as likely.
 * What the last sample has too much is cut. The work of a block of tokens is what one LLM layer
 * multiplies for it: allowed pairs of the mask, and the linear layers. */
#ifndef CS_CONSOLE_WHATIF_BATCH_H
#define CS_CONSOLE_WHATIF_BATCH_H

#include "core/mask/rule.h"
#include "core/model/budget.h"
#include "core/model/graph.h"
#include "core/plan/tokens/balance.h"

enum { CS_BATCH_RANKS = 64, CS_BATCH_SLOTS = 16, CS_BATCH_BLOCKS = 4096 };

struct cs_batch_want {
    int32_t ranks; /* 1..CS_BATCH_RANKS */
    int32_t slot;  /* whose loads are shown */
    enum cs_mask_kind mask;
};

struct cs_batch_rule {
    enum cs_balance_how how;
    double slot_ratio;  /* max / mean of the shown slot */
    double batch_ratio; /* sum of the slots' max over the sum of their means: what a step waits */
    double *load;       /* (ranks) of the shown slot, operations */
    double mean;
    enum cs_balance_how took; /* BEST: which rule it took */
    bool is_proven;           /* nothing is better, in the shown slot */
    char error[96];           /* "" or why not */
};

struct cs_batch {
    struct cs_arena *arena; /* NULL: empty */
    struct cs_batch_want want;
    int32_t n_tokens, block, n_blocks, n_slots;
    /* the shown slot */
    int32_t n_samples, n_items[CS_MAX_ENCODERS];
    int64_t n_pairs;
    double *work; /* (n_blocks) operations */
    int8_t *kind; /* (n_blocks) what most of its tokens are: -1 text, else the encoder */
    int32_t *doc; /* (n_blocks) sample of its first token */
    struct cs_batch_rule rule[CS_BALANCE_HOWS]; /* by enum cs_balance_how */
    char error[256];
};

void cs_batch_clear(struct cs_batch *batch);
/* Tokens of a block: 128, halved until every rank has eight blocks, at least 8. */
int32_t cs_batch_block(int32_t n_tokens, int32_t ranks);
/* takes the place of what was there; a failure is kept in batch->error */
void cs_batch_make(struct cs_batch *batch, const struct cs_spec *spec, const struct cs_graph *graph,
                   const struct cs_slot_budget *budget, int32_t n_slots,
                   const struct cs_batch_want *want);

#endif

/* The samples of one step to replicas and slots, so that every slot carries alike work in the
 * encoders and in the LLM. Costs are known before a picture is decoded; the result changes the
 * manifest only, never plan or programs.
 *
 * Deterministic: equal inputs give equal results everywhere; every sample is assigned exactly once.
 * Sources: DistTrain (SIGCOMM 2025) for replicas by LPT and the order of slots, Entrain
 * (arXiv 2605.27918) for stratified assignment and deferral (defer.h); 2-D list scheduling is ours.
 *
 * cs.lab.assign{samples={{enc=,llm=},...}, lanes=, slots=, how="list2d", seed=0, enc_stages=1,
 *               llm_stages=1, defer=false} -> {lane={...}, slot={...}, enc={...}, llm={...}}
 * Its lanes are the replicas here. tokens= of a sample is a third dimension of list2d when every
 * sample has it; how: cs_assign_how_from_name. Results count from 0: lane, slot (n), enc and llm
 * (lanes * slots, index lane * slots + slot); with defer also llm_slot (n) and enc_back. */
#ifndef CS_SPREAD_SLOT_POLICIES_H
#define CS_SPREAD_SLOT_POLICIES_H

#include <stdbool.h>
#include <stdint.h>

#include "core/spread/assign_list.h"

enum cs_assign_how {
    CS_ASSIGN_LIST2D,  /* least max(enc / all enc, llm / all llm, ...) after insertion: default */
    CS_ASSIGN_RANDOM,  /* keyed shuffle dealt round robin */
    CS_ASSIGN_LPT,     /* longest first on enc + llm, replicas and slots */
    CS_ASSIGN_LPT_ENC, /* slots by LPT on enc, replicas as ENTRAIN: what stratification is for */
    CS_ASSIGN_LPT_REPLICAS, /* replicas of equal counts by LPT on enc + llm; slots in order of arrival */
    CS_ASSIGN_DISTTRAIN, /* LPT_REPLICAS, then the slots of a replica reordered (assign_order.h) */
    CS_ASSIGN_ENTRAIN, /* stratified by LLM work, least encoder load; text-only samples and ties go
                          to the least LLM load */
    CS_ASSIGN_ENTRAIN_LITERAL, /* as published: ties by index */
    CS_ASSIGN_HOWS
};

struct cs_assign_options {
    enum cs_assign_how how;
    int32_t replicas, slots;
    uint64_t seed;                  /* RANDOM */
    int32_t enc_stages, llm_stages; /* DISTTRAIN; 0: 1 */
    bool is_slots_limited; /* ENTRAIN*: no more slots than all enc / largest enc (their K_eff) */
    /* Limits of a slot, with one replica only. A sample that its policy finds no room for has slot -1
     * and counts nowhere. NULL: none. */
    const struct cs_list_room *room;
    /* LIST2D: the encoders one by one, each (n), when they run on ranks of their own; they take the
     * place of enc there. At most CS_LIST_DIMS - 2. */
    const double *const *enc_part;
    int32_t n_enc_parts;
};

struct cs_assign_samples {
    int32_t n;
    const double *enc, *llm; /* (n) >= 0, forward work, one unit for both */
    const double *tokens;    /* (n) or NULL: third dimension of LIST2D, e.g. memory */
};

/* Arrays live in the caller's arena. Sums are (replicas, slots), row by row. */
struct cs_assign_result {
    int32_t replicas, slots;
    int32_t *replica, *slot; /* (n) replica of the sample; slot whose encoder pass makes it */
    int32_t *llm_slot;       /* (n) slot whose LLM pass consumes it: slot, unless deferred */
    double *enc, *llm;       /* work of encoder forward, of the LLM */
    double *enc_back;        /* encoder work whose backward runs with the slot: by llm_slot */
    int32_t n_unplaced;      /* samples without a slot: room */
};

/* CS_INVALID: no replicas or slots, more than 2^20 cells, a cost that is negative or not finite, room
 * with several replicas. No samples is legal. O(n log n + n * (replicas + slots)). */
enum cs_status cs_assign(const struct cs_assign_samples *samples,
                         const struct cs_assign_options *options, struct cs_arena *arena,
                         struct cs_assign_result *out, struct cs_err *err) CS_NODISCARD;

/* Sums again after replica, slot or llm_slot changed, in the order of the samples. */
void cs_assign_sum(const struct cs_assign_samples *samples, struct cs_assign_result *result);
/* New numbers for the slots of one replica: slot order[i] becomes i. order (slots) is a
 * permutation. */
void cs_assign_renumber(const struct cs_assign_samples *samples, struct cs_arena *arena,
                        int32_t replica, const int32_t *order, struct cs_assign_result *result);

const char *cs_assign_how_name(enum cs_assign_how how);
bool cs_assign_how_from_name(const char *name, enum cs_assign_how *how);

#endif

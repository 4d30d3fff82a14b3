/* The table of placements: on which ranks encoders run. The request of a plan, the planner, the
 * search, Lua, the console and the manuals read it. A new placement is a row here and, unless an
 * existing rule puts its stages on ranks, one in core/plan/make/place.c. */
#ifndef CS_MODEL_PLACEMENTS_H
#define CS_MODEL_PLACEMENTS_H

#include <stdbool.h>
#include <stddef.h>

/* how a schedule wants the stages placed */
enum cs_schedule_layout {
    CS_LAYOUT_STAGES,   /* as the placement says */
    CS_LAYOUT_CHUNKS,   /* stage i of the LLM on its rank i % p; encoders on ranks of their own */
    CS_LAYOUT_COLOCATED /* a whole copy of every encoder on each rank of the LLM, which share the
                           slots */
};

/* Stages that an encoder may be cut into. */
enum cs_placement_cut {
    CS_CUT_ANY,    /* as many as it has layers */
    CS_CUT_AS_LLM, /* as many as the LLM */
    CS_CUT_ONCE,   /* one */
    CS_CUT_COPIES  /* one, of which each rank of the LLM has a copy */
};

enum {
    CS_GOES_STAGES = 1 << CS_LAYOUT_STAGES,
    CS_GOES_CHUNKS = 1 << CS_LAYOUT_CHUNKS,
    CS_GOES_COLOCATED = 1 << CS_LAYOUT_COLOCATED
};

/* X(id, name, modality, own_ranks, cut, layouts, help)
 *
 * name      of a branch's layout ("place" of a search)
 * modality  of a job ("modality" of a plan)
 * own_ranks encoders have ranks of their own
 * layouts   of schedules that it goes with
 *
 * The first row is the default; the search tries those up to the planned ones, in this order. */
/* clang-format off */
#define CS_PLACEMENTS_FIRST(X)                                                                     \
    X(OWN,        "own",        "encoder-parallel",   true,  ANY,    CS_GOES_STAGES | CS_GOES_CHUNKS,    \
      "encoders on ranks of their own")

#define CS_PLACEMENTS_REST_SEARCHED(X)                                                             \
    X(COLOCATED,  "colocated",  "encoder-colocated",  false, AS_LLM, CS_GOES_STAGES | CS_GOES_COLOCATED, \
      "stage by stage on the LLM's")                                                               \
    X(REPLICATED, "replicated", "encoder-replicated", false, COPIES, CS_GOES_STAGES,                     \
      "a copy for every slot on each of the LLM's")

#define CS_PLACEMENTS_REST_PLANNED(X)                                                              \
    X(FIRST,      "first",      "encoder-first",      false, ONCE,   CS_GOES_STAGES,                     \
      "whole on the LLM's first, which has fewer layers for it")

#define CS_PLACEMENTS_SEARCHED(X) CS_PLACEMENTS_FIRST(X) CS_PLACEMENTS_REST_SEARCHED(X)
#define CS_PLACEMENTS_TABLE(X)    CS_PLACEMENTS_SEARCHED(X) CS_PLACEMENTS_REST_PLANNED(X)

#define CS_PLACEMENT_MODALITY(id, name, modality, own_ranks, cut, layouts, help) modality
#define CS_PLACEMENT_WORD(id, name, modality, own_ranks, cut, layouts, help)     "|" modality
#define CS_PLACEMENT_HELP_(id, name, modality, own_ranks, cut, layouts, help)    help
#define CS_PLACEMENT_ALSO_(id, name, modality, own_ranks, cut, layouts, help)    "; " help
#define CS_PLACEMENT_NAME_(id, name, modality, own_ranks, cut, layouts, help)    "|" name
#define CS_PLACEMENT_TELL_(id, name, modality, own_ranks, cut, layouts, help)    name ": " help
#define CS_PLACEMENT_TELLS(id, name, modality, own_ranks, cut, layouts, help)    "; " name ": " help
#define CS_PLACEMENT_ONE(id, name, modality, own_ranks, cut, layouts, help)      +1
/* "encoder-parallel"; the modalities that the search knows, and all, as the words of a key; what
 * they mean */
#define CS_MODALITY_DEFAULT        CS_PLACEMENTS_FIRST(CS_PLACEMENT_MODALITY)
#define CS_MODALITY_SEARCHED_WORDS CS_MODALITY_DEFAULT CS_PLACEMENTS_REST_SEARCHED(CS_PLACEMENT_WORD)
#define CS_MODALITY_WORDS          CS_MODALITY_SEARCHED_WORDS CS_PLACEMENTS_REST_PLANNED(CS_PLACEMENT_WORD)
#define CS_MODALITY_HELP                                                                           \
    CS_PLACEMENTS_FIRST(CS_PLACEMENT_HELP_)                                                        \
    CS_PLACEMENTS_REST_SEARCHED(CS_PLACEMENT_ALSO_) CS_PLACEMENTS_REST_PLANNED(CS_PLACEMENT_ALSO_)
/* where one branch runs: as the modality says, or by a name of the table */
#define CS_PLACE_DEFAULT "modality"
#define CS_PLACE_WORDS   CS_PLACE_DEFAULT CS_PLACEMENTS_TABLE(CS_PLACEMENT_NAME_)
#define CS_PLACE_HELP                                                                              \
    CS_PLACEMENTS_FIRST(CS_PLACEMENT_TELL_)                                                        \
    CS_PLACEMENTS_REST_SEARCHED(CS_PLACEMENT_TELLS) CS_PLACEMENTS_REST_PLANNED(CS_PLACEMENT_TELLS)

/* clang-format on */

enum cs_placement {

#define X(id, name, modality, own_ranks, cut, layouts, help) CS_PLACE_##id,
    CS_PLACEMENTS_TABLE(X)
#undef X
        CS_PLACEMENTS
};

enum { CS_SEARCHED_PLACEMENTS = 0 CS_PLACEMENTS_SEARCHED(CS_PLACEMENT_ONE) };

struct cs_placement_info {
    enum cs_placement id;
    const char *name, *modality;
    bool has_own_ranks;
    enum cs_placement_cut cut;
    unsigned layouts; /* bits of enum cs_schedule_layout */
    const char *help;
};

/* by enum cs_placement */
extern const struct cs_placement_info cs_placement_table[CS_PLACEMENTS];

/* The row of a modality; NULL: there is none of this name. */
const struct cs_placement_info *cs_placement_of_modality(const char *modality);
/* The row of a name; NULL: there is none. */
const struct cs_placement_info *cs_placement_find(const char *name);
/* The placement that a schedule of a layout goes with where it goes with one alone; else OWN. */
enum cs_placement cs_placement_of_layout(enum cs_schedule_layout layout);

#endif

/* A plan looked at without running it: one variant planned, lowered and simulated, and what the
 * Plan view shows of it. Pure but for memory: a preview owns an arena. */
#ifndef CS_CONSOLE_WHATIF_PREVIEW_H
#define CS_CONSOLE_WHATIF_PREVIEW_H

#include "console/whatif/variant.h"
#include "core/sched/sim/forecast.h"
#include "core/trace/span.h"

/* stages times slots that are simulated while a screen waits */
enum { CS_PREVIEW_CELLS = 1 << 18 };

enum cs_preview_held {
    CS_PREVIEW_WEIGHTS,
    CS_PREVIEW_GRADS,
    CS_PREVIEW_OPTIMIZER,
    CS_PREVIEW_ACTIVATIONS,
    CS_PREVIEW_WORKSPACE, /* scratch of the largest action, and what communicators take */
    CS_PREVIEW_BOUNDARY,
    CS_PREVIEW_HELD
};

const char *cs_preview_held_name(enum cs_preview_held held); /* "weights" */

/* What a rank needs (core/plan/cost/stage/needs.h). */
struct cs_preview_memory {
    int64_t bytes[CS_PREVIEW_HELD], total;
};

/* Why an action of the critical path starts when it does and not before. */
enum cs_preview_why {
    CS_WHY_FIRST,   /* nothing comes before it */
    CS_WHY_BUSY,    /* its rank was computing what stands before it */
    CS_WHY_MESSAGE, /* the rows or the gradient came then */
    CS_WHY_SENT,    /* a message: leaves when what it carries is done */
    CS_WHY_MEETING, /* a collective, or what comes after one: the last rank came then */
    CS_WHY_CORE     /* CPU ranks share cores: none was free */
};

struct cs_preview_link {
    int32_t rank;
    uint32_t id;     /* index in forecast.rank[rank].action */
    int64_t idle_ns; /* of its rank just before, of compute actions; else 0 */
    enum cs_preview_why why;
};

struct cs_preview {
    struct cs_arena *arena; /* NULL: empty */
    struct cs_variant variant;
    struct cs_variant_plan made; /* plan NULL: it could not be planned, see error */
    struct cs_forecast forecast;
    double bubble;                    /* mean over ranks: 1 - work of their stages / makespan */
    double *rank_bubble;              /* (n_ranks) */
    struct cs_preview_memory *memory; /* (n_ranks) */
    int32_t peak_rank;                /* that needs most */
    /* compute spans by rank, for Gantt rows: all, and those of the critical path */
    struct cs_span *span, *critical;
    int32_t *first_span, *first_critical; /* (n_ranks + 1) */
    struct cs_preview_link *link;         /* (n_links) the critical path */
    int32_t n_links;
    char error[256];
};

void cs_preview_clear(struct cs_preview *preview);
/* takes the place of what was there; a failure is kept in preview->error */
void cs_preview_make(struct cs_preview *preview, const struct cs_variant_base *base,
                     const struct cs_variant *variant);
/* a rank of programs: the first of the job's ranks that run it */
int32_t cs_preview_rank(const struct cs_preview *preview, int32_t rank);
/* the spans of one rank, as a step that cs_gantt_row reads */
struct cs_span_step cs_preview_spans(const struct cs_preview *preview, int32_t rank,
                                     bool is_critical);
const struct cs_forecast_action *cs_preview_action(const struct cs_preview *preview, int32_t link);
/* "F3 llm.0", "rows 1 to rank 2": slots count from 1, as on the timeline */
void cs_preview_what(const struct cs_preview *preview, int32_t link, char *out, size_t cap);
/* "its rank was busy: F2 llm.0", "rows from rank 0 came then" */
void cs_preview_why_text(const struct cs_preview *preview, int32_t link, char *out, size_t cap);

#endif

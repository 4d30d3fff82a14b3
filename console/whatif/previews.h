/* What a screen shows of plans beside the job's: a preview, what-if, a sample batch. Made piece by
 * piece when they are asked for, and kept until the plan, its costs or the wish change. */
#ifndef CS_CONSOLE_WHATIF_PREVIEWS_H
#define CS_CONSOLE_WHATIF_PREVIEWS_H

#include "console/whatif/batch.h"
#include "console/whatif/whatif.h"

struct cs_previews_want {
    bool has_preview, has_whatif, has_batch;
    struct cs_variant variant;
    struct cs_batch_want batch;
};

/* All of it belongs to one edition of plan and costs, which base borrows. */
struct cs_previews {
    uint64_t edition;            /* 0: of nothing */
    struct cs_arena *arena;      /* of the costs in base */
    struct cs_variant_base base; /* plan NULL: there is nothing to preview */
    struct cs_preview preview;
    int64_t own_ns;          /* step of the job's own variant, 0: not simulated yet, -1: cannot */
    struct cs_whatif whatif; /* n 0: not listed yet */
    struct cs_batch batch;
};

/* Forgets what was made and begins anew with a base, which is copied, its documents borrowed. base
 * NULL: with nothing. */
void cs_previews_begin(struct cs_previews *previews, const struct cs_variant_base *base,
                       uint64_t edition);
/* Makes the next piece of what is wanted, if it is not there. Returns whether more may be left, so
 * that its owner can answer keys in between. */
bool cs_previews_make(struct cs_previews *previews, const struct cs_previews_want *want);

#endif

/* Documents of packed tokens as segments of rows. */
#include "core/mask/plan.h"

int32_t cs_mask_segments(const int32_t *doc, int32_t n_tokens, int32_t *segment)
{
    int32_t n = 0;
    for (int32_t i = 0; i < n_tokens; i++)
        if (i == 0 || doc[i] != doc[i - 1])
            segment[n++] = i;
    segment[n] = n_tokens;
    return n;
}

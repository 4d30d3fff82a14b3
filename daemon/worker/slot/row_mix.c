/* The gradient of rows that are sums of others goes back row by row: the same list, sorted by where it takes
 * from, so that no two writers meet. */
#include "worker/slot/row_mix.h"

#include <string.h>

struct cs_row_mix cs_row_mix_back(struct cs_scratch *memory, const struct cs_row_mix *mix,
                                  int32_t n_from)
{
    int32_t *start = cs_scratch_take(memory, ((size_t)n_from + 2) * sizeof *start);
    int32_t *index = cs_scratch_take(memory, (size_t)mix->n * sizeof *index);
    float *weight = cs_scratch_take(memory, (size_t)mix->n * sizeof *weight);
    memset(start, 0, ((size_t)n_from + 2) * sizeof *start);
    for (int32_t e = 0; e < mix->n; e++)
        start[mix->index[e] + 2]++;
    for (int32_t i = 0; i < n_from; i++)
        start[i + 2] += start[i + 1];
    for (int32_t r = 0; r < mix->rows; r++)
        for (int32_t e = mix->start[r]; e < mix->start[r + 1]; e++) {
            const int32_t at = start[mix->index[e] + 1]++;
            index[at] = r;
            weight[at] = mix->weight[e];
        }
    return (struct cs_row_mix){n_from, mix->n, start, index, weight};
}

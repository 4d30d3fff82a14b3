/* A language model in fp64 and as plainly as can be: rows one after the other, the mask a matrix.
 * What a test compares the worker's layers with under any mask. */
#ifndef CS_TESTS_SUPPORT_LLM_ORACLE_H
#define CS_TESTS_SUPPORT_LLM_ORACLE_H

#include "core/model/graph.h"

struct cs_oracle {
    const struct cs_arch *arch;
    int n, n_layers, n_labels;
    const int32_t *ids;     /* (n) -1: the next row of fill */
    const float *cos, *sin; /* (n, head_dim / 2) */
    const uint8_t *allow;   /* (n, n) query, key */
    const int32_t *label_rows, *label_ids;
    int64_t at[CS_PARAM_ROLE_COUNT]
              [16];            /* of a parameter by block in the values, -1: there is none */
    int64_t fill_at, n_values; /* rows of encoders, behind the parameters */
};

/* Where the parameters of the LLM lie in one array of values, in the order of the graph; fill_rows
 * rows for the encoders behind them. */
void cs_oracle_lay_out(struct cs_oracle *oracle, const struct cs_graph *graph, int64_t fill_rows);
/* sum of the losses of the labels; values: (n_values) */
double cs_oracle_loss(const struct cs_oracle *oracle, const double *values);

#endif

/* Which ranks have the same parameter, and what each of them has of it. */
#include "worker/params/params.h"

const struct cs_holders *cs_params_holders(const struct cs_params *params, const struct cs_shard *t)
{
    const bool is_spread = params->tp.ep > 1 && cs_param_is_of_expert(t->param);
    return &params->holders[is_spread ? CS_HELD_EXPERTS : CS_HELD_BY_ALL];
}

void cs_params_part(const struct cs_params *params, const struct cs_shard *t, int32_t holder,
                    int64_t *at, int64_t *n)
{
    *at = 0;
    *n = t->param->count;
    if (t->bucket < 0 || cs_params_holders(params, t)->n == 1)
        return;
    const struct cs_bucket *b = &params->bucket[t->bucket];
    const int64_t part = b->n / params->holders[b->held].n;
    const int64_t begin = b->at + part * holder - t->at, end = begin + part;
    *at = begin < 0 ? 0 : begin > t->param->count ? t->param->count : begin;
    *n = (end < 0 ? 0 : end > t->param->count ? t->param->count : end) - *at;
}

/* Cuts heads into groups. Where nobody is met, as in a rehearsal, there is one: what it takes is the most. */
#include "worker/model/halves/context_groups.h"

#include "worker/layer/exchange.h"

static int64_t bytes_of_head(const struct cs_run *run, const struct cs_attention_shape *s)
{
    return run->input->n_tokens * (int64_t)2 * s->head_dim * (int64_t)run->ops->act_bytes;
}

/* as many heads each, as asked for; or as many groups as divide the heads */
static struct cs_context_groups even(int32_t heads, int32_t groups)
{
    struct cs_context_groups out = {.n = groups < CS_CONTEXT_GROUPS ? groups : CS_CONTEXT_GROUPS};
    while (heads % out.n != 0)
        out.n--;
    for (int32_t g = 0; g <= out.n; g++)
        out.begin[g] = g * heads / out.n;
    return out;
}

struct cs_context_groups cs_context_groups_of(const struct cs_run *run,
                                              const struct cs_attention_shape *shape, bool is_back)
{
    const struct cs_context *c = run->context;
    const int64_t head = bytes_of_head(run, shape);
    const int32_t all = shape->kv_heads;
    if (c == NULL || c->groups < 2 || c->group_bytes == 0 || head == 0)
        return even(all, c != NULL && c->groups > 0 ? c->groups : 1);
    const int64_t worth = (c->group_bytes - 1) / head + 1;
    if (2 * worth > all)
        return even(all, 1);
    const int32_t few = (int32_t)worth;
    if (!is_back)
        return (struct cs_context_groups){
            2, {0, all / 2, all}
        };
    if (3 * few > all)
        return (struct cs_context_groups){
            2, {0, all - few, all}
        };
    return (struct cs_context_groups){
        3, {0, few, all - few, all}
    };
}

/* Rows and widths along a chain, and sums over its steps. */
#include <string.h>

#include "core/arch/chain.h"
#include "core/base/status.h"

static const enum cs_chain_op letters['Z'] = {
    ['D'] = CS_CHAIN_DROP_CLASS, ['N'] = CS_CHAIN_NORM, ['C'] = CS_CHAIN_CONCAT,
    ['W'] = CS_CHAIN_WEAVE,      ['M'] = CS_CHAIN_MEAN, ['F'] = CS_CHAIN_AFFINE,
    ['L'] = CS_CHAIN_LINEAR,     ['A'] = CS_CHAIN_ACT,
};

void cs_chain_make(const char *steps, int32_t n_linears, int32_t group, int32_t in_width,
                   struct cs_chain *out)
{
    int32_t linears = 0;
    *out = (struct cs_chain){.group = group, .in_width = in_width, .scale = 1};
    for (const char *s = steps; *s != '\0'; s++) {
        const enum cs_chain_op op = letters[(unsigned char)*s];
        const bool is_idle = group == 1 && strchr("CWM", *s) != NULL;
        linears += op == CS_CHAIN_LINEAR;
        if (is_idle || linears > n_linears || (op == CS_CHAIN_ACT && linears == n_linears))
            continue;
        CS_ASSERT(out->n < CS_CHAIN_STEPS);
        out->op[out->n++] = op;
    }
}

static bool is_joining(enum cs_chain_op op)
{
    return op == CS_CHAIN_CONCAT || op == CS_CHAIN_WEAVE || op == CS_CHAIN_MEAN;
}

bool cs_chain_joins(const struct cs_chain *chain)
{
    for (int32_t i = 0; i < chain->n; i++)
        if (is_joining(chain->op[i]) && chain->group > 1)
            return true;
    return false;
}

struct cs_chain_rows cs_chain_at(const struct cs_chain *chain, int32_t step)
{
    struct cs_chain_rows at = {
        .rows = cs_chain_joins(chain) ? chain->group : 1,
        .width = chain->in_width,
    };
    for (int32_t i = 0; i < step; i++) {
        const enum cs_chain_op op = chain->op[i];
        if (op == CS_CHAIN_LINEAR)
            at.width = chain->linear[at.n_linears++];
        if (!is_joining(op))
            continue;
        at.rows = 1;
        if (op != CS_CHAIN_MEAN)
            at.width *= chain->group;
    }
    return at;
}

struct cs_chain_sums cs_chain_sums(const struct cs_chain *chain)
{
    const struct cs_chain_rows in = cs_chain_at(chain, 0);
    struct cs_chain_sums sums = {.in = (int64_t)in.rows * in.width};
    bool is_own = true; /* what is here is the chain's input */
    for (int32_t i = 0; i < chain->n; i++) {
        const struct cs_chain_rows at = cs_chain_at(chain, i);
        const int64_t n = (int64_t)at.rows * at.width;
        switch (chain->op[i]) {
        case CS_CHAIN_NORM:
            sums.norms += is_own ? 0 : n;
            sums.stats += 2 * (int64_t)at.rows;
            break;
        case CS_CHAIN_LINEAR:
            sums.linears += is_own ? 0 : n;
            sums.products += n * chain->linear[at.n_linears];
            break;
        case CS_CHAIN_ACT:
            sums.acts += n;
            break;
        case CS_CHAIN_DROP_CLASS:
        case CS_CHAIN_CONCAT:
        case CS_CHAIN_WEAVE:
        case CS_CHAIN_MEAN:
        case CS_CHAIN_AFFINE:
        case CS_CHAIN_FILL:
        case CS_CHAIN_OPS:
            break;
        }
        is_own = is_own && chain->op[i] == CS_CHAIN_CONCAT;
    }
    return sums;
}

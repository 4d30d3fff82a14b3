/* What ranks of a context had in the last step of the selected job. */
#include "console/store/store.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/str.h"
#include "core/wire/wire.h"

enum { FIELDS = 5 };

/* [rank, rows, pairs, flops, wait_us]; false: it makes no sense */
static bool read_part(const json_t *row, const json_t *step, struct cs_store_part *out)
{
    double value[FIELDS], idle;
    if (json_array_size(row) != FIELDS)
        return false;
    for (size_t i = 0; i < FIELDS; i++)
        if (!cs_json_to_num(json_array_get(row, i), &value[i]) || !isfinite(value[i]) ||
            value[i] < 0 || value[i] > 9e18)
            return false;
    if (value[0] >= CS_STORE_PARTS)
        return false;
    *out = (struct cs_store_part){.rank = (int32_t)value[0],
                                  .rows = (int64_t)value[1],
                                  .pairs = (int64_t)value[2],
                                  .flops = value[3],
                                  .wait_us = (int64_t)value[4],
                                  .busy_us = -1};
    const double all_us = (double)cs_msg_int(step, "makespan_ns", 0) / 1e3;
    if (all_us > 0 &&
        cs_json_to_num(json_array_get(cs_msg_arr(step, "bubble"), (size_t)value[0]), &idle) &&
        idle >= 0 && idle <= 1)
        out->busy_us = (int64_t)((1 - idle) * all_us);
    return true;
}

/* Who splits the same rows: a program of a replica. Without a plan all do. */
static int32_t group_of(const struct cs_store *store, int32_t rank)
{
    const struct cs_plan *plan = store->model.plan;
    if (plan == NULL || rank >= cs_plan_world(plan))
        return 0;
    return cs_plan_replica(plan, rank) * plan->n_ranks + cs_plan_rank_in_replica(plan, rank);
}

/* parts of one group are neighbours: ranks are numbered so */
static void group(struct cs_store *store)
{
    struct cs_store_context *c = &store->context;
    c->balance = (double)NAN;
    for (int begin = 0, end; begin < c->n; begin = end) {
        const int32_t of = group_of(store, c->part[begin].rank);
        double most = 0, sum = 0;
        for (end = begin; end < c->n && group_of(store, c->part[end].rank) == of; end++) {
            most = fmax(most, c->part[end].flops);
            sum += c->part[end].flops;
        }
        for (int i = begin; i < end; i++) {
            c->part[i].group = of;
            c->part[i].most = most;
        }
        if (sum > 0)
            c->balance = fmax(isnan(c->balance) ? 1 : c->balance, most * (end - begin) / sum);
    }
}

/* ---- the slot ---- */

static bool read_cells(const json_t *o, struct cs_store_sequence *out)
{
    const char *what = cs_msg_str(o, "what", "");
    const json_t *work = cs_msg_arr(o, "work");
    const size_t n = strlen(what);
    if (n == 0 || n > CS_STORE_CELLS || json_array_size(work) != n)
        return false;
    for (size_t i = 0; i < n; i++) {
        double v;
        if (!isalpha((unsigned char)what[i]) || !cs_json_to_num(json_array_get(work, i), &v))
            return false;
        out->work[i] = v >= 0 && v <= 1000 ? v / 1000 : 0;
    }
    memcpy(out->what, what, n + 1);
    out->n_cells = (int)n;
    return true;
}

/* false: not of as many ranks as the others */
static bool read_rule(const char *name, const json_t *loads, struct cs_store_sequence *out)
{
    const size_t n = json_array_size(loads);
    if (n == 0 || n > CS_STORE_PARTS || (out->n_rules > 0 && (int)n != out->ranks))
        return false;
    struct cs_store_rule *rule = &out->rule[out->n_rules];
    *rule = (struct cs_store_rule){.load = calloc(n, sizeof(float))};
    CS_ASSERT(rule->load != NULL);
    cs_str_copy(rule->name, sizeof rule->name, name);
    for (size_t r = 0; r < n; r++) {
        double v;
        if (cs_json_to_num(json_array_get(loads, r), &v) && v >= 0 && v < 1e9)
            rule->load[r] = (float)(v / 1e4);
        rule->worst = fmax(rule->worst, (double)rule->load[r]);
    }
    out->ranks = (int)n;
    out->n_rules++;
    return true;
}

static void forget(struct cs_store_sequence *s)
{
    for (int i = 0; i < s->n_rules; i++)
        free(s->rule[i].load);
    *s = (struct cs_store_sequence){.step = -1};
}

/* Steps that follow each other closely do not all tell one: the last is kept. */
static void read_sequence(struct cs_store_sequence *out, const json_t *msg)
{
    const json_t *o = cs_msg_obj(msg, "sequence"), *loads;
    const char *name;
    if (o == NULL)
        return;
    forget(out);
    out->step = cs_msg_int(msg, "step", -1);
    out->rows = cs_msg_int(o, "rows", 0);
    out->block = cs_msg_int(o, "block", 0);
    out->docs = cs_msg_int(o, "docs", 0);
    cs_str_copy(out->own, sizeof out->own, cs_msg_str(o, "rule", ""));
    if (!read_cells(o, out))
        return;
    json_object_foreach(cs_msg_obj(o, "loads"), name, loads)
    {
        if (out->n_rules < CS_STORE_RULES)
            (void)read_rule(name, loads, out);
    }
}

void cs_store_context_forget(struct cs_store *store)
{
    free(store->context.part);
    forget(&store->context.sequence);
    store->context = (struct cs_store_context){.step = -1, .balance = (double)NAN};
}

void cs_store_context_message(struct cs_store *store, const json_t *msg)
{
    struct cs_store_context *c = &store->context;
    const json_t *rows = cs_msg_arr(msg, "context");
    const size_t n = json_array_size(rows);
    free(c->part);
    c->part = NULL;
    c->n = 0;
    c->step = cs_msg_int(msg, "step", -1);
    c->step_ns = cs_msg_int(msg, "step_ns", 0);
    read_sequence(&c->sequence, msg);
    if (n == 0)
        return;
    c->part = calloc(n, sizeof *c->part);
    CS_ASSERT(c->part != NULL);
    for (size_t i = 0; i < n; i++)
        c->n += read_part(json_array_get(rows, i), msg, &c->part[c->n]);
    if (c->n == 0)
        return;
    group(store);
    if (!isnan(c->balance))
        cs_series_put(store->balance, c->step, c->balance);
}

/* What parameters were at the end of a job, as the workers say: weights.json. Where the head is on
 * another rank than the table it is tied to, both ranks have the tensor, and it is told when they
 * do not have the same. */
#include "runner/steps/weights.h"

#include <stdio.h>
#include <string.h>

#include "core/base/str.h"
#include "core/wire/wire.h"
#include "runner/state/records.h"

/* [[id, xxh3], ...] of the parameters a rank answers for, into the table by name */
static void add_weights(struct cs_runner *r, const json_t *weights)
{
    size_t i;
    json_t *pair;
    if (!r->weights)
        r->weights = json_object();
    json_array_foreach(weights, i, pair)
    {
        json_int_t id = json_integer_value(json_array_get(pair, 0));
        json_t *hash = json_array_get(pair, 1);
        if (id >= 0 && id < r->job.graph->n_params && json_is_string(hash))
            json_object_set(r->weights, r->job.graph->params[id].name, hash);
    }
}

void cs_weights_report(struct cs_runner *r, const json_t *msg)
{
    const char *copy = cs_msg_str(msg, "tied_copy", "");
    add_weights(r, cs_msg_arr(msg, "weights"));
    if (*copy)
        cs_str_copy(r->tied_copy, sizeof r->tied_copy, copy);
}

/* table: the hash of the copy that is in the checkpoints */
static void tell_copies_differ(struct cs_runner *r, const char *name, const char *table)
{
    const struct cs_plan *plan = r->generation.plan;
    char first[240], second[240];
    cs_run_rank_name(plan, cs_plan_rank(plan, plan->embed_stage, (struct cs_rank_at){0}), first,
                     sizeof first);
    cs_run_rank_name(plan, cs_plan_rank(plan, plan->head_stage, (struct cs_rank_at){0}), second,
                     sizeof second);
    cs_run_alarm(r, CS_ALERT_COPIES_DIFFER, CS_ERROR, r->last_step,
                 "the two copies of %s, which is also the head, differ: %s on %s, %s on %s; one of "
                 "the ranks computes wrongly, and the checkpoints hold the first copy",
                 name, table, first, r->tied_copy, second);
}

/* Both copies of a tied embedding are the same to the bit, or one of them was computed wrongly. */
static void add_tied_copy(struct cs_runner *r, json_t *doc)
{
    const struct cs_graph *graph = r->job.graph;
    if (!r->tied_copy[0] || graph->tied_param < 0)
        return;
    const char *name = graph->params[graph->tied_param].name;
    const char *table = cs_msg_str(r->weights, name, "nothing");
    cs_msg_set(doc, "copies", json_pack("{s:s}", name, r->tied_copy));
    if (strcmp(table, r->tied_copy) != 0)
        tell_copies_differ(r, name, table);
}

/* DIR/weights.json: what every parameter was at the end, frozen ones too; copies: the second one of
 * a tied embedding, where the head is on another rank */
void cs_weights_write(struct cs_runner *r)
{
    char path[CS_PATH_CAP + 16];
    struct cs_buf text = {0};
    struct cs_err err = {0};
    if (json_object_size(r->weights) == 0)
        return;
    json_t *doc = cs_doc_new("cornstarch.weights/1");
    cs_msg_set_int(doc, "step", r->last_step);
    cs_msg_set(doc, "xxh3", json_incref(r->weights));
    add_tied_copy(r, doc);
    snprintf(path, sizeof path, "%s/weights.json", r->job.dir);
    cs_json_pretty(doc, &text);
    if (cs_write_file_atomic(path, text.data, text.len, 0600, &err) != CS_OK)
        cs_run_note(r, CS_WARN, "%s", err.text);
    cs_buf_free(&text);
    json_decref(doc);
}

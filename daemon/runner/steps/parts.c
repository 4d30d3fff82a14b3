/* Sums of spans by what was done, and FLOPs of branches. */
#include "runner/steps/parts.h"

#include <stdlib.h>
#include <string.h>

#include "core/plan/cost/basis/bytes.h"
#include "core/sched/action.h"
#include "core/wire/wire.h"

enum part { FORWARD, BACKWARD, UPDATE, MESSAGES, SUMS, DATA, SAVE, OTHER, N_PARTS };

static const char *const part_names[N_PARTS] = {"forward", "backward", "update", "messages",
                                                "sums",    "data",     "save",   "other"};

/* of computing; waits are told apart by the spans already */
static int part_of(const struct cs_span *span)
{
    const enum cs_op op = cs_op_of_letter(span->key.letter);
    if (cs_op_does(op, CS_PART_FORWARD))
        return FORWARD;
    return cs_op_does(op, CS_PART_BACKWARD) ? BACKWARD : op == CS_OP_STEP ? UPDATE : N_PARTS;
}

static void set_parts(const struct cs_span_step *spans, json_t *msg)
{
    int64_t ns[N_PARTS] = {0}, known = 0;
    json_t *parts = json_object();
    for (int32_t i = 0; i < spans->n_spans; i++) {
        const int part = part_of(&spans->span[i]);
        if (part < N_PARTS)
            ns[part] += spans->span[i].end_ns - spans->span[i].start_ns;
    }
    for (int32_t r = 0; r < spans->n_ranks; r++) {
        ns[MESSAGES] += spans->wait_ns[r][CS_WAIT_RECV] + spans->wait_ns[r][CS_WAIT_SEND];
        ns[SUMS] += spans->wait_ns[r][CS_WAIT_COLLECTIVE];
        ns[DATA] += spans->data_ns[r];
        ns[SAVE] += spans->save_ns[r];
    }
    for (int i = 0; i < OTHER; i++)
        known += ns[i];
    ns[OTHER] = spans->n_ranks * spans->makespan_ns - known; /* streams may overlap */
    ns[OTHER] = ns[OTHER] > 0 ? ns[OTHER] : 0;
    for (int i = 0; i < N_PARTS; i++)
        json_object_set_new(parts, part_names[i],
                            cs_json_num((double)ns[i] / 1e6 / spans->n_ranks));
    cs_msg_set(msg, "parts", parts);
}

/* --- FLOPs ------------------------------------------------------------------------------------ */

/* of a layer in a slot that is filled to its budgets, once forward and for each gradient it makes */
static double layer_flops(const struct cs_graph *graph, const struct cs_layer *layer,
                          const struct cs_slot_budget *budget, double share, int64_t labels)
{
    const struct cs_layer_work work = cs_layer_work(graph, layer, budget);
    const double of_rows = (double)cs_layer_fwd_flops(graph, layer, work.tokens, work.pairs, 0),
                 of_labels = (double)cs_layer_fwd_flops(graph, layer, 0, 0, labels);
    return (share * of_rows + of_labels) * (1 + layer->needs_weight_grad + layer->needs_input_grad);
}

/* rows of the step over those of one slot's budget */
static double branch_share(const struct cs_runner *r, const struct cs_step_report *report,
                           const struct cs_branch *branch)
{
    const struct cs_slot_budget *budget = &r->generation.plan->budget;
    const int64_t rows =
        branch->encoder < 0 ? budget->seq_tokens : budget->enc[branch->encoder].rows;
    return rows > 0 ? (double)report->rows[branch->encoder + 1] / (double)rows : 0;
}

static double branch_flops(const struct cs_runner *r, const struct cs_step_report *report,
                           int32_t b)
{
    const struct cs_graph *graph = r->job.graph;
    const struct cs_branch *branch = &graph->branches[b];
    const double share = branch_share(r, report, branch);
    double sum = 0;
    for (int32_t l = 0; l < branch->n_layers; l++)
        sum += layer_flops(graph, &graph->layers[branch->first_layer + l],
                           &r->generation.plan->budget, share, report->trained_tokens);
    return sum;
}

/* time of computing for a branch, over all ranks, and how many ranks those were; spans lie rank by
 * rank */
static int64_t branch_busy_ns(const struct cs_plan *plan, const struct cs_span_step *spans,
                              int32_t branch, int32_t *ranks)
{
    int64_t busy_ns = 0;
    int32_t last = -1;
    *ranks = 0;
    for (int32_t i = 0; i < spans->n_spans; i++) {
        const struct cs_span *s = &spans->span[i];
        if (!s->key.is_compute || s->key.stage < 0 || s->key.stage >= plan->n_stages ||
            plan->stages[s->key.stage].branch != branch)
            continue;
        busy_ns += s->end_ns - s->start_ns;
        *ranks += s->rank != last;
        last = s->rank;
    }
    return busy_ns;
}

static void set_modules(const struct cs_runner *r, const struct cs_step_report *report,
                        const struct cs_span_step *spans, json_t *msg)
{
    const struct cs_plan *plan = r->generation.plan;
    const double could =
        (double)r->generation.cluster.device->flops * (double)spans->makespan_ns / 1e9;
    double all = 0;
    json_t *modules = json_object();
    for (int32_t b = 0; b < r->job.graph->n_branches; b++) {
        int32_t ranks;
        const int64_t busy_ns = branch_busy_ns(plan, spans, b, &ranks);
        const double flops = branch_flops(r, report, b);
        all += flops;
        if (ranks > 0 && could > 0)
            json_object_set_new(modules, r->job.graph->branches[b].name,
                                json_pack("{s:f,s:f}", "mfu", flops / (could * ranks), "busy",
                                          (double)busy_ns / ((double)spans->makespan_ns * ranks)));
    }
    cs_msg_set(msg, "modules", modules);
    if (could > 0 && spans->n_ranks > 0)
        cs_msg_set_num(msg, "mfu", all / (could * spans->n_ranks));
}

void cs_parts_set(const struct cs_runner *r, const struct cs_step_report *report,
                  const struct cs_span_step *spans, json_t *msg)
{
    if (spans->n_ranks < 1 || spans->makespan_ns <= 0)
        return;
    set_parts(spans, msg);
    if (report->rows[0] > 0)
        set_modules(r, report, spans, msg);
}

/* Edges of a trial: who sends to whom, what a message takes, and what stages do to put its rows together, as in a plan
 * of the same layout (core/plan/cost/links/edges.h). */
#include "core/plan/context.h"
#include "core/plan/cost/basis/round.h"
#include "core/plan/cost/links/edges.h"
#include "core/search/trial.h"

static const struct cs_search_feed *feeds_of(const struct cs_trial *t, int32_t b, int32_t *n,
                                             struct cs_search_feed *whole)
{
    const struct cs_search_branch *branch = &t->problem->branch[b];
    *whole = (struct cs_search_feed){branch->n_layers - 1, 0};
    *n = branch->n_feeds > 0 ? branch->n_feeds : 1;
    return branch->n_feeds > 0 ? branch->feed : whole;
}

/* where the branch whose ranks it has is */
static int32_t host_of(const struct cs_trial *t, int32_t b)
{
    return t->c->place[b] == CS_PLACE_OWN ? b : t->llm;
}

static struct cs_edge_side side_of(const struct cs_trial *t, int32_t b)
{
    return (struct cs_edge_side){cs_trial_parts(t, b), t->option[b]->tp};
}

/* ranks of a stage */
static int32_t width_of(const struct cs_trial *t, int32_t b)
{
    return cs_trial_lanes(t, b) * t->option[b]->tp * t->option[b]->cp;
}

/* of its ranks the first, as plans number them */
static int32_t first_rank(const struct cs_trial *t, int32_t stage)
{
    const struct cs_stage *s = &t->plan->stages[stage];
    const int32_t host = host_of(t, s->branch);
    int32_t base = 0;
    for (int32_t b = 0; b < host; b++)
        if (t->c->place[b] == CS_PLACE_OWN)
            base += t->c->pp[b] * width_of(t, b);
    return base + (s->rank - t->first_rank[host]) * width_of(t, host);
}

static bool leaves_node(const struct cs_trial *t, int32_t from, int32_t to)
{
    const int32_t node = t->problem->ranks_per_node;
    return first_rank(t, from) / node != first_rank(t, to) / node;
}

/* An encoder's rank has room for the items of several slots. */
int64_t cs_trial_edge_bytes(const struct cs_trial *t, int32_t b, int32_t layer, bool is_feed)
{
    const struct cs_search_branch *branch = &t->problem->branch[b];
    const struct cs_search_cut_rows *behind = branch->behind ? &branch->behind[layer] : NULL;
    const int64_t all = is_feed ? branch->out_bytes : behind ? behind->bytes : branch->inner_bytes;
    if (b != t->llm)
        return all * cs_trial_item_slots(t, b);
    return cs_context_part(all, (int32_t)branch->rows, t->option[b]->cp, cs_trial_rows_each(t)) +
           (behind ? behind->load_bytes : 0);
}

/* of stages that follow each other, behind a layer */
static void take_parts(const struct cs_trial *t, int32_t b, int32_t layer,
                       struct cs_edge_ends *ends)
{
    const struct cs_search_branch *branch = &t->problem->branch[b];
    if (branch->behind == NULL || branch->behind[layer].is_read_whole)
        return;
    ends->takes_part[CS_FLOW_ROWS] = t->layer[b][layer + 1].reads_own_rows;
    ends->takes_part[CS_FLOW_GRADIENTS] = t->layer[b][layer].reads_own_rows;
}

struct ends {
    struct cs_edge_ends of;
    struct cs_edge_links links;
    int64_t bytes;
};

/* of what leaves a layer of b */
static struct ends ends_of(const struct cs_trial *t, int32_t b, int32_t to, int32_t layer,
                           bool is_same, bool leaves, bool has_grad)
{
    const struct cs_device_class device = cs_search_device(t->problem);
    struct ends x = {
        .of = {.from = side_of(t, b),
               .to = side_of(t, to),
               .is_on_same_ranks = is_same,
               .is_feed = to != b,
               .has_grad = has_grad},
        .links = cs_edge_links(&device, leaves),
        .bytes = cs_trial_edge_bytes(t, b, layer, to != b)
    };
    if (to == b)
        take_parts(t, b, layer, &x.of);
    cs_ends_choose(&x.of, x.bytes, &x.links, t->problem->stripes ? t->problem->stripes : "auto");
    return x;
}

/* What is added to the times of a stage is its branch's. */
static void charge(struct cs_trial *t, const struct ends *x, int32_t from, int32_t to)
{
    struct cs_stage *stage[] = {&t->plan->stages[from], &t->plan->stages[to]};
    const struct cs_stage before[] = {*stage[0], *stage[1]};
    cs_ends_times(&x->of, x->bytes, &x->links, stage[0], stage[1]);
    for (int i = 0; i < 2; i++) {
        struct cs_trial_part *part = cs_trial_part_of(t, stage[i]->id, stage[i]->branch);
        part->fwd_ns += stage[i]->fwd_ns - before[i].fwd_ns;
        part->bwd_input_ns += stage[i]->bwd_input_ns - before[i].bwd_input_ns;
        part->bwd_weight_ns += stage[i]->bwd_weight_ns - before[i].bwd_weight_ns;
    }
}

static void add_edge(struct cs_trial *t, int32_t from, int32_t to, int32_t layer, bool has_grad)
{
    struct cs_plan *plan = t->plan;
    struct cs_stage *sender = &plan->stages[from], *receiver = &plan->stages[to];
    const int32_t id = plan->n_edges++;
    has_grad = has_grad && sender->has_backward && receiver->has_backward;
    plan->edges[id] =
        (struct cs_edge){.id = id, .feed = -1, .from = from, .to = to, .has_grad = has_grad};
    receiver->needs_input_grad = receiver->needs_input_grad || has_grad;
    t->behind[id] = layer;
}

/* the stage of a branch that has a layer */
static int32_t stage_with(const struct cs_trial *t, int32_t b, int32_t layer)
{
    int32_t s = 0;
    while (s + 1 < cs_trial_stages(t, b) && layer >= t->found->sizes[b][s])
        layer -= t->found->sizes[b][s++];
    return t->first_stage[b] + s;
}

/* Copies of an encoder on the ranks of the LLM feed it each. */
static void add_feeds(struct cs_trial *t, int32_t b)
{
    struct cs_search_feed whole;
    int32_t n;
    const struct cs_search_feed *feed = feeds_of(t, b, &n, &whole);
    for (int32_t f = 0; f < n; f++) {
        const int32_t layer = feed[f].from_layer, to = stage_with(t, t->llm, feed[f].to_layer);
        const bool has_grad = t->problem->branch[b].n_feeds == 0 || t->trains[b][layer + 1];
        if (t->c->place[b] == CS_PLACE_OWN)
            add_edge(t, stage_with(t, b, layer), to, layer, has_grad);
        for (int32_t r = 0; t->c->place[b] == CS_PLACE_COLOCATED && r < t->c->pp[t->llm]; r++)
            add_edge(t, t->first_stage[b] + r, to, layer, has_grad);
    }
}

/* of an encoder in every stage, which trains */
static void need_gradients(struct cs_trial *t)
{
    for (int32_t s = 0; s < t->plan->n_stages; s++)
        if (t->plan->stages[s].branch == t->llm)
            t->plan->stages[s].needs_input_grad = true;
}

/* A whole encoder in every stage: its rows stay on their ranks, of which each may need those of others. */
static void charge_replicated(struct cs_trial *t, int32_t b)
{
    struct cs_search_feed whole;
    int32_t n;
    const struct cs_search_feed *feed = feeds_of(t, b, &n, &whole);
    for (int32_t f = 0; f < n; f++)
        for (int32_t r = 0; r < t->c->pp[t->llm]; r++) {
            const int32_t layer = feed[f].from_layer, stage = t->first_stage[t->llm] + r;
            const struct ends x =
                ends_of(t, b, t->llm, layer, true, false, t->trains[b][layer + 1]);
            struct cs_stage encoder = {.fwd_ns = 0}, llm = encoder;
            struct cs_trial_part *part = cs_trial_part_of(t, stage, b);
            cs_ends_times(&x.of, x.bytes, &x.links, &encoder, &llm);
            part->fwd_ns += encoder.fwd_ns;
            part->bwd_weight_ns += encoder.bwd_weight_ns;
            t->plan->stages[stage].fwd_ns += encoder.fwd_ns;
            t->plan->stages[stage].bwd_weight_ns += encoder.bwd_weight_ns;
        }
}

static void time_edge(struct cs_trial *t, const struct cs_edge *edge)
{
    const int32_t b = t->plan->stages[edge->from].branch, to = t->plan->stages[edge->to].branch;
    const bool is_same = t->plan->stages[edge->from].rank == t->plan->stages[edge->to].rank;
    const struct ends x = ends_of(t, b, to, t->behind[edge->id], is_same,
                                  leaves_node(t, edge->from, edge->to), edge->has_grad);
    for (int f = 0; f < CS_FLOWS; f++) {
        t->hop[CS_FLOWS * edge->id + f] =
            cs_ends_cost(&x.of, (enum cs_edge_flow)f, x.bytes, &x.links).ns;
        t->is_striped[CS_FLOWS * edge->id + f] = x.of.is_striped[f];
    }
    charge(t, &x, edge->from, edge->to);
}

int32_t cs_trial_most_edges(const struct cs_trial *t)
{
    int32_t n = 0;
    for (int32_t b = 0; b <= t->llm; b++) {
        const int32_t feeds = t->problem->branch[b].n_feeds > 0 ? t->problem->branch[b].n_feeds : 1;
        n += cs_trial_stages(t, b);
        n += t->c->place[b] == CS_PLACE_COLOCATED ? feeds * t->c->pp[t->llm] : feeds;
    }
    return n;
}

void cs_trial_add_edges(struct cs_trial *t)
{
    for (int32_t b = 0; b <= t->llm; b++) {
        const int32_t first = t->first_stage[b], n = cs_trial_stages(t, b);
        int32_t end = 0;
        for (int32_t s = 0; s + 1 < n; s++) {
            end += t->found->sizes[b][s];
            add_edge(t, first + s, first + s + 1, end - 1, true);
        }
        if (b != t->llm && t->c->place[b] != CS_PLACE_REPLICATED)
            add_feeds(t, b);
        else if (b != t->llm && t->trains[b][t->problem->branch[b].n_layers])
            need_gradients(t);
    }
}

void cs_trial_time_edges(struct cs_trial *t)
{
    for (int32_t e = 0; e < t->plan->n_edges; e++)
        time_edge(t, &t->plan->edges[e]);
    for (int32_t b = 0; b < t->llm; b++)
        if (t->c->place[b] == CS_PLACE_REPLICATED)
            charge_replicated(t, b);
}

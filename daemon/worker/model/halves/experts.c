/* A mixture of experts as the ffn of a block: y = sum over a row's experts of weight down(act(gate h)
 * up h). Rows are copied to the places of their pairs, sorted by expert (kernels/experts.h), go
 * through two products by expert, and are summed back in the order of their ranks: nothing is
 * dropped, and the bits do not depend on how rows are spread. A pair's weight is applied before its
 * second product, so that the backward needs no output of an expert.
 *
 * Gate and up of an expert lie side by side, and all experts of a layer behind one another. Where
 * ranks share the experts a rank runs those that are here on the rows of all of them
 * (worker/layer/spread.h); what a row chooses, and its sum, stay with the row.
 *
 * For the balancing loss (worker/layer/loads.h) the forward counts the rows that are here. */
#include "worker/layer/loads.h"
#include "worker/layer/sequence.h"
#include "worker/layer/spread.h"
#include "worker/layer/tensors.h"
#include "worker/model/halves/halves.h"

_Static_assert((int)CS_EXPERTS_MAX == (int)CS_MOE_MAX_EXPERTS, "experts of a layer");

struct dims {
    int64_t width, inner, experts; /* columns; experts of the layer, wherever they are */
    int32_t top_k;
};

static struct dims dims_of(const struct cs_layer_model *l)
{
    const struct cs_experts *e = &l->arch->experts;
    return (struct dims){
        .width = l->arch->width, .inner = e->width, .experts = e->n, .top_k = e->top_k};
}

static struct cs_moe_shape shape_of(const struct cs_run *run, const struct cs_layer_model *l,
                                    int64_t rows)
{
    const struct cs_experts *e = &l->arch->experts;
    return (struct cs_moe_shape){.experts = e->n,
                                 .top_k = e->top_k,
                                 .is_normed = e->is_normed,
                                 .counted = cs_loads_rows(run, l, rows)};
}

static void *ints(struct cs_scratch *memory, int64_t n)
{
    return cs_scratch_take(memory, (size_t)n * sizeof(int32_t));
}

static struct cs_moe_routes take_routes(struct cs_run *run, const struct dims *d, int64_t places,
                                        struct cs_scratch *first)
{
    return (struct cs_moe_routes){
        .expert = ints(run->scratch, places),
        .place = ints(run->scratch, places),
        .token = ints(run->scratch, places),
        .first = ints(first, d->experts + 1),
        .weight = cs_scratch_floats(run->scratch, places),
    };
}

/* The routes of all rows, made from kept->logits, and where their pairs go. first: memory of the array
 * that says where an expert's rows begin, which the weight half of a split backward reads too. */
static struct cs_moe_routes route(struct cs_run *run, const struct cs_layer_model *l,
                                  const struct cs_kept *kept, struct cs_scratch *first,
                                  struct cs_spread *spread)
{
    const struct dims d = dims_of(l);
    const struct cs_moe_shape shape = shape_of(run, l, spread->own_rows);
    const void *logits = cs_spread_rows(spread, d.experts, kept->logits);
    const struct cs_moe_routes routes =
        take_routes(run, &d, spread->places, cs_spread_moves(spread) ? run->scratch : first);
    if (spread->rows > 0)
        run->ops->moe_route(run->ctx, &shape, spread->rows, logits, &routes);
    cs_spread_open(spread, l, &routes, first);
    return routes;
}

/* Those of the own rows, for gradients of the router and loads, as far as these read them. */
static struct cs_moe_routes own_routes(const struct cs_spread *s,
                                       const struct cs_moe_routes *routes, int32_t top_k)
{
    struct cs_moe_routes own = *routes;
    own.expert += s->own_at * top_k;
    own.place += s->own_at * top_k;
    return own;
}

/* rows by expert, as the products of this rank's experts take them */
static struct cs_moe_groups groups_of(const struct cs_spread *s)
{
    return (struct cs_moe_groups){s->first, s->experts, s->come};
}

/* (places, width) rows of those that come (width) */
static void to_places(const struct cs_spread *s, const struct dims *d,
                      const struct cs_moe_routes *routes, const struct cs_spread_gather *come,
                      void *y)
{
    const void *rows = cs_spread_finish_rows(come);
    if (s->places > 0)
        s->run->ops->gather_rows(s->run->ctx, s->places, d->width, routes->token, rows, y);
}

/* The way of x (rows, width) to the experts; what is there is held for weight gradients that come
 * later. */
static struct cs_travel held_way(struct cs_run *run, const struct dims *d,
                                 const struct cs_spread *s)
{
    void *here = cs_run_hold(run, s->come * d->width);
    void *out = cs_spread_moves(s) ? cs_run_take(run, s->places * d->width) : here;
    return cs_spread_travel(s, d->width, out, here);
}

/* a (come, inner) from kept->up */
static void activate(struct cs_run *run, const struct cs_layer_model *l, const struct dims *d,
                     const struct cs_spread *s, const struct cs_kept *kept, void *a)
{
    run->ops->gated(run->ctx, (enum cs_act)l->arch->act, s->come, d->inner, kept->up,
                    cs_run_at(run, kept->up, d->inner), 2 * d->inner, a);
}

/* y (own rows) = the sum of what comes back of a row's experts, of all ranks' parts, `more` (rows) that
 * this rank adds to its part, and the residual of worker/layer/sequence.h */
static void sum_back(struct cs_run *run, int64_t rows, const struct dims *d,
                     const struct cs_spread *s, const struct cs_moe_routes *routes,
                     const struct cs_travel *x, const void *more, const void *residual, void *y)
{
    cs_spread_back(s, x, 1);
    void *own = rows > 0 ? cs_sequence_part(run, rows, d->width, y) : NULL;
    void *part = cs_spread_part(s, d->width, own);
    if (s->rows > 0)
        run->ops->sum_rows(run->ctx, s->rows, d->top_k, d->width, routes->place, x->out,
                           s->gathers ? NULL : more, part);
    cs_spread_sum(s, d->width, part, more, own);
    if (rows > 0)
        cs_sequence_sum(run, rows, d->width, own, residual, y);
}

/* what the layer adds to the loads of the slot; once, not where the forward is made again */
static void count_loads(struct cs_run *run, const struct cs_layer_model *l, int64_t rows,
                        const void *logits, const struct cs_moe_routes *routes)
{
    const struct cs_moe_shape shape = shape_of(run, l, rows);
    if (run->load != NULL && rows > 0 && !run->is_again)
        run->ops->moe_load(run->ctx, &shape, rows, logits, routes, run->load);
}

static void experts_fwd(struct cs_run *run, const struct cs_layer_model *l, int64_t rows,
                        const void *h, const void *residual, void *y, struct cs_kept *kept)
{
    const struct dims d = dims_of(l);
    struct cs_spread s;
    h = cs_sequence_whole(run, rows, d.width, h);
    cs_spread_begin(run, l, rows, &s);
    const struct cs_spread_gather come = cs_spread_start_rows(&s, d.width, h);
    kept->logits = cs_run_keep(run, l, CS_KEEP_LOGITS, rows);
    if (rows > 0)
        cs_run_linear(run, rows, d.width, d.experts, h, cs_weight(l, CS_PARAM_ROUTER_W), NULL,
                      kept->logits);
    const struct cs_moe_routes routes = route(run, l, kept, run->scratch, &s);
    const struct cs_moe_groups groups = groups_of(&s);
    const struct cs_moe_routes own = own_routes(&s, &routes, d.top_k);
    count_loads(run, l, rows, kept->logits, &own);
    kept->up = cs_run_keep_pairs(run, l, CS_KEEP_UP, s.come);
    kept->a = cs_run_keep_pairs(run, l, CS_KEEP_A, s.come);
    void *places = cs_run_take(run, s.places * d.width);
    to_places(&s, &d, &routes, &come, places);
    const struct cs_travel way[] = {cs_spread_travel(&s, d.width, places, NULL),
                                    cs_spread_travel(&s, 1, routes.weight, NULL)};
    cs_spread_go(&s, way, 2);
    cs_spread_clear(&s, 2 * d.inner, kept->up);
    run->ops->moe_linear(run->ctx, &groups, d.width, 2 * d.inner, way[0].here,
                         cs_weight(l, CS_PARAM_EXPERT_GATE_W)->w, kept->up);
    activate(run, l, &d, &s, kept, kept->a);
    run->ops->scale_rows(run->ctx, s.come, d.inner, kept->a, way[1].here, kept->a);
    if (!run->is_again) { /* x is not read again */
        cs_spread_clear(&s, d.width, way[0].here);
        run->ops->moe_linear(run->ctx, &groups, d.inner, d.width, kept->a,
                             cs_weight(l, CS_PARAM_EXPERT_DOWN_W)->w, way[0].here);
        sum_back(run, rows, &d, &s, &routes, &way[0], cs_sequence_residual(run, residual), residual,
                 y);
    }
    if (run->keep != NULL && !cs_run_keeps(run, l, CS_KEEP_A))
        kept->a = NULL; /* it was scratch */
}

/* dup (come, 2 inner) and dweight (places) from dy, and the gradient of the second product */
static void down_bwd(struct cs_run *run, const struct cs_layer_model *l, const struct dims *d,
                     const struct cs_spread *s, const struct cs_moe_routes *routes,
                     const struct cs_spread_gather *dy, void *dup, float *dweight,
                     const struct cs_kept *kept)
{
    const struct cs_moe_groups groups = groups_of(s);
    const struct cs_shard *w = cs_weight(l, CS_PARAM_EXPERT_DOWN_W);
    const bool is_made = kept->a == NULL && l->layer->needs_weight_grad;
    void *made = is_made ? cs_run_hold(run, s->come * d->inner) : NULL;
    const struct cs_travel way[] = {held_way(run, d, s),
                                    cs_spread_travel(s, 1, routes->weight, NULL)};
    const struct cs_travel back = cs_spread_travel(s, 1, dweight, NULL);
    const float *weight = way[1].here;
    void *dout = way[0].here;
    to_places(s, d, routes, dy, way[0].out);
    cs_spread_go(s, way, 2);
    void *plain = cs_run_take(run, s->come * d->inner), *da = cs_run_take(run, s->come * d->inner);
    activate(run, l, d, s, kept, plain);
    if (is_made)
        run->ops->scale_rows(run->ctx, s->come, d->inner, plain, weight, made);
    cs_run_moe_wgrad(run, &groups, d->inner, d->width, dout, is_made ? made : kept->a, w);
    cs_spread_clear(s, d->inner, da);
    run->ops->moe_linear_dgrad(run->ctx, &groups, d->inner, d->width, dout, w->w, da);
    run->ops->scale_rows_grad(run->ctx, s->come, d->inner, plain, weight, da, da, back.here);
    run->ops->gated_grad(run->ctx, (enum cs_act)l->arch->act, s->come, d->inner, kept->up,
                         cs_run_at(run, kept->up, d->inner), 2 * d->inner, da, dup,
                         cs_run_at(run, dup, d->inner), 2 * d->inner);
    cs_spread_back(s, &back, 1);
    cs_spread_join(s, dweight);
}

/* dlogits (rows, experts) from the gradients of the pairs' weights, with the router's own gradient */
static void router_bwd(struct cs_run *run, const struct cs_layer_model *l, int64_t rows,
                       const struct cs_moe_routes *routes, const float *dweight, void *dlogits,
                       const struct cs_kept *kept)
{
    const struct cs_moe_shape shape = shape_of(run, l, rows);
    run->ops->moe_route_grad(run->ctx, &shape, rows, kept->logits, routes, dweight,
                             cs_loads_balance(run, l), run->load, dlogits);
}

/* dh from the gradients of the first product and of the router. x: memory for the former; it is held in
 * a split backward. */
static void input_bwd(struct cs_run *run, const struct cs_layer_model *l, int64_t rows,
                      const struct cs_spread *s, const struct cs_moe_routes *routes,
                      const struct cs_travel *x, const void *dup, const void *dlogits, void *dh)
{
    const struct dims d = dims_of(l);
    const struct cs_moe_groups groups = groups_of(s);
    struct cs_travel dx = *x;
    void *of_router = cs_run_take(run, rows * d.width);
    if (run->later != NULL)
        dx.here = cs_run_take(run, s->come * d.width);
    if (!cs_spread_moves(s))
        dx.out = dx.here;
    if (rows > 0)
        cs_run_linear_dgrad(run, rows, d.width, d.experts, dlogits, cs_weight(l, CS_PARAM_ROUTER_W),
                            of_router);
    cs_spread_clear(s, d.width, dx.here);
    run->ops->moe_linear_dgrad(run->ctx, &groups, d.width, 2 * d.inner, dup,
                               cs_weight(l, CS_PARAM_EXPERT_GATE_W)->w, dx.here);
    sum_back(run, rows, &d, s, routes, &dx, cs_tensors_is_first(run) ? of_router : NULL, NULL, dh);
}

/* Where ranks share the experts all of them come as often, whatever rows they have. */
static void experts_bwd(struct cs_run *run, const struct cs_layer_model *l, int64_t rows,
                        const void *dy, void *dh, const struct cs_kept *kept)
{
    const struct dims d = dims_of(l);
    const struct cs_shard *up_w = cs_weight(l, CS_PARAM_EXPERT_GATE_W),
                          *router_w = cs_weight(l, CS_PARAM_ROUTER_W);
    struct cs_spread s;
    dy = cs_sequence_whole(run, rows, d.width, dy);
    cs_spread_begin(run, l, rows, &s);
    const struct cs_spread_gather of_dy = cs_spread_start_rows(&s, d.width, dy);
    const struct cs_moe_routes routes =
        route(run, l, kept, run->later != NULL ? run->later->held : run->scratch, &s);
    const struct cs_moe_groups groups = groups_of(&s);
    const void *h = NULL; /* on its way while the second product is gone through */
    if (rows > 0)
        h = cs_sequence_whole(run, rows, d.width, cs_half_input(run, l, rows, CS_HALF_FFN, kept));
    const bool trains = up_w->grad != NULL;
    const struct cs_spread_gather of_h =
        trains ? cs_spread_start_rows(&s, d.width, h) : (struct cs_spread_gather){.rows = NULL};
    /* what is kept until the weight half is kept once: the gradient takes the place of its input */
    void *dup = run->later != NULL ? kept->up : cs_run_take(run, s.come * 2 * d.inner);
    void *dlogits = cs_run_hold(run, rows * d.experts);
    float *dweight = cs_scratch_floats(run->scratch, s.places);
    const struct cs_scratch_mark mark = cs_scratch_mark(run->scratch);
    down_bwd(run, l, &d, &s, &routes, &of_dy, dup, dweight, kept);
    cs_scratch_rewind(run->scratch, mark);
    cs_tensors_sum_floats(run, s.places, dweight); /* of columns of every rank */
    if (rows > 0) {
        const struct cs_moe_routes own = own_routes(&s, &routes, d.top_k);
        router_bwd(run, l, rows, &own, dweight, dlogits, kept);
        cs_run_linear_wgrad(run, rows, d.width, d.experts, dlogits, h, router_w, NULL);
    }
    const struct cs_travel x = held_way(run, &d, &s);
    if (trains) {
        to_places(&s, &d, &routes, &of_h, x.out);
        cs_spread_go(&s, &x, 1);
        cs_run_moe_wgrad(run, &groups, d.width, 2 * d.inner, dup, x.here, up_w);
    }
    if (dh == NULL && s.ranks == NULL)
        return;
    input_bwd(run, l, rows, &s, &routes, &x, dup, dlogits, dh);
}

const struct cs_half_ops cs_ffn_experts = {.fwd = experts_fwd, .bwd = experts_bwd};

/* Finds pieces of compute actions that repeat, has them captured as graphs of the device, and
 * launches those instead of their calls. */
#include "worker/exec/state/graphs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/system/clock.h"
#include "core/base/system/environment.h"
#include "worker/device/tape.h"
#include "worker/exec/state/graph_cache.h"

enum { LEAST_CALLS = 4 /* AUTO: a graph of fewer saves nothing */ };

/* Up to `end` calls follow each other; then `what` is called, NULL: nobody. */
struct piece {
    struct cs_tape_mark end;
    void (*what)(void *user, int32_t number);
    void *user;
    int32_t number;
};

/* A piece that is to be captured; the tape it lies on is in graphs->later. */
struct put_off {
    int32_t entry;
    uint64_t number;
    struct cs_tape_mark from, to;
};

/* A piece of this step that ran without a graph: does its action pay? */
struct question {
    uint32_t action;
    int32_t entry;
    uint64_t number;
    int64_t host_ns; /* of the action */
};

struct cs_graphs {
    struct cs_device *device;
    const struct cs_graph *graph;
    enum cs_graphs_mode mode;
    struct cs_tape tape, later;
    struct put_off put_off[CS_GRAPHS_MAX_NEW];
    int n_put_off;
    struct cs_watch watch;        /* what stages see */
    const struct cs_watch *inner; /* who really watches, NULL: nobody */

    struct piece *piece;
    uint32_t n_pieces, piece_room;
    bool was_ragged;

    struct question *question;
    uint32_t n_questions, question_room;

    struct cs_graph_cache cache;
    bool has_said;
    struct cs_graphs_counts counts;
};

enum cs_graphs_mode cs_graphs_mode_wanted(void)
{
    return cs_variable_is(CS_VAR_GRAPHS, "always") ? CS_GRAPHS_ALWAYS
           : cs_variable_is(CS_VAR_GRAPHS, "off")  ? CS_GRAPHS_OFF
                                                   : CS_GRAPHS_AUTO;
}

enum cs_status cs_graphs_new(struct cs_device *device, const struct cs_graph *graph,
                             enum cs_graphs_mode mode, struct cs_graphs **out, struct cs_err *err)
{
    *out = NULL;
    if (device->mem == NULL || mode == CS_GRAPHS_OFF)
        return CS_OK;
    struct cs_graphs *g = calloc(1, sizeof *g);
    if (g == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory for the graphs of actions");
    g->device = device;
    g->graph = graph;
    g->mode = mode;
    cs_graph_cache_open(&g->cache, device);
    cs_tape_open(&g->tape, device);
    cs_tape_open(&g->later, device);
    *out = g;
    return CS_OK;
}

/* room for one more of what an array holds */
static void *one_more(void *array, uint32_t n, uint32_t *room, size_t size)
{
    if (n < *room)
        return array;
    *room = *room > 0 ? 2 * *room : 64;
    void *grown = realloc(array, *room * size);
    CS_ASSERT(grown != NULL);
    return grown;
}

void cs_graphs_free(struct cs_graphs *graphs)
{
    if (graphs == NULL)
        return;
    cs_graph_cache_drop_all(&graphs->cache);
    cs_graph_cache_bury(&graphs->cache);
    cs_tape_close(&graphs->tape);
    cs_tape_close(&graphs->later);
    free(graphs->piece);
    free(graphs->question);
    free(graphs);
}

/* ---- writing ---- */

static void cut(struct cs_graphs *g, void (*what)(void *user, int32_t number), void *user,
                int32_t number)
{
    g->piece = one_more(g->piece, g->n_pieces, &g->piece_room, sizeof *g->piece);
    g->piece[g->n_pieces++] = (struct piece){cs_tape_mark(&g->tape), what, user, number};
}

/* Numbers of rows that no bucket covers, or one of their own: encoder rows that fill the LLM's, labels, rows that are
 * picked by them. */
static bool is_ragged(const struct cs_graphs *g, int32_t layer)
{
    const struct cs_layer *l = &g->graph->layers[layer];
    return l->kind == CS_LAYER_HEAD || cs_layer_feeds_head(g->graph, l) ||
           (l->kind == CS_LAYER_EMBED && g->graph->modules[l->module].kind == CS_MODULE_LLM);
}

static void at_layer(void *user, int32_t layer)
{
    struct cs_graphs *g = user;
    const bool ragged = is_ragged(g, layer);
    if (ragged || g->was_ragged)
        cut(g, NULL, NULL, layer);
    g->was_ragged = ragged;
}

static void before_layer(void *user, int32_t layer)
{
    struct cs_graphs *g = user;
    cut(g, g->inner->before, g->inner->user, layer);
}

static void back_layer(void *user, int32_t layer)
{
    struct cs_graphs *g = user;
    cut(g, g->inner->back, g->inner->user, layer);
}

static void made_layer(void *user, int32_t layer)
{
    struct cs_graphs *g = user;
    cut(g, g->inner->made, g->inner->user, layer);
}

static void half_layer(void *user, int32_t layer)
{
    struct cs_graphs *g = user;
    cut(g, g->inner->half, g->inner->user, layer);
}

static void weigh_layer(void *user, int32_t layer)
{
    struct cs_graphs *g = user;
    cut(g, g->inner->weigh, g->inner->user, layer);
}

static void after_layer(void *user, int32_t layer)
{
    struct cs_graphs *g = user;
    cut(g, g->inner->done, g->inner->user, layer);
}

static void call_between(void *user, void (*what)(void *whom, int32_t number), void *whom,
                         int32_t number)
{
    cut(user, what, whom, number);
}

void cs_graphs_open(struct cs_graphs *graphs, struct cs_run *run)
{
    struct cs_graphs *g = graphs;
    if (g == NULL)
        return;
    cs_tape_clear(&g->tape);
    g->n_pieces = 0;
    g->was_ragged = false;
    g->inner = run->watch;
    g->watch = (struct cs_watch){
        .before = g->inner != NULL && g->inner->before != NULL ? before_layer : NULL,
        .made = g->inner != NULL && g->inner->made != NULL ? made_layer : NULL,
        .back = g->inner != NULL && g->inner->back != NULL ? back_layer : NULL,
        .half = g->inner != NULL && g->inner->half != NULL ? half_layer : NULL,
        .weigh = g->inner != NULL && g->inner->weigh != NULL ? weigh_layer : NULL,
        .done = g->inner != NULL && g->inner->done != NULL ? after_layer : NULL,
        .at = at_layer,
        .call = call_between,
        .user = g,
    };
    run->watch = &g->watch;
    run->device = &g->tape.recorder;
    run->ops = &g->tape.ops;
    *run->ctx = cs_tape_ctx(&g->tape);
}

/* ---- enqueueing ---- */

static void say(struct cs_graphs *g, const struct cs_err *err)
{
    if (!g->has_said)
        fprintf(stderr,
                "cornstarch-worker: a graph of an action was not made (%s); such actions are "
                "enqueued call by call\n",
                err->text);
    g->has_said = true;
}

/* What failed while nothing ran has harmed nothing. */
static void capture(struct cs_graphs *g, struct cs_graph_entry *e, const struct put_off *p)
{
    struct cs_device *d = g->device;
    const struct cs_err before = d->error;
    struct cs_err err = {0};
    void *graph = NULL;
    if (!cs_graph_cache_make_room(&g->cache))
        return; /* several were put off for the room of one */
    enum cs_status status = d->mem->capture_begin(d->handle, d->stream, &err);
    if (status == CS_OK) {
        cs_tape_play(&g->later, p->from, p->to);
        status = d->mem->capture_end(d->handle, d->stream, &graph, &err);
        if (status == CS_OK && before.status == CS_OK && d->error.status != CS_OK) {
            err = d->error;
            status = err.status;
            d->mem->graph_destroy(d->handle, graph);
        }
        d->error = before;
    }
    if (status != CS_OK) {
        e->is_refused = true;
        g->counts.failures++;
        say(g, &err);
        return;
    }
    cs_graph_cache_keep(&g->cache, e, graph);
    g->counts.captures++;
}

void cs_graphs_begin(struct cs_graphs *graphs)
{
    struct cs_graphs *g = graphs;
    if (g == NULL)
        return;
    cs_graph_cache_bury(&g->cache);
    g->cache.step++;
    for (int i = 0; i < g->n_put_off; i++) {
        const struct put_off *p = &g->put_off[i];
        struct cs_graph_entry *e = &g->cache.entry[p->entry];
        if (e->number == p->number) {
            e->is_put_off = false;
            capture(g, e, p);
        }
    }
    g->n_put_off = 0;
    g->n_questions = 0;
    cs_tape_clear(&g->later);
}

void cs_graphs_moved(struct cs_graphs *graphs)
{
    struct cs_graphs *g = graphs;
    if (g == NULL)
        return;
    for (int32_t i = 0; i < g->cache.n_entries; i++)
        g->cache.entry[i].is_put_off = false;
    cs_graph_cache_drop_all(&g->cache);
    g->n_put_off = 0;
    cs_tape_clear(&g->later);
}

/* It runs without a graph once more. */
static void put_off(struct cs_graphs *g, struct cs_graph_entry *e, struct cs_tape_mark from,
                    struct cs_tape_mark to)
{
    if (g->n_put_off == CS_GRAPHS_MAX_NEW || !cs_graph_cache_has_room(&g->cache, g->n_put_off))
        return;
    struct put_off *p = &g->put_off[g->n_put_off++];
    *p = (struct put_off){.entry = (int32_t)(e - g->cache.entry),
                          .number = e->number,
                          .from = cs_tape_mark(&g->later)};
    cs_tape_append(&g->later, &g->tape, from, to);
    p->to = cs_tape_mark(&g->later);
    e->is_put_off = true;
}

static void launch(struct cs_graphs *g, struct cs_graph_entry *e, uint32_t n_calls)
{
    struct cs_device *d = g->device;
    struct cs_err err = {0};
    e->last_step = g->cache.step;
    if (d->mem->graph_launch(d->handle, e->graph, d->stream, &err) != CS_OK &&
        d->error.status == CS_OK)
        d->error = err;
    g->counts.replays++;
    g->counts.replayed_calls += n_calls;
}

static bool is_wanted(const struct cs_graphs *g, const struct cs_graph_entry *e)
{
    return !e->is_refused && !e->is_put_off && e->seen >= 2 &&
           (g->mode == CS_GRAPHS_ALWAYS || e->pays);
}

static void ask(struct cs_graphs *g, const struct cs_graph_entry *e, uint32_t action)
{
    if (g->mode != CS_GRAPHS_AUTO || e->is_refused || e->is_put_off || e->seen < 2)
        return;
    g->question = one_more(g->question, g->n_questions, &g->question_room, sizeof *g->question);
    g->question[g->n_questions++] = (struct question){
        .action = action, .entry = (int32_t)(e - g->cache.entry), .number = e->number};
}

static void enqueue(struct cs_graphs *g, struct cs_tape_mark from, struct cs_tape_mark to,
                    uint32_t action)
{
    const uint32_t n_calls = to.n_calls - from.n_calls;
    char key[33];
    if (n_calls == 0)
        return;
    g->counts.pieces++;
    g->counts.calls += n_calls;
    if (g->mode == CS_GRAPHS_AUTO && n_calls < LEAST_CALLS) {
        cs_tape_play(&g->tape, from, to);
        return;
    }
    cs_tape_hash(&g->tape, from, to, key);
    struct cs_graph_entry *e = cs_graph_cache_find(&g->cache, key);
    e->seen += e->seen < UINT32_MAX;
    g->counts.known += e->seen >= 2;
    if (e->graph != NULL) {
        launch(g, e, n_calls);
        return;
    }
    cs_tape_play(&g->tape, from, to);
    if (is_wanted(g, e))
        put_off(g, e, from, to);
    else
        ask(g, e, action);
}

void cs_graphs_close(struct cs_graphs *graphs, uint32_t action)
{
    struct cs_graphs *g = graphs;
    if (g == NULL)
        return;
    const uint32_t first = g->n_questions;
    const int64_t start = cs_now_ns();
    struct cs_tape_mark from = {0, 0};
    cut(g, NULL, NULL, 0);
    for (uint32_t i = 0; i < g->n_pieces; i++) {
        const struct piece *p = &g->piece[i];
        enqueue(g, from, p->end, action);
        from = p->end;
        if (p->what != NULL)
            p->what(p->user, p->number);
    }
    for (uint32_t i = first; i < g->n_questions; i++)
        g->question[i].host_ns = cs_now_ns() - start;
    cs_tape_clear(&g->tape);
    g->inner = NULL;
}

/* ---- where they pay ---- */

uint32_t cs_graphs_asks(const struct cs_graphs *graphs, uint32_t n)
{
    return graphs != NULL && n < graphs->n_questions ? graphs->question[n].action : UINT32_MAX;
}

void cs_graphs_tell(struct cs_graphs *graphs, uint32_t n, int64_t device_ns)
{
    const struct question *q = &graphs->question[n];
    struct cs_graph_entry *e = &graphs->cache.entry[q->entry];
    if (e->number == q->number)
        e->pays = 2 * q->host_ns > device_ns;
}

struct cs_graphs_counts cs_graphs_counts(const struct cs_graphs *graphs)
{
    struct cs_graphs_counts counts = {0};
    if (graphs == NULL)
        return counts;
    counts = graphs->counts;
    counts.dropped = graphs->cache.n_dropped;
    return counts;
}

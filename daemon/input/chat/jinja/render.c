/* Runs the statements of a template. */
#include <string.h>

#include "input/chat/jinja/tree.h"

enum { WORK_MAX = 200000 };

enum flow { FLOW_ON, FLOW_BREAK, FLOW_CONTINUE };

static enum cs_status run_list(struct jn_run *run, const struct jn *node, enum flow *flow);

static json_t *innermost(struct jn_run *run)
{
    return json_array_get(run->scopes, json_array_size(run->scopes) - 1);
}

static enum cs_status do_set(struct jn_run *run, const struct jn *node)
{
    json_t *value = NULL;

    CS_TRY(node->a != NULL ? jn_value(run, node->a, &value) : jn_capture(run, node->list, &value));
    if (value == NULL)
        value = json_null();
    if (node->name == NULL) {
        json_object_set_new(innermost(run), node->text, value);
        return CS_OK;
    }
    for (size_t i = json_array_size(run->scopes); i-- > 0;) {
        json_t *of = json_object_get(json_array_get(run->scopes, i), node->text);
        if (json_is_object(of)) {
            json_object_set_new(of, node->name, value);
            return CS_OK;
        }
    }
    json_decref(value);
    return cs_fail(run->err, CS_INVALID, "it sets \"%.60s\" of something undefined", node->name);
}

/* The variable of a loop, or its two. */
static enum cs_status bind(struct jn_run *run, const struct jn *node, json_t *item)
{
    json_t *scope = innermost(run);

    if (node->name == NULL) {
        json_object_set(scope, node->text, item);
        return CS_OK;
    }
    if (json_array_size(item) != 2)
        return cs_fail(run->err, CS_INVALID, "it takes apart what are no pairs");
    json_object_set(scope, node->text, json_array_get(item, 0));
    json_object_set(scope, node->name, json_array_get(item, 1));
    return CS_OK;
}

static json_t *loop_state(const json_t *items, size_t i)
{
    const size_t n = json_array_size(items);
    json_t *loop = json_pack("{s:I,s:I,s:I,s:I,s:b,s:b,s:I}", "index", (json_int_t)i + 1, "index0",
                             (json_int_t)i, "revindex", (json_int_t)(n - i), "revindex0",
                             (json_int_t)(n - i - 1), "first", i == 0, "last", i + 1 == n, "length",
                             (json_int_t)n);

    if (i > 0)
        json_object_set(loop, "previtem", json_array_get(items, i - 1));
    if (i + 1 < n)
        json_object_set(loop, "nextitem", json_array_get(items, i + 1));
    return loop;
}

static enum cs_status is_chosen(struct jn_run *run, const struct jn *node, json_t *item, bool *out)
{
    json_t *value = NULL;

    *out = true;
    if (node->b == NULL)
        return CS_OK;
    CS_TRY(bind(run, node, item));
    CS_TRY(jn_value(run, node->b, &value));
    *out = jn_is_true(value);
    json_decref(value);
    return CS_OK;
}

/* In a scope of its own, which the caller ends. */
static enum cs_status run_items(struct jn_run *run, const struct jn *node, const json_t *all,
                                json_t *items)
{
    enum flow flow = FLOW_ON;
    json_t *item = NULL;
    size_t i = 0;

    json_array_foreach(all, i, item)
    {
        bool is_in = false;
        CS_TRY(is_chosen(run, node, item, &is_in));
        if (is_in)
            json_array_append(items, item);
    }
    if (json_array_size(items) == 0)
        return run_list(run, node->other, &flow);
    for (i = 0; i < json_array_size(items) && flow != FLOW_BREAK; i++) {
        /* what a turn of the loop sets is gone in the next */
        json_object_clear(innermost(run));
        json_object_set_new(innermost(run), "loop", loop_state(items, i));
        CS_TRY(bind(run, node, json_array_get(items, i)));
        CS_TRY(run_list(run, node->list, &flow));
    }
    return CS_OK;
}

static enum cs_status do_for(struct jn_run *run, const struct jn *node)
{
    json_t *value = NULL, *all = NULL, *items = json_array();
    enum cs_status status = jn_value(run, node->a, &value);

    all = jn_items(value);
    if (status == CS_OK && value != NULL && all == NULL)
        status = cs_fail(run->err, CS_UNSUPPORTED, "it goes through what is no list");
    if (status == CS_OK) {
        json_array_append_new(run->scopes, json_object());
        status = run_items(run, node, all, items);
        json_array_remove(run->scopes, json_array_size(run->scopes) - 1);
    }
    json_decref(value);
    json_decref(all);
    json_decref(items);
    return status;
}

static enum cs_status do_macro(struct jn_run *run, const struct jn *node)
{
    if (run->n_macros == JN_MACROS_MAX)
        return cs_fail(run->err, CS_LIMIT, "it has more than %d macros", JN_MACROS_MAX);
    run->macros[run->n_macros++] = node;
    return CS_OK;
}

static enum cs_status do_if(struct jn_run *run, const struct jn *node, enum flow *flow)
{
    json_t *value = NULL;
    bool holds = false;

    CS_TRY(jn_value(run, node->a, &value));
    holds = jn_is_true(value);
    json_decref(value);
    return run_list(run, holds ? node->list : node->other, flow);
}

static enum cs_status do_print(struct jn_run *run, const struct jn *node)
{
    json_t *value = NULL;
    enum cs_status status = jn_value(run, node->a, &value);

    if (status == CS_OK)
        status = jn_print(value, run->out, run->err);
    json_decref(value);
    return status;
}

static enum cs_status run_one(struct jn_run *run, const struct jn *node, enum flow *flow)
{
    switch ((int)node->kind) {
    case JN_TEXT:
        if (node->n > 0)
            cs_buf_add(run->out, node->text, node->n);
        return CS_OK;
    case JN_PRINT:
        return do_print(run, node);
    case JN_IF:
        return do_if(run, node, flow);
    case JN_FOR:
        return do_for(run, node);
    case JN_SET:
        return do_set(run, node);
    case JN_MACRO:
        return do_macro(run, node);
    default:
        *flow = node->kind == JN_BREAK ? FLOW_BREAK : FLOW_CONTINUE;
        return CS_OK;
    }
}

static enum cs_status run_list(struct jn_run *run, const struct jn *node, enum flow *flow)
{
    *flow = FLOW_ON;
    for (; node != NULL && *flow == FLOW_ON; node = node->next) {
        if (--run->left < 0 || run->out->len > CS_JINJA_MAX_BYTES)
            return cs_fail(run->err, CS_LIMIT, "it does too much");
        CS_TRY(run_one(run, node, flow));
    }
    return CS_OK;
}

static enum cs_status run_body(struct jn_run *run, const struct jn *first)
{
    enum flow flow = FLOW_ON;

    return run_list(run, first, &flow);
}

enum cs_status cs_jinja_render(const struct cs_jinja *jinja, const json_t *variables,
                               struct cs_buf *out, struct cs_err *err)
{
    struct jn_run run = {
        .scopes = json_array(), .out = out, .err = err, .left = WORK_MAX, .body = run_body};
    enum flow flow = FLOW_ON;
    enum cs_status status = CS_OK;

    json_array_append_new(run.scopes, json_copy((json_t *)(uintptr_t)variables));
    json_array_append_new(run.scopes, json_object());
    status = run_list(&run, jinja->first, &flow);
    json_decref(run.scopes);
    if (status == CS_OK && strstr(cs_buf_str(out), JN_TODAY) != NULL)
        return cs_fail(err, CS_UNSUPPORTED, "it writes today's date");
    return status;
}

/* Screens as text, from a trace, a script or what a daemon said of its node. */
#include "console/screen/dump.h"

#include <stdio.h>
#include <string.h>

#include "console/screen/keys/keys.h"
#include "console/screen/screen.h"
#include "core/base/str.h"
#include "core/wire/wire.h"

enum { MAX_SIDE = 1000 };

static enum cs_status unknown_view(const char *name, struct cs_err *err)
{
    struct cs_buf names = {0};
    for (int v = 0; v < CS_VIEW_COUNT; v++)
        cs_buf_addf(&names, "%s%s", v ? ", " : "", cs_view_name((enum cs_view)v));
    enum cs_status status =
        cs_fail(err, CS_USAGE, "unknown view \"%s\"; there are %s", name, cs_buf_str(&names));
    cs_buf_free(&names);
    return status;
}

static bool is_side(int n)
{
    return n >= 1 && n <= MAX_SIDE;
}

enum cs_status cs_dump_size(const char *text, int *cols, int *rows, struct cs_err *err)
{
    char left[16] = "";
    const char *x = strchr(text, 'x');
    int64_t w = 0, h = 0;
    if (x && (size_t)(x - text) < sizeof left)
        memcpy(left, text, (size_t)(x - text));
    if (!x || !cs_str_to_i64(left, &w) || !cs_str_to_i64(x + 1, &h) || w < 1 || w > MAX_SIDE ||
        h < 1 || h > MAX_SIDE)
        return cs_fail(err, CS_USAGE,
                       "\"%s\" is no size; write COLUMNSxROWS with numbers from 1 to %d, as 100x30",
                       text, MAX_SIDE);
    *cols = (int)w;
    *rows = (int)h;
    return CS_OK;
}

/* The GPUs of a node as its daemon answered. */
static void show_node(struct cs_store *store, const json_t *node)
{
    cs_store_connected(store, true);
    cs_store_message(store, node);
}

/* The trace knows its steps, the daemon the rest. */
static void show_job(struct cs_store *store, const json_t *job)
{
    json_t *event = cs_msg_new("event.job");
    cs_msg_set(event, "job", json_deep_copy(job));
    cs_store_message(store, event);
    json_decref(event);
}

enum cs_status cs_dump_replay(const struct cs_dump *dump, struct cs_buf *out, struct cs_err *err)
{
    struct cs_screen screen;
    cs_screen_init(&screen, dump->glyphs);
    screen.view = dump->trace ? CS_VIEW_PIPELINE : CS_VIEW_PLAN;
    if (dump->view && !cs_view_find(dump->view, &screen.view))
        return unknown_view(dump->view, err);
    if (!is_side(dump->cols) || !is_side(dump->rows))
        return cs_fail(err, CS_USAGE, "a screen of %d x %d; sides go from 1 to %d", dump->cols,
                       dump->rows, MAX_SIDE);
    struct cs_store *store = dump->store ? dump->store : cs_store_new();
    if (!dump->store)
        store->here = dump->here;
    else if (store->found.plans)
        screen.plan_part = CS_PLAN_FOUND;
    enum cs_status status = dump->trace  ? cs_store_replay(store, dump->trace, err)
                            : dump->spec ? cs_store_script(store, dump->spec, err)
                                         : CS_OK;
    if (status == CS_OK && dump->job)
        show_job(store, dump->job);
    if (status == CS_OK && dump->node)
        show_node(store, dump->node);
    if (status == CS_OK && dump->keys)
        status = cs_screen_keys(&screen, store, dump->keys, err);
    if (status == CS_OK) {
        struct cs_canvas *canvas = cs_canvas_new(dump->cols, dump->rows);
        while (cs_screen_prepare(&screen, store))
            ;
        cs_screen_draw(store, &screen, canvas);
        if (dump->is_read)
            cs_view_read(store, &screen, out);
        else
            cs_canvas_text(canvas, out);
        cs_canvas_free(canvas);
    }
    cs_screen_free(&screen);
    if (!dump->store)
        cs_store_free(store);
    return status;
}

/* Walks the data set: positions go into the loader in keyed order, samples come out of it. */
#include "feeder/stream.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/units.h"
#include "core/data/sample_order.h"

struct place {
    uint64_t epoch, position;
};

struct cs_stream {
    struct cs_stream_config config;
    struct cs_loader *loader;
    uint64_t n;
    struct place next;  /* first position that has not come out */
    struct place ahead; /* first position that is not in the loader */
    uint64_t *carried;  /* of the cursor; they go first */
    size_t n_carried, carried_in, carried_out;
    uint64_t n_bad_in_row;
};

/* The order of samples goes on only in the file that it was made of. */
static enum cs_status check_same(const struct cs_stream *s, const json_t *data, struct cs_err *err)
{
    const json_int_t samples = json_integer_value(json_object_get(data, "samples"));
    const char *xxh3 = json_string_value(json_object_get(data, "xxh3"));
    const char *path = cs_source_path(s->config.source);
    struct cs_dataset_id id;

    cs_source_identity(s->config.source, &id);
    if (data == NULL || (xxh3 != NULL && strcmp(xxh3, id.xxh3) == 0))
        return CS_OK;
    return cs_fail(
        err, CS_INVALID,
        "%s has changed since the checkpoint: it had %lld sample%s then and has %llu now%s; "
        "put the old file back, or start a new job",
        path, (long long)samples, CS_PLURAL(samples), (unsigned long long)id.samples,
        (uint64_t)samples == id.samples ? ", of other content" : "");
}

static enum cs_status read_cursor(struct cs_stream *s, const json_t *cursor, struct cs_err *err)
{
    const json_t *epoch = json_object_get(cursor, "epoch");
    const json_t *position = json_object_get(cursor, "position");
    const json_t *carried = json_object_get(cursor, "carried"), *node = NULL;
    size_t i = 0;

    CS_TRY(check_same(s, json_object_get(cursor, "data"), err));
    if (!json_is_integer(epoch) || json_integer_value(epoch) < 0 || !json_is_integer(position) ||
        json_integer_value(position) < 0 || (uint64_t)json_integer_value(position) >= s->n)
        return cs_fail(err, CS_INVALID,
                       "the data cursor does not fit %s with %llu sample%s: was the file changed?",
                       cs_source_path(s->config.source), (unsigned long long)s->n, CS_PLURAL(s->n));
    s->next =
        (struct place){(uint64_t)json_integer_value(epoch), (uint64_t)json_integer_value(position)};
    s->carried = calloc(json_array_size(carried) + 1, sizeof *s->carried);
    if (s->carried == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory for a data cursor");
    json_array_foreach(carried, i, node)
    {
        if (!json_is_integer(node) || json_integer_value(node) < 0 ||
            (uint64_t)json_integer_value(node) >= s->n)
            return cs_fail(err, CS_INVALID, "the data cursor carries sample %lld of %llu",
                           (long long)json_integer_value(node), (unsigned long long)s->n);
        s->carried[s->n_carried++] = (uint64_t)json_integer_value(node);
    }
    return CS_OK;
}

enum cs_status cs_stream_open(const struct cs_stream_config *config, const json_t *cursor,
                              struct cs_stream **out, struct cs_err *err)
{
    struct cs_stream *s = calloc(1, sizeof *s);
    enum cs_status status = CS_OK;

    *out = NULL;
    if (s == NULL)
        return cs_fail(err, CS_NO_MEMORY, "no memory to read the data set");
    s->config = *config;
    s->n = cs_source_count(config->source);
    if (config->is_ordered && config->limit < s->n)
        s->n = config->limit;
    if (cursor != NULL && !json_is_null(cursor))
        status = read_cursor(s, cursor, err);
    s->ahead = s->next;
    if (status == CS_OK)
        status = cs_loader_new(config->source, config->n_threads, config->depth, config->bytes,
                               &s->loader, err);
    if (status != CS_OK) {
        cs_stream_close(s);
        return status;
    }
    *out = s;
    return CS_OK;
}

void cs_stream_close(struct cs_stream *s)
{
    if (s == NULL)
        return;
    cs_loader_free(s->loader);
    free(s->carried);
    free(s);
}

static void step(const struct cs_stream *s, struct place *p)
{
    if (++p->position == s->n && !s->config.is_ordered)
        *p = (struct place){p->epoch + 1, 0};
}

static bool is_at_end(const struct cs_stream *s, const struct place *p)
{
    return s->config.is_ordered && p->position >= s->n;
}

static void push_ahead(struct cs_stream *s)
{
    while (cs_loader_room(s->loader) > 0) {
        if (s->carried_in < s->n_carried) {
            cs_loader_push(s->loader, s->carried[s->carried_in++]);
            continue;
        }
        if (is_at_end(s, &s->ahead))
            return;
        cs_loader_push(s->loader, s->config.is_ordered
                                      ? s->ahead.position
                                      : cs_source_order(s->config.source, s->config.seed,
                                                        s->ahead.epoch, s->ahead.position));
        step(s, &s->ahead);
    }
}

enum cs_status cs_stream_next(struct cs_stream *s, struct cs_load *out, bool *has,
                              struct cs_err *err)
{
    *has = false;
    for (;;) {
        const char *why = NULL;
        enum cs_status status = CS_OK;
        push_ahead(s);
        if (s->carried_out == s->n_carried && is_at_end(s, &s->next))
            return CS_OK;
        cs_loader_pop(s->loader, out);
        if (s->carried_out < s->n_carried)
            s->carried_out++;
        else
            step(s, &s->next);
        if (out->status == CS_OK) {
            s->n_bad_in_row = 0;
            *has = true;
            return CS_OK;
        }
        why = out->reason != NULL ? out->reason : "no memory for a reason";
        status = out->status == CS_NO_MEMORY ? cs_fail(err, CS_NO_MEMORY, "%s", why)
                                             : s->config.bad(s->config.user, out, err);
        if (status == CS_OK && !s->config.is_ordered && ++s->n_bad_in_row >= s->n)
            status = cs_fail(err, CS_INVALID,
                             "%s: none of its %llu sample%s can be used; the last: "
                             "%s",
                             cs_source_path(s->config.source), (unsigned long long)s->n,
                             CS_PLURAL(s->n), why);
        cs_load_free(out);
        if (status != CS_OK)
            return status;
    }
}

json_t *cs_stream_cursor(const struct cs_stream *s, const struct cs_load *carried, int n_carried)
{
    json_t *list = json_array();
    struct cs_dataset_id id;

    for (int i = 0; i < n_carried; i++)
        json_array_append_new(list, json_integer((json_int_t)carried[i].index));
    for (size_t i = s->carried_out; i < s->n_carried; i++) /* not come out yet */
        json_array_append_new(list, json_integer((json_int_t)s->carried[i]));
    cs_source_identity(s->config.source, &id);
    return json_pack("{s:I,s:I,s:o,s:{s:I,s:s}}", "epoch", (json_int_t)s->next.epoch, "position",
                     (json_int_t)s->next.position, "carried", list, "data", "samples",
                     (json_int_t)id.samples, "xxh3", id.xxh3);
}

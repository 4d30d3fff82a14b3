/* data make, inspect: what a job is trained on, before it is. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "console/cli/command/cmd.h"
#include "console/cli/command/registry.h"
#include "console/cli/shared/job_data.h"
#include "core/base/say.h"
#include "core/base/str.h"
#include "core/base/units.h"
#include "core/wire/wire.h"
#include "input/make/shapes.h"

enum { SHOWN_ITEMS = 8 };

struct shapes_values {
    struct cs_cmd_common common;
    int64_t train, test, seed;
};

#define AT(field) offsetof(struct shapes_values, field)
/* clang-format off */
static const struct cs_option shapes_options[] = {
    {"train", 0, CS_OPT_INT, 1, 1000000, "4096", NULL, NULL, "training pictures", AT(train)},
    {"test", 0, CS_OPT_INT, 1, 1000000, "512", NULL, NULL, "held-out pictures", AT(test)},
    {"seed", 0, CS_OPT_INT, 0, INT64_MAX, "1", NULL, NULL, "decides everything", AT(seed)},
};

/* clang-format on */
#undef AT

static enum cs_status make_shapes(struct cs_cmd *cmd, struct cs_err *err)
{
    char text[CS_PATH_CAP + 160];
    const struct shapes_values *v = cmd->values;
    struct cs_shapes_options options = {
        .seed = (uint64_t)v->seed, .n_train = (int)v->train, .n_test = (int)v->test};
    CS_TRY(cs_shapes_make(cmd->args[0], &options, err));
    snprintf(text, sizeof text, "wrote %s: %d training and %d held-out pictures with questions",
             cmd->args[0], options.n_train, options.n_test);
    if (!cmd->json) {
        cs_say(stdout, "%s\n", text);
        return CS_OK;
    }
    json_t *doc = cs_doc_new("cornstarch.result/1");
    cs_msg_set_str(doc, "dir", cmd->args[0]);
    cs_msg_set_str(doc, "text", text);
    return cs_cmd_print_doc(doc, err);
}

/* --- inspect ---------------------------------------------------------------------------------- */

/* Trained text in brackets that no data can forge on a terminal: reverse video there, [[ ]]
 * elsewhere. */
static void print_marked(const struct cs_rendering *r)
{
    bool is_tty = isatty(1);
    const char *on = is_tty ? "\033[7m" : "[[", *off = is_tty ? "\033[0m" : "]]";
    struct cs_buf text = {0};
    for (size_t i = 0; i < r->n; i++) {
        const struct cs_segment *s = &r->segments[i];
        if (s->is_trained)
            cs_buf_adds(&text, on);
        cs_str_clean(&text, r->text.data + s->begin, s->end - s->begin);
        if (s->is_trained)
            cs_buf_adds(&text, off);
    }
    cs_buf_addc(&text, '\n');
    cs_say_exact(stdout, &text);
    cs_buf_free(&text);
}

/* A file: where it stands, how large it is, and the items that it became. */
static void print_medium(const struct cs_sample_media *m, int number)
{
    const struct cs_media_layout *l = &m->layout;
    struct cs_buf text = {0};
    cs_buf_addf(&text, "  picture %d at row %d: ", number, m->row[0]);
    cs_str_escape(&text, m->file->name, strlen(m->file->name), false);
    if (m->medium.width > 0)
        cs_buf_addf(&text, ", %d x %d pixels", m->medium.width, m->medium.height);
    cs_buf_addf(&text, ", %d row%s", l->n_rows, CS_PLURAL(l->n_rows));
    if (l->n_learned > 0)
        cs_buf_addf(&text, " (%d learned)", l->n_learned);
    if (m->row[l->n_rows - 1] - m->row[0] >= l->n_rows)
        cs_buf_addf(&text, " up to row %d", m->row[l->n_rows - 1]);
    for (int i = 0; i < l->n_items && i < SHOWN_ITEMS; i++) {
        const int32_t *grid = l->items[i].shape.grid;
        cs_buf_addf(&text, i == 0 ? " of %d x %d" : " + %d x %d", grid[1], grid[2]);
    }
    if (l->n_items > SHOWN_ITEMS)
        cs_buf_addf(&text, " + %d item%s", l->n_items - SHOWN_ITEMS,
                    CS_PLURAL(l->n_items - SHOWN_ITEMS));
    cs_buf_adds(&text, " patches\n");
    cs_cmd_print(&text);
    cs_buf_free(&text);
}

static void print_sample(const struct cs_loaded *l, uint64_t index)
{
    cs_say(stdout, "sample %llu%s%s: %d row%s, %d of them trained, %d picture%s\n",
           (unsigned long long)index, l->record->id[0] ? " id " : "", l->record->id,
           l->sample.n_tokens, CS_PLURAL(l->sample.n_tokens), l->sample.n_labels, l->sample.n_media,
           CS_PLURAL(l->sample.n_media));
    for (int i = 0; i < l->sample.n_media; i++)
        print_medium(&l->sample.media[i], i);
    print_marked(&l->rendering);
}

/* Every file with its rows of the sample and its items. */
static json_t *media_of(const struct cs_sample *s)
{
    json_t *media = json_array();
    for (int i = 0; i < s->n_media; i++) {
        const struct cs_sample_media *m = &s->media[i];
        json_t *one = json_object(), *rows = json_array(), *items = json_array();
        for (int r = 0; r < m->layout.n_rows; r++)
            json_array_append_new(rows, json_integer(m->row[r]));
        for (int k = 0; k < m->layout.n_items; k++) {
            const struct cs_item_shape *shape = &m->layout.items[k].shape;
            json_array_append_new(items,
                                  json_pack("{s:[i,i,i],s:i}", "grid", shape->grid[0],
                                            shape->grid[1], shape->grid[2], "rows", shape->rows));
        }
        cs_msg_set_int(one, "encoder", m->encoder);
        cs_msg_set(one, "file", cs_json_bytes(m->file->name, strlen(m->file->name)));
        cs_msg_set_int(one, "width", m->medium.width);
        cs_msg_set_int(one, "height", m->medium.height);
        cs_msg_set(one, "rows", rows);
        cs_msg_set(one, "items", items);
        json_array_append_new(media, one);
    }
    return media;
}

static json_t *sample_doc(const struct cs_loaded *l, uint64_t index)
{
    json_t *doc = cs_doc_new("cornstarch.sample/1"), *ids = json_array(), *labels = json_array();
    for (int i = 0; i < l->sample.n_tokens; i++) {
        json_array_append_new(ids, json_integer(l->sample.ids[i]));
        json_array_append_new(labels, json_integer(l->sample.labels[i]));
    }
    cs_msg_set_int(doc, "index", (int64_t)index);
    cs_msg_set(doc, "text", cs_json_bytes(cs_buf_str(&l->rendering.text), l->rendering.text.len));
    cs_msg_set(doc, "ids", ids);
    cs_msg_set(doc, "labels", labels);
    cs_msg_set(doc, "media", media_of(&l->sample));
    return doc;
}

struct inspect_values {
    struct cs_cmd_common common;
    int64_t sample;
    struct cs_texts set;
};

#define AT(field) offsetof(struct inspect_values, field)
/* clang-format off */
static const struct cs_option inspect_options[] = {
    {"sample", 'n', CS_OPT_INT, 0, INT64_MAX, "0", "N", NULL, "place in the data set", AT(sample)},
    {"set", 0, CS_OPT_TEXTS, 0, 0, NULL, "NAME=VALUE", NULL, CS_SET_HELP, AT(set)},
};

/* clang-format on */
#undef AT

static enum cs_status inspect(struct cs_cmd *cmd, struct cs_err *err)
{
    struct cs_job_data d;
    struct cs_loaded loaded = {0};
    const struct inspect_values *v = cmd->values;
    uint64_t index = (uint64_t)v->sample;
    enum cs_status status = cs_job_data_open(cmd->args[0], &v->set, &d, err);
    if (status == CS_OK)
        status = cs_job_data_source(&d, false, err);
    if (status == CS_OK && index >= cs_source_count(d.source))
        status = cs_fail(err, CS_NOT_FOUND, "there is no sample %llu: %s has %llu",
                         (unsigned long long)index, cs_source_path(d.source),
                         (unsigned long long)cs_source_count(d.source));
    if (status == CS_OK) {
        status = cs_source_load(d.source, index, NULL, &loaded, err);
        if (status != CS_OK)
            cs_wrap(err, status, "sample %llu of %s", (unsigned long long)index,
                    cs_source_path(d.source));
    }
    if (status == CS_OK && cmd->json)
        status = cs_cmd_print_doc(sample_doc(&loaded, index), err);
    else if (status == CS_OK)
        print_sample(&loaded, index);
    cs_loaded_free(&loaded);
    cs_job_data_close(&d);
    return status;
}

const struct cs_command cs_command_data_make_shapes = {
    .name = "data make shapes",
    .role = CS_ROLE_OWNER,
    .usage = "[options] DIR",
    .help = "write the sample data set of coloured shapes",
    .run = make_shapes,
    .min_args = 1,
    .max_args = 1,
    CS_COMMAND_OPTIONS(shapes_options, struct shapes_values),
};

const struct cs_command cs_command_inspect = {
    .name = "inspect",
    .role = CS_ROLE_VIEWER,
    .usage = "[options] SCRIPT",
    .help = "one sample as the model sees it, trained tokens marked",
    .run = inspect,
    .min_args = 1,
    .max_args = 1,
    CS_COMMAND_OPTIONS(inspect_options, struct inspect_values),
};

/* Parts of the manual pages that are made from the tables, as mdoc: scripts/gen-docs puts them
 * between the markers of the pages. */
#include <string.h>

#include "core/base/status.h"
#include "core/base/system/environment.h"
#include "core/program/mdoc.h"
#include "core/wire/job_state.h"
#include "core/wire/wire.h"
#include "server/state/config.h"

static void add_range(struct cs_buf *out, const struct cs_field *f)
{
    static const char *const what[CS_FIELD_TYPE_COUNT] = {
        [CS_FIELD_STR] = "bytes",    [CS_FIELD_INT] = "",      [CS_FIELD_NUM] = "",
        [CS_FIELD_BOOL] = "",        [CS_FIELD_OBJ] = "bytes", [CS_FIELD_ARR] = "items",
        [CS_FIELD_STRARR] = "items", [CS_FIELD_ANY] = "bytes",
    };
    const char *unit = f->unit[0] ? f->unit : what[f->type];
    if (f->type == CS_FIELD_STR || f->type == CS_FIELD_ARR || f->type == CS_FIELD_STRARR)
        unit = what[f->type];
    bool has_max = f->max > 0 && f->max < INT64_C(9007199254740991);
    if (f->min && has_max)
        cs_buf_addf(out, ", %lld to %lld", (long long)f->min, (long long)f->max);
    else if (f->min)
        cs_buf_addf(out, ", from %lld", (long long)f->min);
    else if (has_max)
        cs_buf_addf(out, ", at most %lld", (long long)f->max);
    if (unit[0] && (f->min || has_max || f->unit[0]))
        cs_buf_addf(out, "%s%s", f->min || has_max ? " " : ", ", unit);
}

static void add_fields(struct cs_buf *out, enum cs_msg_id id)
{
    size_t n;
    const struct cs_field *fields = cs_schema_fields(id, &n);
    if (n == 0)
        return;
    cs_buf_adds(out, ".Bl -tag -width Ds -compact\n");
    for (size_t i = 0; i < n; i++) {
        const struct cs_field *f = &fields[i];
        cs_buf_addf(out, ".It Va %s\n%s", f->key, cs_field_type_name(f->type));
        if (f->of[0])
            cs_buf_addf(out, " of %s", f->of);
        add_range(out, f);
        cs_buf_adds(out, f->is_required ? "; " : ", optional; ");
        cs_mdoc_text(out, f->help);
        cs_buf_addc(out, '\n');
    }
    cs_buf_adds(out, ".El\n");
}

static void add_message(struct cs_buf *out, const struct cs_message *m)
{
    cs_buf_addf(out, ".It Ic %s Pq %s", m->type, cs_kind_name(m->kind));
    if (m->from != CS_PARTY_NONE && m->to != CS_PARTY_NONE)
        cs_buf_addf(out, ", %s to %s", cs_party_name(m->from), cs_party_name(m->to));
    cs_buf_addc(out, '\n');
    cs_mdoc_text(out, m->help);
    cs_buf_adds(out, ".\n");
    add_fields(out, m->id);
}

static void add_messages(struct cs_buf *out)
{
    static const struct {
        const char *title;
        bool is_message;
        enum cs_msg_kind kind;
    } parts[] = {
        {"Messages",  true,  CS_KIND_REQUEST },
        {"Objects",   false, CS_KIND_OBJECT  },
        {"Documents", false, CS_KIND_DOCUMENT},
    };

    size_t n;
    const struct cs_message *all = cs_schema_messages(&n);
    for (size_t p = 0; p < CS_ARRAY_LEN(parts); p++) {
        cs_buf_addf(out, ".Ss %s\n.Bl -tag -width Ds\n", parts[p].title);
        for (size_t i = 0; i < n; i++) {
            bool is_message = all[i].kind != CS_KIND_OBJECT && all[i].kind != CS_KIND_DOCUMENT;
            if (parts[p].is_message ? is_message : all[i].kind == parts[p].kind)
                add_message(out, &all[i]);
        }
        cs_buf_adds(out, ".El\n");
    }
}

/* What every state of a job means and allows. */
static void add_states(struct cs_buf *out)
{
    static const struct {
        enum cs_job_command order;
        const char *name;
    } orders[] = {
        {CS_ORDER_PAUSE,      "pause"     },
        {CS_ORDER_RESUME,     "resume"    },
        {CS_ORDER_STOP,       "stop"      },
        {CS_ORDER_CHECKPOINT, "checkpoint"},
        {CS_ORDER_REMOVE,     "rm"        },
    };

    cs_buf_adds(out, ".Bl -tag -width CANCELLED -compact\n");
    for (enum cs_job_state s = 0; s < CS_JOB_STATE_COUNT; s++) {
        const struct cs_job_state_row *row = cs_job_state_row(s);
        bool is_first = true;
        cs_buf_addf(out, ".It Li %s\n%s", row->name, row->help);
        for (size_t i = 0; i < CS_ARRAY_LEN(orders); i++) {
            if ((row->orders & orders[i].order) == 0)
                continue;
            cs_buf_addf(out, "%s%s", is_first ? "; it takes " : ", ", orders[i].name);
            is_first = false;
        }
        cs_buf_addc(out, '\n');
    }
    cs_buf_adds(out, ".El\n");
}

static void add_option(struct cs_buf *out, const struct cs_option *o, bool is_file)
{
    static const char *const names[CS_OPT_TYPE_COUNT] = {
        [CS_OPT_FLAG] = "",         [CS_OPT_INT] = "number",
        [CS_OPT_SIZE] = "size",     [CS_OPT_DURATION] = "duration",
        [CS_OPT_NUMBER] = "number", [CS_OPT_STRING] = "text",
        [CS_OPT_ENUM] = "word",
    };
    char arg[32] = "";
    const char *name = o->argname ? o->argname : names[o->type];
    for (size_t i = 0; name[i] && i + 1 < sizeof(arg); i++)
        arg[i] = (char)(name[i] >= 'A' && name[i] <= 'Z' ? name[i] + 32 : name[i]);
    if (is_file)
        cs_buf_addf(out, ".It Cm %s No = Ar %s\n", o->name, arg);
    else if (o->letter)
        cs_buf_addf(out, ".It Fl %c , Fl -%s%s%s\n", o->letter, o->name, arg[0] ? " Ar " : "", arg);
    else
        cs_buf_addf(out, ".It Fl -%s%s%s\n", o->name, arg[0] ? " Ar " : "", arg);
    cs_mdoc_text(out, o->help);
    cs_buf_adds(out, ".\n");
    for (size_t i = 0; o->choices && o->choices[i]; i++)
        cs_buf_addf(out, "%s.Cm %s%s\n", i ? "" : "One of\n", o->choices[i],
                    o->choices[i + 1] ? " ," : " .");
    if (o->min || o->max)
        cs_buf_addf(out, "From %lld to %lld.\n", (long long)o->min, (long long)o->max);
    if (o->dflt)
        cs_buf_addf(out, "Default:\n.Cm %s .\n", o->dflt);
    if (is_file && cs_config_is_reloadable(o->name))
        cs_buf_adds(out, "Reloadable.\n");
}

static void add_options(struct cs_buf *out, bool is_file)
{
    const struct cs_cli *cli = cs_config_cli();
    cs_buf_adds(out, ".Bl -tag -width Ds\n");
    for (size_t i = 0; i < cli->n_options; i++)
        if (!is_file || cs_config_is_for_file(cli->options[i].name))
            add_option(out, &cli->options[i], is_file);
    cs_buf_adds(out, ".El\n");
}

/* a line for each sentence */
static void add_sentences(struct cs_buf *out, const char *text)
{
    for (const char *end; (end = strstr(text, ". ")) != NULL; text = end + 2) {
        struct cs_buf sentence = {0};
        cs_buf_addf(&sentence, "%.*s.\n", (int)(end - text), text);
        cs_mdoc_text(out, cs_buf_str(&sentence));
        cs_buf_free(&sentence);
    }
    cs_mdoc_text(out, text);
    cs_buf_adds(out, ".\n");
}

static void add_variable(struct cs_buf *out, const struct cs_variable_row *row)
{
    cs_buf_addf(out, ".It Ev %s\n", row->name);
    add_sentences(out, row->help);
    for (int i = 0; i < CS_VAR_WORDS_MAX && row->words[i].word; i++) {
        cs_buf_addf(out, "%s.It Cm %s\n", i ? "" : ".Bl -tag -width portable -compact\n",
                    row->words[i].word);
        cs_mdoc_text(out, row->words[i].help);
        cs_buf_addc(out, '\n');
    }
    cs_buf_adds(out, row->words[0].word ? ".El\n" : "");
    if (row->most > 0)
        cs_buf_addf(out, "From 1 to %d.\n", row->most);
    cs_buf_adds(out, "Default: ");
    add_sentences(out, row->dflt);
}

/* Of one page, inside a list that the page begins and ends. */
static void add_variables(struct cs_buf *out, enum cs_variable_page page)
{
    for (enum cs_variable v = 0; v < CS_VAR_COUNT; v++)
        if (cs_variable_row(v)->pages & page)
            add_variable(out, cs_variable_row(v));
}

/* --list-PROGRAM-variables */
static bool add_variables_of(struct cs_buf *out, const char *what)
{
    static const struct {
        const char *what;
        enum cs_variable_page page;
    } pages[] = {
        {"--list-console-variables", CS_VAR_OF_CONSOLE},
        {"--list-daemon-variables",  CS_VAR_OF_DAEMON },
        {"--list-runner-variables",  CS_VAR_OF_RUNNER },
        {"--list-worker-variables",  CS_VAR_OF_WORKER },
    };

    for (size_t i = 0; i < CS_ARRAY_LEN(pages); i++)
        if (strcmp(pages[i].what, what) == 0) {
            add_variables(out, pages[i].page);
            return true;
        }
    return false;
}

enum cs_status cs_docs_print(const char *what, struct cs_buf *out, struct cs_err *err)
{
    if (strcmp(what, "--list-messages") == 0)
        add_messages(out);
    else if (strcmp(what, "--list-states") == 0)
        add_states(out);
    else if (strcmp(what, "--list-options") == 0)
        add_options(out, false);
    else if (strcmp(what, "--list-config") == 0)
        add_options(out, true);
    else if (!add_variables_of(out, what))
        return cs_fail(err, CS_NOT_FOUND, "no table '%s'", what);
    return CS_OK;
}

/* Parts of the manual pages from the tables of commands, options, keys and the specification. */
#include "console/cli/docs/manual.h"

#include <ctype.h>
#include <string.h>

#include "console/cli/docs/command_docs.h"
#include "console/cli/docs/manual_option.h"
#include "console/cli/docs/screen_options.h"
#include "console/screen/keys/keys.h"
#include "core/model/spec.h"
#include "core/program/mdoc.h"

const char *const cs_manual_parts[] = {"commands", "screen", "keys", "job", "views", NULL};

_Static_assert(CS_ARRAY_LEN(cs_manual_parts) == CS_MANUAL_PARTS + 1, "one name per part");

/* A sentence of its own line: capital, unless it begins with a name, and full stop. */
static void add_sentence(struct cs_buf *out, const char *text)
{
    size_t word = strspn(text, "abcdefghijklmnopqrstuvwxyz");
    bool is_word = word > 0 && (text[word] == ' ' || text[word] == ',' || text[word] == ':');
    if (is_word)
        cs_buf_addc(out, (char)toupper((unsigned char)*text++));
    cs_mdoc_text(out, text);
    cs_buf_adds(out, ".\n");
}

/* "a|b|c" or a list of words, separated by commas */
static void add_words(struct cs_buf *out, const char *words)
{
    for (const char *p = words; *p; p++) {
        char letter[2] = {*p, '\0'};
        if (*p == '|')
            cs_buf_adds(out, ", ");
        else
            cs_mdoc_text(out, letter);
    }
}

/* --- options of the screen -------------------------------------------------------------------- */

static void add_screen(const struct cs_commands *all, struct cs_buf *out)
{
    (void)all;
    size_t n = 0;
    const struct cs_option *options = cs_cli_screen_options(&n);
    cs_buf_adds(out, ".Bl -tag -width Ds\n");
    for (size_t i = 0; i < n; i++)
        cs_manual_option(out, &options[i]);
    cs_buf_adds(out, ".El\n");
}

/* --- keys ------------------------------------------------------------------------------------- */

static void add_key_rows(struct cs_buf *out, const struct cs_key_row *rows, int n,
                         const char *where, const char *view)
{
    cs_buf_addf(out, ".Pp\n%s%s:\n.Bl -tag -width \"C-d PgDn\" -compact\n", where, view);
    for (int i = 0; i < n; i++) {
        cs_buf_adds(out, ".It Ic \\&"); /* "?" alone would be punctuation */
        cs_mdoc_text(out, rows[i].shown);
        cs_buf_addc(out, '\n');
        cs_mdoc_text(out, cs_key_row_help(&rows[i]));
        cs_buf_addc(out, '\n');
    }
    cs_buf_adds(out, ".El\n");
}

/* Every key once: those of all views, then those that only one has. */
static void add_keys(const struct cs_commands *all, struct cs_buf *out)
{
    struct cs_key_row rows[CS_KEYS];
    int n = cs_keys_common(rows);
    (void)all;
    add_key_rows(out, rows, n, "In every view", "");
    for (int v = 0; v < CS_VIEW_COUNT; v++) {
        n = cs_keys_text((enum cs_view)v, rows);
        if (n > 0)
            add_key_rows(out, rows, n, "While something is typed in ",
                         cs_view_ops((enum cs_view)v)->title);
        n = cs_keys_own((enum cs_view)v, rows);
        if (n > 0)
            add_key_rows(out, rows, n, "In ", cs_view_ops((enum cs_view)v)->title);
    }
}

/* --- views ------------------------------------------------------------------------------------ */

static void add_views(const struct cs_commands *all, struct cs_buf *out)
{
    (void)all;
    cs_buf_adds(out, ".Bl -tag -width Pipeline\n");
    for (int v = 0; v < CS_VIEW_COUNT; v++) {
        const struct cs_view_ops *view = cs_view_ops((enum cs_view)v);
        cs_buf_addf(out, ".It %s\n", view->title);
        cs_mdoc_text(out, view->help);
        cs_buf_addc(out, '\n');
    }
    cs_buf_adds(out, ".El\n");
}

/* --- job specification ------------------------------------------------------------------------ */

static const char *const spec_types[] = {
    [CS_SPEC_GROUP] = "group",      [CS_SPEC_INT] = "integer", [CS_SPEC_NUMBER] = "number",
    [CS_SPEC_BOOL] = "true, false", [CS_SPEC_STRING] = "text", [CS_SPEC_PATH] = "absolute path",
    [CS_SPEC_PAIR] = "two numbers", [CS_SPEC_FREE] = "object", [CS_SPEC_LIMIT] = "number or false",
};

_Static_assert(CS_ARRAY_LEN(spec_types) == CS_SPEC_TYPES, "one name per type");

static void add_spec_range(struct cs_buf *out, const struct cs_spec_key *key)
{
    bool is_number = key->type == CS_SPEC_INT || key->type == CS_SPEC_NUMBER ||
                     key->type == CS_SPEC_LIMIT || key->type == CS_SPEC_PAIR;
    bool is_whole = key->type == CS_SPEC_INT;
    if (key->accept) {
        cs_buf_adds(out, ": ");
        add_words(out, key->accept);
    } else if (is_number) {
        cs_buf_addf(out, is_whole ? ", %.0f to %.0f" : ", %.15g to %.15g", key->min, key->max);
    } else if (key->type == CS_SPEC_STRING) {
        cs_buf_addf(out, " of at most %.0f bytes", key->max);
    }
}

static void add_spec_key(struct cs_buf *out, const struct cs_spec_key *key)
{
    cs_buf_adds(out, ".It Va ");
    cs_mdoc_text(out, key->key);
    const bool is_list =
        key->type == CS_SPEC_FREE && key->fallback != NULL && key->fallback[0] == '[';
    const char *type = is_list ? "list" : spec_types[key->type];
    cs_buf_addf(out, "\n%c%s", toupper((unsigned char)type[0]), type + 1);
    add_spec_range(out, key);
    if (!key->fallback)
        cs_buf_adds(out, "; required");
    else if (key->fallback[0]) {
        cs_buf_adds(out, "; default ");
        cs_mdoc_text(out, key->fallback);
    }
    if (key->kind)
        cs_buf_addf(out, "; only of kind %s", key->kind);
    cs_buf_adds(out, ".\n");
    add_sentence(out, key->help);
}

static void add_job(const struct cs_commands *all, struct cs_buf *out)
{
    (void)all;
    int n = 0;
    const struct cs_spec_key *keys = cs_spec_keys(&n);
    for (int i = 0; i < n; i++) {
        bool is_first = i == 0 || strcmp(keys[i].group, keys[i - 1].group) != 0;
        bool is_last = i + 1 == n || strcmp(keys[i].group, keys[i + 1].group) != 0;
        if (is_first)
            cs_buf_addf(out, ".Ss %s\n.Bl -tag -width Ds\n",
                        keys[i].group[0] ? keys[i].group : "Top level");
        add_spec_key(out, &keys[i]);
        if (is_last)
            cs_buf_adds(out, ".El\n");
    }
}

void cs_manual_part(const struct cs_commands *all, enum cs_manual_part part, struct cs_buf *out)
{
    static void (*const makers[])(const struct cs_commands *, struct cs_buf *) = {
        [CS_MANUAL_COMMANDS] = cs_commands_mdoc,
        [CS_MANUAL_SCREEN] = add_screen,
        [CS_MANUAL_KEYS] = add_keys,
        [CS_MANUAL_JOB] = add_job,
        [CS_MANUAL_VIEWS] = add_views,
    };
    _Static_assert(CS_ARRAY_LEN(makers) == CS_MANUAL_PARTS, "one maker per part");
    makers[part](all, out);
}

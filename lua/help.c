/* Help of functions and methods from the tables of the manual. */
#include "lua/help.h"

#include <string.h>

#include "core/base/near.h"
#include "lua/module.h"

/* "cs.plan" is also "plan" */
static bool is_named(const char *name, const char *asked)
{
    return strcmp(name, asked) == 0 ||
           (strncmp(name, "cs.", 3) == 0 && strcmp(name + 3, asked) == 0);
}

void cs_lua_help_function(const struct cs_lua_function *f, struct cs_buf *out)
{
    cs_buf_addf(out, "%s%s -> %s\n  %s\n", f->name, f->n_args ? " { ... }" : "()", f->returns,
                f->help);
    for (int i = 0; i < f->n_args; i++) {
        const struct cs_arg *arg = &f->args[i];
        cs_buf_addf(out, "    %-14s %s%s", arg->key, cs_lua_arg_words(arg),
                    arg->is_required ? ", required" : "");
        if (arg->fallback)
            cs_buf_addf(out, ", default %s", arg->fallback);
        cs_buf_addf(out, "\n        %s\n", arg->help);
    }
}

static void add_method(const struct cs_lua_method *m, struct cs_buf *out)
{
    cs_buf_addf(out, "%s:%s(%s) -> %s\n  %s\n", m->owner, m->name, m->params, m->returns, m->help);
}

/* Methods of that name, of one owner or of all; a value's all when only it is named. */
static bool add_methods(const char *asked, struct cs_buf *out)
{
    size_t n;
    const struct cs_lua_method *methods = cs_lua_methods(&n);
    const char *colon = strchr(asked, ':'), *name = colon ? colon + 1 : asked;
    char owner[64] = "";
    if (colon && (size_t)(colon - asked) < sizeof owner)
        memcpy(owner, asked, (size_t)(colon - asked));
    bool has_any = false;
    for (size_t i = 0; i < n; i++) {
        const bool is_owned = !owner[0] || is_named(methods[i].owner, owner);
        if (colon ? is_owned && (!*name || strcmp(methods[i].name, name) == 0)
                  : is_named(methods[i].owner, asked)) {
            add_method(&methods[i], out);
            has_any = true;
        }
    }
    return has_any;
}

bool cs_lua_help(const char *name, struct cs_buf *out)
{
    struct cs_lua_area areas[CS_LUA_AREAS];
    const char *names[256], *near;
    int n_names = 0;
    bool has_any = false;
    cs_lua_areas(areas);
    for (size_t a = 0; a < CS_LUA_AREAS; a++)
        for (int i = 0; i < areas[a].n; i++) {
            const struct cs_lua_function *f = &areas[a].functions[i];
            if (n_names < (int)CS_ARRAY_LEN(names))
                names[n_names++] = f->name;
            if (is_named(f->name, name)) {
                cs_lua_help_function(f, out);
                has_any = true;
            }
        }
    has_any = add_methods(name, out) || has_any;
    if (has_any)
        return true;
    near = name[0] ? cs_near(name, names, (size_t)n_names) : NULL;
    if (near)
        cs_buf_addf(out, "there is no '%s'; did you mean %s?\n", name, near);
    for (int i = 0; !near && i < n_names; i++)
        cs_buf_addf(out, "%s%s", names[i], i + 1 == n_names ? "\n" : (i + 1) % 5 ? "  " : "\n");
    return false;
}

/* Fuzz target: calls of every function that scripts have, their arguments made from the tables that
 * describe them: right, nearly right and senseless. No script ends the console. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/buf.h"
#include "fuzz/edit.h"
#include "lua/bind/bind.h"
#include "lua/eval.h"
#include "lua/module.h"

enum { DEPTH = 4, CALLS = 3 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct cs_lua_function *pick(struct fuzz_bytes *bytes, const char *prefix)
{
    struct cs_lua_area areas[CS_LUA_AREAS];
    const size_t n_areas = CS_LUA_AREAS;
    cs_lua_areas(areas);
    const struct cs_lua_area *area = &areas[fuzz_take(bytes, (uint32_t)n_areas)];

    for (size_t a = 0; prefix != NULL && a < n_areas; a++)
        for (int i = 0; i < areas[a].n; i++)
            if (strncmp(areas[a].functions[i].name, prefix, strlen(prefix)) == 0)
                return &areas[a].functions[i];
    return &area->functions[fuzz_take(bytes, (uint32_t)area->n)];
}

static void put_value(struct cs_buf *out, struct fuzz_bytes *bytes, int depth);

static void put_list(struct cs_buf *out, struct fuzz_bytes *bytes, int depth)
{
    static const char *const keys[] = {"name",   "fwd", "bwd", "feeds",
                                       "vision", "llm", "pp",  "text"};
    uint32_t n = fuzz_take(bytes, 5);

    cs_buf_adds(out, "{");
    for (uint32_t i = 0; i < n; i++) {
        if (fuzz_take(bytes, 3) == 0)
            cs_buf_addf(out, "%s=", keys[fuzz_take(bytes, sizeof keys / sizeof keys[0])]);
        put_value(out, bytes, depth - 1);
        cs_buf_adds(out, ",");
    }
    cs_buf_adds(out, "}");
}

/* Any Lua value. */
static void put_value(struct cs_buf *out, struct fuzz_bytes *bytes, int depth)
{
    static const char *const words[] = {"nil",
                                        "true",
                                        "false",
                                        "0",
                                        "1",
                                        "-1",
                                        "2",
                                        "1e308",
                                        "-1e308",
                                        "0/0",
                                        "1/0",
                                        "0.5",
                                        "math.maxinteger",
                                        "math.mininteger",
                                        "''",
                                        "'causal'",
                                        "'1f1b'",
                                        "'llm'",
                                        "'lpt'",
                                        "print",
                                        "cs",
                                        "cs.hf",
                                        "1<<20",
                                        "3"};

    if (depth > 0 && fuzz_take(bytes, 3) == 0)
        put_list(out, bytes, depth);
    else
        cs_buf_adds(out, words[fuzz_take(bytes, sizeof words / sizeof words[0])]);
}

static void put_call(struct cs_buf *out, const struct cs_lua_function *f, struct fuzz_bytes *bytes,
                     int depth);

static void put_string(struct cs_buf *out, const struct cs_arg *arg, struct fuzz_bytes *bytes)
{
    const char *word = arg->values != NULL ? arg->values : "x";

    for (uint32_t skip = fuzz_take(bytes, 4); skip > 0 && strchr(word, '|') != NULL; skip--)
        word = strchr(word, '|') + 1;
    cs_buf_addf(out, "'%.*s'", (int)strcspn(word, "|"), word);
}

/* What the row asks for, most of the time. */
static void put_arg(struct cs_buf *out, const struct cs_arg *arg, struct fuzz_bytes *bytes,
                    int depth)
{
    if (fuzz_take(bytes, 5) == 0) {
        put_value(out, bytes, depth);
    } else if (arg->type == CS_ARG_STRING) {
        put_string(out, arg, bytes);
    } else if (arg->type == CS_ARG_INT || arg->type == CS_ARG_NUMBER) {
        bool is_border = fuzz_take(bytes, 4) == 0 && arg->max > arg->min;
        cs_buf_addf(out, "%.17g",
                    is_border ? (fuzz_take(bytes, 2) ? arg->min : arg->max)
                              : (double)fuzz_take(bytes, 9));
    } else if (arg->type == CS_ARG_BOOL) {
        cs_buf_adds(out, fuzz_take(bytes, 2) ? "true" : "false");
    } else if (arg->type == CS_ARG_VALUE && depth > 0) {
        put_call(out, pick(bytes, cs_lua_kind_name(arg->kind)), bytes, depth - 1);
    } else if (arg->type == CS_ARG_FUNCTION) {
        cs_buf_adds(out, "function(a) return a end");
    } else {
        put_list(out, bytes, depth);
    }
}

static void put_call(struct cs_buf *out, const struct cs_lua_function *f, struct fuzz_bytes *bytes,
                     int depth)
{
    cs_buf_addf(out, "%s", f->name);
    if (f->positional != NULL) {
        cs_buf_adds(out, "(");
        put_value(out, bytes, depth);
        cs_buf_adds(out, ")");
        return;
    }
    cs_buf_adds(out, "{");
    for (int i = 0; i < f->n_args; i++) {
        if (!f->args[i].is_required && fuzz_take(bytes, 3) == 0)
            continue;
        if (fuzz_take(bytes, 16) == 0)
            continue;
        cs_buf_addf(out, "%s=", f->args[i].key);
        put_arg(out, &f->args[i], bytes, depth);
        cs_buf_adds(out, ",");
    }
    cs_buf_adds(out, "}");
}

static void ignore(void *user, const char *text)
{
    (void)user;
    (void)text;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct cs_lua_limits limits = {.memory_bytes = 16 << 20, .instructions = 200000};
    struct fuzz_bytes bytes = {data, size};
    struct cs_script_result result = {0};
    struct cs_buf text = {0}, shown = {0};
    struct cs_lua *lua = NULL;
    struct cs_err err = {0};

    cs_buf_adds(&text, "local cs = require 'cornstarch'\n");
    for (int i = 0; i < CALLS && bytes.n > 0; i++) {
        cs_buf_addf(&text, "local ok, a%d = pcall(function() return ", i);
        put_call(&text, pick(&bytes, NULL), &bytes, DEPTH);
        cs_buf_adds(&text, " end)\n");
    }
    cs_buf_addf(&text, "return a%d\n", (int)fuzz_take(&bytes, CALLS));
    if (getenv("FUZZ_SHOW") != NULL)
        fputs(cs_buf_str(&text), stderr);
    fuzz_must(cs_lua_open(&limits, ignore, NULL, &lua, &err) == CS_OK);
    if (cs_lua_run_text(lua, "fuzz", cs_buf_str(&text), &result, &err) != CS_OK)
        fuzz_must(err.text[0] != '\0');
    else if (cs_lua_results_text(lua, &shown, &err) != CS_OK)
        fuzz_must(err.text[0] != '\0');
    cs_script_result_free(&result);
    cs_lua_close(lua);
    cs_buf_free(&text);
    cs_buf_free(&shown);
    return 0;
}

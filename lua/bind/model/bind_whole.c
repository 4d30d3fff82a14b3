#include "lua/bind/model/bind_whole.h"

#include <string.h>

#include "lua/base/args.h"
#include "lua/bind/bind.h"
#include "lua/bind/model/bind_hf.h"
#include "lua/bind/model/bind_projector.h"

/* The table on the top gets the argument of the call, where it is given. */
static void hand_on(lua_State *L, const char *key)
{
    lua_pushstring(L, key);
    lua_rawget(L, 1);
    lua_setfield(L, -2, key);
}

/* Pushes what cs.hf or cs.projector.hf make of the directory; part NULL: they choose it. */
static void push_part(lua_State *L, lua_CFunction call, const char *dir, const char *part)
{
    lua_pushcfunction(L, call);
    lua_createtable(L, 0, 3);
    lua_pushstring(L, dir);
    lua_setfield(L, -2, "dir");
    if (part != NULL && *part) {
        lua_pushstring(L, part);
        lua_setfield(L, -2, "part");
    }
    hand_on(L, "init");
    if (call == cs_lua_hf && (part == NULL || *part == '\0' || strcmp(part, "llm") == 0))
        hand_on(L, "router_aux_loss_coef");
    lua_call(L, 1, 1);
}

/* { [branch] = { from =, projector =, video =, key = } } */
static void set_encoder(lua_State *L, const char *dir, const char *branch)
{
    lua_createtable(L, 0, 1);
    lua_createtable(L, 0, 4);
    push_part(L, cs_lua_hf, dir, branch);
    lua_setfield(L, -2, "from");
    push_part(L, cs_lua_projector_hf, dir, NULL);
    lua_setfield(L, -2, "projector");
    hand_on(L, "video");
    hand_on(L, "key");
    lua_setfield(L, -2, branch);
    lua_setfield(L, 1, "encoders");
}

void cs_lua_take_whole(lua_State *L)
{
    static const char *const parts_of_it[] = {"encoders", "llm"};
    static const char *const of_it[] = {"init", "video", "key", "router_aux_loss_coef"};
    const char *from = cs_lua_args_string(L, "from", NULL), *part[CS_MODULE_KINDS];
    bool has_llm = false;
    struct cs_err err;
    int n = 0;
    for (size_t i = 0; from == NULL && i < CS_ARRAY_LEN(of_it); i++)
        if (cs_lua_args_has(L, of_it[i]))
            cs_lua_error(L, "cs.mllm: %s belongs to from = \"DIR\"; else to its encoder or cs.hf",
                         of_it[i]);
    if (from == NULL && !cs_lua_args_has(L, "llm"))
        cs_lua_error(L, "cs.mllm: llm is required: cs.hf \"DIR\"; or from = \"DIR\" for all that a "
                        "directory holds");
    if (from == NULL)
        return;
    for (size_t i = 0; i < CS_ARRAY_LEN(parts_of_it); i++)
        if (cs_lua_args_has(L, parts_of_it[i]))
            cs_lua_error(L,
                         "cs.mllm: from takes all parts of the directory, %s among them: give "
                         "one of the two",
                         parts_of_it[i]);
    const char *dir = cs_lua_dir(L, "cs.mllm", from);
    if (cs_hfdir_list(dir, part, &n, &err) != CS_OK)
        cs_lua_error(L, "cs.mllm: %s", err.text);
    for (int i = 0; i < n; i++) {
        const bool is_llm = *part[i] == '\0' || strcmp(part[i], "llm") == 0;
        has_llm |= is_llm;
        if (is_llm) {
            push_part(L, cs_lua_hf, dir, part[i]);
            lua_setfield(L, 1, "llm");
        } else if (strcmp(part[i], "projector") != 0) {
            set_encoder(L, dir, part[i]);
        }
    }
    if (!has_llm)
        cs_lua_error(L,
                     "cs.mllm: %s holds no language model: compose it with one, encoders = { %s "
                     "= { from = cs.hf { dir = ..., part = \"%s\" }, projector = "
                     "cs.projector.hf { dir = ... } } }",
                     dir, part[0], part[0]);
    lua_pop(L, 1);
}

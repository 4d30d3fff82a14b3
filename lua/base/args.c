/* Checks the argument table of a call against the rows of its function. */
#include "lua/base/args.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/near.h"
#include "lua/base/json.h"

static const char *const type_names[] = {"a string",
                                         "an integer",
                                         "a number",
                                         "true or false",
                                         "a table",
                                         "a value",
                                         "a list",
                                         "a function",
                                         "a number or false",
                                         "a name or a table",
                                         "a string, a number, true or false"};

static const struct cs_arg *find_arg(const struct cs_lua_function *f, const char *key)
{
    for (int i = 0; i < f->n_args; i++)
        if (strcmp(f->args[i].key, key) == 0)
            return &f->args[i];
    return NULL;
}

static void push_key_list(lua_State *L, const struct cs_lua_function *f)
{
    luaL_Buffer b;
    luaL_buffinit(L, &b);
    for (int i = 0; i < f->n_args; i++) {
        if (i)
            luaL_addstring(&b, ", ");
        luaL_addstring(&b, f->args[i].key);
    }
    luaL_pushresult(&b);
}

static void unknown_key(lua_State *L, const struct cs_lua_function *f, const char *key)
{
    const char *names[64];
    int n = 0;
    for (; n < f->n_args && n < 64; n++)
        names[n] = f->args[n].key;
    const char *near = cs_near(key, names, n);
    push_key_list(L, f);
    if (near)
        cs_lua_error(L, "%s: unknown key '%s'; did you mean '%s'? (keys: %s)", f->name, key, near,
                     lua_tostring(L, -1));
    cs_lua_error(L, "%s: unknown key '%s' (keys: %s)", f->name, key, lua_tostring(L, -1));
}

static bool is_choice(const char *values, const char *text)
{
    size_t len = strlen(text);
    for (const char *p = values; p;) {
        const char *end = strchr(p, '|');
        size_t n = end ? (size_t)(end - p) : strlen(p);
        if (n == len && memcmp(p, text, n) == 0)
            return true;
        p = end ? end + 1 : NULL;
    }
    return false;
}

static void wrong_type(lua_State *L, const struct cs_lua_function *f, const struct cs_arg *arg)
{
    const struct cs_lua_value *value = cs_lua_value_test(L, -1);
    const char *got = value ? cs_lua_kind_name(value->kind) : luaL_typename(L, -1);
    if (arg->type == CS_ARG_VALUE)
        cs_lua_error(L, "%s: '%s' must be made by %s, got %s", f->name, arg->key,
                     arg->values ? arg->values : cs_lua_kind_name(arg->kind), got);
    cs_lua_error(L, "%s: '%s' must be %s, got %s", f->name, arg->key, type_names[arg->type], got);
}

const struct cs_arg *cs_lua_arg(lua_State *L, const struct cs_lua_function *f, const char *key)
{
    const struct cs_arg *arg = find_arg(f, key);
    if (!arg)
        cs_lua_error(L, "%s: there is no key '%s'", f->name, key);
    return arg;
}

void cs_lua_check_range(lua_State *L, const struct cs_lua_function *f, const struct cs_arg *arg,
                        int item, double value)
{
    bool has_range = arg->min < arg->max;
    double most = has_range ? arg->max : CS_ARG_MOST,
           least = has_range ? arg->min : (item ? 0 : -CS_ARG_MOST);
    char text[200], place[32] = "";
    if (value >= least && value <= most)
        return;
    if (item)
        snprintf(place, sizeof place, " item %d", item);
    snprintf(text, sizeof text, "'%s'%s must lie between %.15g and %.15g, got %.15g", arg->key,
             place, least, most, isnan(value) ? fabs(value) : value);
    cs_lua_error(L, "%s: %s", f->name, text);
}

static void check_value(lua_State *L, const struct cs_lua_function *f, const struct cs_arg *arg)
{
    const struct cs_lua_value *value = cs_lua_value_test(L, -1);
    int type = lua_type(L, -1), is_int = 0;
    bool ok = false;
    switch (arg->type) {
    case CS_ARG_STRING:
        ok = type == LUA_TSTRING;
        break;
    case CS_ARG_INT:
        lua_tointegerx(L, -1, &is_int);
        ok = type == LUA_TNUMBER && is_int;
        break;
    case CS_ARG_NUMBER:
        ok = type == LUA_TNUMBER;
        break;
    case CS_ARG_BOOL:
        ok = type == LUA_TBOOLEAN;
        break;
    case CS_ARG_LIMIT:
        ok = type == LUA_TNUMBER || (type == LUA_TBOOLEAN && !lua_toboolean(L, -1));
        break;
    case CS_ARG_TABLE:
    case CS_ARG_LIST:
        ok = type == LUA_TTABLE;
        break;
    case CS_ARG_PLAIN:
        ok = type == LUA_TSTRING || type == LUA_TNUMBER || type == LUA_TBOOLEAN;
        break;
    case CS_ARG_NAMED:
        ok = type == LUA_TTABLE || type == LUA_TSTRING;
        break;
    case CS_ARG_FUNCTION:
        ok = type == LUA_TFUNCTION;
        break;
    case CS_ARG_VALUE:
        ok = value && value->kind == arg->kind;
        break;
    }
    if (!ok)
        wrong_type(L, f, arg);
    if (arg->type == CS_ARG_STRING && arg->values && !is_choice(arg->values, lua_tostring(L, -1)))
        cs_lua_error(L, "%s: '%s' must be one of %s, got '%s'", f->name, arg->key, arg->values,
                     lua_tostring(L, -1));
    if (type == LUA_TNUMBER)
        cs_lua_check_range(L, f, arg, 0, lua_tonumber(L, -1));
}

void cs_lua_args_default(lua_State *L, const struct cs_lua_function *f, const char *key,
                         const char *value)
{
    json_t *all = cs_lua_state_of(L)->defaults, *mine = json_object_get(all, f->name);
    if (!mine) {
        mine = json_object();
        json_object_set_new(all, f->name, mine);
    }
    if (value)
        json_object_set_new(mine, key, json_string(value));
    else
        json_object_del(mine, key);
}

/* Functions that compute something are called often and train nothing. */
static bool is_of_the_job(const struct cs_lua_function *f)
{
    return strncmp(f->name, "cs.lab.", 7) != 0 && strcmp(f->name, "cs.search") != 0;
}

static void note_defaults(lua_State *L, const struct cs_lua_function *f)
{
    for (int i = 0; i < f->n_args && is_of_the_job(f); i++) {
        if (!f->args[i].fallback)
            continue;
        lua_pushstring(L, f->args[i].key);
        if (lua_rawget(L, 1) == LUA_TNIL)
            cs_lua_args_default(L, f, f->args[i].key, f->args[i].fallback);
        lua_pop(L, 1);
    }
}

/* A name, on top of the stack, is the table with it. */
static void spell_out(lua_State *L, const struct cs_arg *arg)
{
    if (arg->type != CS_ARG_NAMED || lua_type(L, -1) != LUA_TSTRING)
        return;
    lua_pushvalue(L, -2);
    lua_createtable(L, 0, 1);
    lua_pushvalue(L, -3);
    lua_setfield(L, -2, "name");
    lua_rawset(L, 1);
}

/* keep: places of the stack that stay, the table among them */
static void check_args(lua_State *L, const struct cs_lua_function *f, int keep)
{
    if (!lua_istable(L, 1))
        cs_lua_error(L, "%s: takes one table of named arguments, got %s; write %s { ... }", f->name,
                     luaL_typename(L, 1), f->name);
    lua_settop(L, keep);
    for (lua_pushnil(L); lua_next(L, 1); lua_pop(L, 1)) {
        if (lua_type(L, -2) != LUA_TSTRING)
            cs_lua_error(L, "%s: arguments have names; position %d has none", f->name,
                         (int)lua_tointeger(L, -2));
        const struct cs_arg *arg = find_arg(f, lua_tostring(L, -2));
        if (!arg)
            unknown_key(L, f, lua_tostring(L, -2));
        else {
            check_value(L, f, arg);
            spell_out(L, arg);
        }
    }
    for (int i = 0; i < f->n_args; i++) {
        if (!f->args[i].is_required)
            continue;
        lua_pushstring(L, f->args[i].key);
        if (lua_rawget(L, 1) == LUA_TNIL)
            cs_lua_error(L, "%s: '%s' is missing (%s)", f->name, f->args[i].key, f->args[i].help);
        lua_pop(L, 1);
    }
    note_defaults(L, f);
}

void cs_lua_args_check(lua_State *L, const struct cs_lua_function *f)
{
    check_args(L, f, 1);
}

void cs_lua_args_check_method(lua_State *L, const struct cs_lua_function *f)
{
    lua_settop(L, 2);
    lua_insert(L, 1);
    check_args(L, f, 2); /* what is off the stack may be collected */
}

/* Raw: a metatable must not run code, nor make values that nothing keeps alive. */
static int push_field(lua_State *L, const char *key)
{
    lua_pushstring(L, key);
    return lua_rawget(L, 1);
}

bool cs_lua_args_has(lua_State *L, const char *key)
{
    const bool is_there = push_field(L, key) != LUA_TNIL;
    lua_pop(L, 1);
    return is_there;
}

const char *cs_lua_args_string(lua_State *L, const char *key, const char *fallback)
{
    const char *text = push_field(L, key) == LUA_TSTRING ? lua_tostring(L, -1) : fallback;
    lua_pop(L, 1); /* the argument table keeps the string alive */
    return text;
}

lua_Integer cs_lua_args_int(lua_State *L, const char *key, lua_Integer fallback)
{
    lua_Integer v = push_field(L, key) == LUA_TNUMBER ? lua_tointeger(L, -1) : fallback;
    lua_pop(L, 1);
    return v;
}

double cs_lua_args_number(lua_State *L, const char *key, double fallback)
{
    double v = push_field(L, key) == LUA_TNUMBER ? lua_tonumber(L, -1) : fallback;
    lua_pop(L, 1);
    return v;
}

bool cs_lua_args_bool(lua_State *L, const char *key, bool fallback)
{
    bool v = push_field(L, key) == LUA_TBOOLEAN ? lua_toboolean(L, -1) : fallback;
    lua_pop(L, 1);
    return v;
}

struct cs_lua_value *cs_lua_args_value(lua_State *L, const char *key)
{
    push_field(L, key);
    struct cs_lua_value *value = cs_lua_value_test(L, -1);
    lua_pop(L, 1);
    return value;
}

json_t *cs_lua_args_json(lua_State *L, const char *key, const struct cs_lua_function *f)
{
    const char *why;
    if (push_field(L, key) == LUA_TNIL)
        return NULL;
    struct cs_lua_value *box = cs_lua_value_new(L, CS_LUA_BOX, NULL);
    box->json = cs_lua_to_json(L, -2, &why);
    if (!box->json)
        cs_lua_error(L, "%s: '%s': %s", f->name, key, why);
    lua_remove(L, -2);
    return box->json;
}

json_t *cs_lua_args_object(lua_State *L, const char *key, const struct cs_lua_function *f,
                           const char *example)
{
    json_t *value = cs_lua_args_json(L, key, f);
    if (value == NULL || json_is_object(value))
        return value;
    if (json_array_size(value) > 0)
        cs_lua_error(L, "%s: '%s' has names: %s = %s", f->name, key, key, example);
    struct cs_lua_value *box = cs_lua_value_test(L, -1); /* {} is a list and an object in Lua */
    json_decref(box->json);
    return box->json = json_object();
}

void cs_lua_args_copy(lua_State *L, const struct cs_lua_function *f, json_t *object)
{
    for (int i = 0; i < f->n_args; i++) {
        const struct cs_arg *arg = &f->args[i];
        push_field(L, arg->key);
        if (arg->type == CS_ARG_STRING && lua_isstring(L, -1))
            json_object_set_new(object, arg->key, json_string(lua_tostring(L, -1)));
        else if (arg->type == CS_ARG_INT && lua_isnumber(L, -1))
            json_object_set_new(object, arg->key, json_integer(lua_tointeger(L, -1)));
        else if ((arg->type == CS_ARG_NUMBER || arg->type == CS_ARG_LIMIT) && lua_isnumber(L, -1))
            json_object_set_new(object, arg->key, json_real(lua_tonumber(L, -1)));
        else if ((arg->type == CS_ARG_BOOL || arg->type == CS_ARG_LIMIT) && lua_isboolean(L, -1))
            json_object_set_new(object, arg->key, json_boolean(lua_toboolean(L, -1)));
        lua_pop(L, 1);
    }
}

/* Checked argument tables: every constructor of the DSL is one row list of keys with type, range,
 * default and help. Checking, nearest-name hints, lua/meta and the manual come from these rows. */
#ifndef CS_LUA_BASE_ARGS_H
#define CS_LUA_BASE_ARGS_H

#include <jansson.h>
#include <lua.h>

#include "lua/base/value.h"

/* No number of a script is larger: sums and products of them stay finite. */
#define CS_ARG_MOST 1e15

enum cs_arg_type {
    CS_ARG_STRING, /* choices: "a|b|c" in values */
    CS_ARG_INT,
    CS_ARG_NUMBER,
    CS_ARG_BOOL,
    CS_ARG_TABLE, /* plain data */
    CS_ARG_VALUE, /* a DSL value of kind */
    CS_ARG_LIST,  /* array of numbers, booleans or tables: checked by the function */
    CS_ARG_FUNCTION,
    CS_ARG_LIMIT, /* a number, or false: off */
    CS_ARG_NAMED, /* plain data, or a string that is short for { name = STRING } */
    CS_ARG_PLAIN, /* a string, a number, true or false */
};

struct cs_arg {
    const char *key;
    enum cs_arg_type type;
    bool is_required;
    const char *
        values; /* STRING: allowed choices; VALUE: what makes it, where its kind does not say all; else NULL */
    double min, max;       /* of INT, NUMBER, items of a LIST; both 0: see cs_lua_check_range */
    enum cs_lua_kind kind; /* VALUE */
    const char *fallback;  /* default as Lua text, for the documentation; NULL: none */
    const char *help;
};

struct cs_lua_function {
    const char *name; /* "cs.plan" */
    const char *help;
    const char *returns; /* type name for editors */
    const struct cs_arg *args;
    int n_args;
    lua_CFunction call;
    const char *positional; /* "dir string": one plain argument instead of a table; NULL: a table */
};

/* The table at index 1 against the rows; raises file:line: cs.plan: unknown key 'sedd'; did you
 * mean 'seed'? Afterwards every present key has the right type. */
void cs_lua_args_check(lua_State *L, const struct cs_lua_function *function);
/* The same for a method: a value at index 1, the table at 2. Afterwards the table is at 1 and the value,
 * which nothing else may keep alive, at 2. */
void cs_lua_args_check_method(lua_State *L, const struct cs_lua_function *function);

/* The row of a key; raises when there is none. */
const struct cs_arg *cs_lua_arg(lua_State *L, const struct cs_lua_function *function,
                                const char *key);
/* Raises unless the number lies in the row's range; without one the items of a list are 0 to
 * CS_ARG_MOST, other numbers may be negative too. item: from 1, 0: it is no list's. */
void cs_lua_check_range(lua_State *L, const struct cs_lua_function *function,
                        const struct cs_arg *arg, int item, double value);

/* What a call left to its function, for people: the check notes the fallbacks of all keys that are not
 * there, a function that takes something else notes that. value NULL: it is no default after all, a
 * directory said it. */
void cs_lua_args_default(lua_State *L, const struct cs_lua_function *function, const char *key,
                         const char *value);

/* Readers for a checked table at index 1. Absent: fallback. */
bool cs_lua_args_has(lua_State *L, const char *key);
const char *cs_lua_args_string(lua_State *L, const char *key, const char *fallback);
lua_Integer cs_lua_args_int(lua_State *L, const char *key, lua_Integer fallback);
double cs_lua_args_number(lua_State *L, const char *key, double fallback);
bool cs_lua_args_bool(lua_State *L, const char *key, bool fallback);
/* a DSL value, kept alive by the argument table; NULL when absent */
struct cs_lua_value *cs_lua_args_value(lua_State *L, const char *key);
/* plain data as JSON inside a box pushed on the stack (so that errors cannot leak); NULL when
 * absent, then nil is pushed. Borrowed reference. */
json_t *cs_lua_args_json(lua_State *L, const char *key, const struct cs_lua_function *function);

/* The same of a table of names, {} too; raises when it is a list. example: what a right one looks like */
json_t *cs_lua_args_object(lua_State *L, const char *key, const struct cs_lua_function *function,
                           const char *example);

/* Add key to object when present in the table: numbers, strings, booleans as they are. */
void cs_lua_args_copy(lua_State *L, const struct cs_lua_function *function, json_t *object);

#endif

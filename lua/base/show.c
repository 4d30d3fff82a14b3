/* Walks a value once, into JSON or into a tree of texts: {"key = ", node, ...} for a table, a string
 * for all else. The tree hangs on a box on the stack, since what a script has in __tostring may
 * raise; writing it out is plain C. */
#include "lua/base/show.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/buf.h"
#include "core/base/str.h"
#include "core/plan/json/plan_json.h"
#include "lua/base/json.h"
#include "lua/base/value.h"

enum { MAX_DEPTH = 16, MAX_SHOWN = 100000, LINE = 80, STACK_A_LEVEL = 12 };

struct walk {
    lua_State *L;
    bool is_text;
    int left; /* items that may still be shown */
    const void *path[MAX_DEPTH + 1];
    struct cs_arena *arena; /* of the keys that are sorted */
};

static json_t *walk(struct walk *w, int index, int depth);

/* Text that stands for a value. */
static json_t *words(const char *text)
{
    return json_string(text);
}

static bool has_metafield(lua_State *L, int index, const char *name)
{
    bool has = luaL_getmetafield(L, index, name) != LUA_TNIL;
    if (has)
        lua_pop(L, 1);
    return has;
}

static json_t *tolstring(struct walk *w, int index)
{
    size_t n;
    struct cs_buf safe = {0};
    const char *text = luaL_tolstring(w->L, index, &n);
    cs_str_clean(&safe, text, n);
    json_t *out = json_stringn(cs_buf_str(&safe), safe.len);
    cs_buf_free(&safe);
    lua_pop(w->L, 1);
    return out;
}

static json_t *string_leaf(struct walk *w, int index)
{
    size_t n;
    const char *text = lua_tolstring(w->L, index, &n);
    struct cs_buf out = {0};
    if (w->is_text) {
        cs_buf_addc(&out, '"');
        cs_str_escape(&out, text, n, true);
        cs_buf_addc(&out, '"');
    } else if (cs_utf8_valid(text, n)) {
        cs_buf_add(&out, text, n);
    } else {
        cs_str_escape(&out, text, n, false);
    }
    json_t *leaf = json_stringn(cs_buf_str(&out), out.len);
    cs_buf_free(&out);
    return leaf;
}

static json_t *number_leaf(struct walk *w, int index)
{
    if (w->is_text || (!lua_isinteger(w->L, index) && !isfinite(lua_tonumber(w->L, index))))
        return tolstring(w, index);
    return lua_isinteger(w->L, index) ? json_integer(lua_tointeger(w->L, index))
                                      : json_real(lua_tonumber(w->L, index));
}

static json_t *function_leaf(struct walk *w, int index)
{
    lua_Debug ar;
    char text[128];
    lua_pushvalue(w->L, index);
    lua_getinfo(w->L, ">S", &ar);
    if (ar.linedefined > 0)
        snprintf(text, sizeof text, "<function %s:%d>", ar.short_src, ar.linedefined);
    else
        snprintf(text, sizeof text, "<function>");
    return words(text);
}

/* One of ours: its summary, or what it is made of. */
static json_t *value_node(struct walk *w, const struct cs_lua_value *value, int index, int depth)
{
    const char *name = cs_lua_kind_name(value->kind);
    if (!w->is_text) {
        json_t *body = value->kind == CS_LUA_PLAN ? cs_plan_json(value->plan, value->graph)
                                                  : json_deep_copy(value->json);
        return json_pack("{s:s, s:o}", "kind", name, "value", body ? body : json_null());
    }
    json_t *text = tolstring(w, index);
    if (strcmp(json_string_value(text), name) != 0 || !json_is_object(value->json))
        return text;
    json_decref(text);
    cs_lua_push_json(w->L, value->json);
    json_t *body = walk(w, lua_gettop(w->L), depth);
    lua_pop(w->L, 1);
    if (json_is_array(body))
        json_array_insert_new(body, 0, json_string(name)); /* an odd length: it has a name */
    return body;
}

struct key {
    int type, place; /* place: in the list of keys */
    double number;
    const char *text;
};

/* numbers, then strings, then what else can be a key */
static int rank(int type)
{
    return type == LUA_TNUMBER ? 0 : type == LUA_TSTRING ? 1 : 2;
}

static int by_key(const void *a, const void *b)
{
    const struct key *x = a, *y = b;
    if (rank(x->type) != rank(y->type))
        return rank(x->type) < rank(y->type) ? -1 : 1;
    if (x->type == LUA_TNUMBER && (x->number < 1) != (y->number < 1))
        return y->number < 1 ? -1 : 1; /* those of a list come first */
    if (x->type == LUA_TNUMBER)
        return x->number < y->number ? -1 : x->number > y->number;
    if (x->type == LUA_TSTRING)
        return strcmp(x->text, y->text);
    return x->place < y->place ? -1 : 1;
}

/* Pushes the list of the keys of a table, which keeps them alive, and sorts them. */
static struct key *sorted_keys(struct walk *w, int index, int *n)
{
    lua_State *L = w->L;
    int count = 0;
    for (lua_pushnil(L); lua_next(L, index); lua_pop(L, 1))
        count++;
    struct key *key = CS_NEW_ARRAY(w->arena, struct key, count + 1);
    lua_createtable(L, count, 0);
    int list = lua_gettop(L);
    *n = 0;
    for (lua_pushnil(L); *n < count && lua_next(L, index); lua_pop(L, 1)) {
        int type = lua_type(L, -2);
        key[*n] = (struct key){.type = type, .place = *n + 1};
        if (type == LUA_TNUMBER)
            key[*n].number = lua_tonumber(L, -2);
        if (type == LUA_TSTRING)
            key[*n].text = lua_tostring(L, -2);
        lua_pushvalue(L, -2);
        lua_rawseti(L, list, ++*n);
    }
    lua_settop(L, list);
    qsort(key, (size_t)*n, sizeof *key, by_key);
    return key;
}

static bool is_name(const char *text)
{
    size_t n = strlen(text);
    return n > 0 && !(text[0] >= '0' && text[0] <= '9') &&
           strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == n;
}

/* The key on top as it stands before its value. */
static void add_key(struct walk *w, struct cs_buf *out)
{
    size_t len;
    json_t *leaf = NULL;
    const char *text = lua_type(w->L, -1) == LUA_TSTRING ? lua_tolstring(w->L, -1, &len) : NULL;
    if (text && w->is_text && is_name(text) && strlen(text) == len) {
        cs_buf_addf(out, "%s = ", text);
        return;
    }
    bool is_leaf = text || lua_type(w->L, -1) == LUA_TNUMBER;
    leaf = text ? string_leaf(w, lua_gettop(w->L))
                : (is_leaf ? tolstring(w, lua_gettop(w->L)) : words(luaL_typename(w->L, -1)));
    cs_buf_addf(out, w->is_text ? "[%s] = " : "%s", json_string_value(leaf));
    json_decref(leaf);
}

/* The value of the key on top, which is popped, into the node of its table. */
static void add_item(struct walk *w, json_t *node, int index, int depth, bool is_in_place)
{
    struct cs_buf name = {0};
    lua_State *L = w->L;
    if (!is_in_place)
        add_key(w, &name);
    const char *key = cs_arena_strndup(w->arena, cs_buf_str(&name), name.len);
    cs_buf_free(&name); /* what follows may raise */
    lua_rawget(L, index);
    if (w->is_text)
        json_array_append_new(node, json_string(key));
    json_t *value = walk(w, lua_gettop(L), depth + 1);
    if (json_is_array(node))
        json_array_append_new(node, value);
    else
        json_object_set_new(node, key, value);
    lua_pop(L, 1);
}

static json_t *table_node(struct walk *w, int index, int depth)
{
    int n;
    lua_State *L = w->L;
    for (int i = 0; i < depth; i++)
        if (w->path[i] == lua_topointer(L, index))
            return words("<cycle>");
    if (depth == MAX_DEPTH)
        return words("{...}");
    w->path[depth] = lua_topointer(L, index);
    struct key *key = sorted_keys(w, index, &n);
    int list = lua_gettop(L), n_places = 0;
    while (n_places < n && key[n_places].type == LUA_TNUMBER &&
           key[n_places].number == n_places + 1)
        n_places++;
    struct cs_lua_value *box = cs_lua_value_new(L, CS_LUA_BOX, NULL);
    box->json = w->is_text || n_places == n ? json_array() : json_object();
    for (int i = 0; i < n; i++) {
        if (w->left-- <= 0) {
            if (w->is_text)
                json_array_append_new(box->json, json_string(""));
            if (json_is_array(box->json))
                json_array_append_new(box->json, json_string("..."));
            break;
        }
        lua_rawgeti(L, list, key[i].place);
        add_item(w, box->json, index, depth, i < n_places && json_is_array(box->json));
    }
    json_t *node = json_incref(box->json);
    lua_settop(L, list - 1);
    return node;
}

static json_t *walk(struct walk *w, int index, int depth)
{
    lua_State *L = w->L;
    const struct cs_lua_value *value = cs_lua_value_test(L, index);
    luaL_checkstack(L, STACK_A_LEVEL, "nested too deeply");
    if (value)
        return value_node(w, value, index, depth);
    switch (lua_type(L, index)) {
    case LUA_TNIL:
        return w->is_text ? words("nil") : json_null();
    case LUA_TBOOLEAN:
        return w->is_text ? tolstring(w, index) : json_boolean(lua_toboolean(L, index));
    case LUA_TNUMBER:
        return number_leaf(w, index);
    case LUA_TSTRING:
        return string_leaf(w, index);
    case LUA_TFUNCTION:
        return function_leaf(w, index);
    case LUA_TTABLE:
        return has_metafield(L, index, "__tostring") ? tolstring(w, index)
                                                     : table_node(w, index, depth);
    case LUA_TTHREAD:
        return words("<coroutine>");
    default:
        return words("<userdata>");
    }
}

/* node in one line */
static void add_flat(struct cs_buf *out, const json_t *node)
{
    if (json_is_string(node)) {
        cs_buf_add(out, json_string_value(node), json_string_length(node));
        return;
    }
    size_t n = json_array_size(node), first = n % 2;
    if (first)
        cs_buf_addf(out, "%s ", json_string_value(json_array_get(node, 0)));
    cs_buf_addc(out, '{');
    for (size_t i = first; i < n; i += 2) {
        cs_buf_addf(out, "%s%s", i > first ? ", " : "", json_string_value(json_array_get(node, i)));
        add_flat(out, json_array_get(node, i + 1));
    }
    cs_buf_addc(out, '}');
}

/* in one line where it fits, else an item a line */
static void add_node(struct cs_buf *out, const json_t *node, int indent, size_t before)
{
    struct cs_buf flat = {0};
    add_flat(&flat, node);
    size_t n = json_array_size(node), first = n % 2;
    if (n == 0 || (size_t)indent + before + flat.len <= LINE) {
        cs_buf_add(out, cs_buf_str(&flat), flat.len);
        cs_buf_free(&flat);
        return;
    }
    cs_buf_free(&flat);
    if (first)
        cs_buf_addf(out, "%s ", json_string_value(json_array_get(node, 0)));
    cs_buf_adds(out, "{\n");
    for (size_t i = first; i < n; i += 2) {
        const char *key = json_string_value(json_array_get(node, i));
        cs_buf_addf(out, "%*s%s", indent + 2, "", key);
        add_node(out, json_array_get(node, i + 1), indent + 2, strlen(key) + 1);
        cs_buf_addf(out, "%s\n", i + 2 < n ? "," : "");
    }
    cs_buf_addf(out, "%*s}", indent, "");
}

static json_t *tree(lua_State *L, int index, bool is_text, struct cs_lua_value *box)
{
    struct walk w = {.L = L, .is_text = is_text, .left = MAX_SHOWN};
    box->arena = w.arena = cs_arena_new(0);
    return box->json = walk(&w, index, 0);
}

void cs_lua_push_shown(lua_State *L, int index)
{
    index = lua_absindex(L, index);
    int type = lua_type(L, index);
    if (type != LUA_TTABLE && type != LUA_TUSERDATA && type != LUA_TFUNCTION &&
        type != LUA_TTHREAD) {
        luaL_tolstring(L, index, NULL);
        return;
    }
    struct cs_lua_value *box = cs_lua_value_new(L, CS_LUA_BOX, NULL);
    struct cs_buf text = {0};
    add_node(&text, tree(L, index, true, box), 0, 0);
    const char *kept = cs_arena_strndup(box->arena, cs_buf_str(&text), text.len);
    size_t len = text.len;
    cs_buf_free(&text); /* pushing may raise */
    lua_pushlstring(L, kept, len);
    lua_remove(L, -2);
}

json_t *cs_lua_shown_json(lua_State *L, int index)
{
    index = lua_absindex(L, index);
    struct cs_lua_value *box = cs_lua_value_new(L, CS_LUA_BOX, NULL);
    json_t *out = json_incref(tree(L, index, false, box));
    lua_pop(L, 1);
    return out;
}

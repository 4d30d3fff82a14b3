/* cs.lab.mask, balance, assign: masks to work, blocks to ranks, samples to replicas and slots, on
 * plain tables. Ranks, replicas, slots count from 0 in results; whole numbers are Lua integers.
 * Everything a call allocates hangs on one box on the stack, so that an error cannot leak it. */
#include "lua/bind/bind.h"

#include <math.h>
#include <string.h>

#include "core/mask/span.h"
#include "core/plan/tokens/balance.h"
#include "core/spread/assign_replicas.h"
#include "core/spread/defer.h"
#include "lua/base/lists.h"

enum {
    MAX_ITEMS = 65536,
    MAX_SPANS = 16384,
    MAX_TOKENS = 1 << 20,
    MAX_DENSE = 256, /* tokens up to which the whole matrix is returned */
    MAX_TILES = 1 << 22,
    MAX_CELLS = 65536,
    MAX_STEPS = 1 << 28,
    MAX_VISITS = 1 << 30
};

static int call_mask(lua_State *L);
static int call_balance(lua_State *L);
static int call_assign(lua_State *L);

/* clang-format off */
static const struct cs_arg mask_args[] = {
    {"spans", CS_ARG_LIST, true, NULL, 0, 0, 0, NULL, "{ { \"text\", 2 }, { \"vision\", 576 }, { \"pad\", 3 }, ... }; doc = and item = inside a span: packed document, index of the image"},
    {"rule", CS_ARG_STRING, false, "causal|full|cornstarch|image_bidir|packed|window|prefix|item|modality_bidir|image_bidir_window|image_window", 0, 0, 0, "\"cornstarch\"", "who sees whom"},
    {"sees", CS_ARG_STRING, false, "all|text", 0, 0, 0, "\"all\"", "what text sees under rules that look at modalities"},
    {"window", CS_ARG_INT, false, NULL, 1, MAX_TOKENS, 0, NULL, "tokens, with rule = \"window\""},
    {"prefix", CS_ARG_INT, false, NULL, 1, MAX_TOKENS, 0, NULL, "tokens, with rule = \"prefix\""},
    {"tile", CS_ARG_LIST, false, NULL, 0, 0, 0, "{ 128, 32 }", "queries and keys of a tile"},
};
static const struct cs_arg balance_args[] = {
    {"work", CS_ARG_LIST, true, NULL, 0, 0, 0, NULL, "work of every block of tokens"},
    {"ranks", CS_ARG_INT, true, NULL, 1, MAX_ITEMS, 0, NULL, "ranks that share them"},
    {"how", CS_ARG_STRING, false, "best|uniform|zigzag|striped|lpt|exact|random", 0, 0, 0, "\"best\"", "the layout, or the best of all but random"},
    {"cap", CS_ARG_INT, false, NULL, 1, MAX_ITEMS, 0, "none", "most blocks of a rank"},
    {"nodes", CS_ARG_INT, false, NULL, 1, 1e8, 0, "4096, exact: 1048576", "of the search, at most"},
    {"seed", CS_ARG_INT, false, NULL, 0, 9007199254740992.0, 0, "0", "of random"},
};
static const struct cs_arg assign_args[] = {
    {"samples", CS_ARG_LIST, true, NULL, 0, 0, 0, NULL, "{ { enc = 3, llm = 5 }, ... }; tokens = in every sample: a third dimension of list2d"},
    {"lanes", CS_ARG_INT, true, NULL, 1, MAX_CELLS, 0, NULL, "data-parallel replicas"},
    {"slots", CS_ARG_INT, true, NULL, 1, MAX_CELLS, 0, NULL, "slots of a replica"},
    {"how", CS_ARG_STRING, false, "list2d|random|lpt|lpt_enc|lpt_lanes|disttrain|entrain|entrain_literal", 0, 0, 0, "\"list2d\"", "the policy"},
    {"defer", CS_ARG_BOOL, false, NULL, 0, 0, 0, "false", "pairwise deferral afterwards: adds llm_slot and enc_back"},
    {"order", CS_ARG_STRING, false, "kept|sorted|disttrain|searched", 0, 0, 0, "\"kept\"", "of the slots of a replica afterwards; searched: hill climbing on the makespan"},
    {"rounds", CS_ARG_INT, false, NULL, 1, 100000, 0, "300", "makespans that searched tries for a replica"},
    {"enc_stages", CS_ARG_INT, false, NULL, 1, 4096, 0, "1", "of the pipeline, for orders and the makespan"},
    {"llm_stages", CS_ARG_INT, false, NULL, 1, 4096, 0, "1", "of the pipeline, for orders and the makespan"},
    {"enc_backward", CS_ARG_NUMBER, false, NULL, 0, 1000, 0, "2", "backward over forward; 0: frozen"},
    {"llm_backward", CS_ARG_NUMBER, false, NULL, 0, 1000, 0, "2", "backward over forward"},
    {"seed", CS_ARG_INT, false, NULL, 0, 9007199254740992.0, 0, "0", "of random and searched"},
};

enum { F_MASK, F_BALANCE, F_ASSIGN };

static const struct cs_lua_function functions[] = {
    {"cs.lab.mask", "allowed pairs, matrix, tile map and work of a mask made of spans", "table", mask_args, CS_ARRAY_LEN(mask_args), call_mask, NULL},
    {"cs.lab.balance", "blocks of tokens to context-parallel ranks: owner of every block, load of every rank", "table", balance_args, CS_ARRAY_LEN(balance_args), call_balance, NULL},
    {"cs.lab.assign", "samples of a step to replicas (lanes) and slots: lane, slot, work of every slot, makespan of the slowest replica under 1F1B, even: of equal slots", "table", assign_args, CS_ARRAY_LEN(assign_args), call_assign, NULL},
};

/* clang-format on */

struct cs_lua_area cs_lua_area_lab_data(void)
{
    return (struct cs_lua_area){functions, CS_ARRAY_LEN(functions)};
}

static void set_integers(lua_State *L, const char *key, const int32_t *value, int n)
{
    lua_createtable(L, n, 0);
    for (int i = 0; i < n; i++) {
        lua_pushinteger(L, value[i]);
        lua_rawseti(L, -2, i + 1);
    }
    lua_setfield(L, -2, key);
}

/* Item i (from 0) of the list on top must be a table: pushed. */
static void push_item(lua_State *L, const struct cs_lua_function *f, const char *key, int i)
{
    if (lua_rawgeti(L, -1, i + 1) != LUA_TTABLE)
        cs_lua_error(L, "%s: '%s' item %d must be a table, got %s", f->name, key, i + 1,
                     luaL_typename(L, -1));
}

/* A whole number of the table on top, by name or (name NULL) by place; fallback when absent. */
static int32_t whole(lua_State *L, const struct cs_lua_function *f, const char *list, int i,
                     const char *name, int32_t fallback)
{
    int is_whole = 0;
    lua_pushstring(L, name ? name : "");
    const int type = name ? lua_rawget(L, -2) : (lua_pop(L, 1), lua_rawgeti(L, -1, 2));
    const lua_Integer value = lua_tointegerx(L, -1, &is_whole);
    lua_pop(L, 1);
    if (type == LUA_TNIL && name)
        return fallback;
    if (type != LUA_TNUMBER || !is_whole || value < 0 || value > MAX_TOKENS)
        cs_lua_error(L, "%s: '%s' item %d: %s must be a whole number from 0 to %d", f->name, list,
                     i + 1, name ? name : "the second value", (int)MAX_TOKENS);
    return (int32_t)value;
}

/* Names of modalities in order of appearance; borrowed from the argument table. */
struct names {
    const char *name[CS_MASK_MODALITIES];
    int n;
};

static int32_t modality_of(lua_State *L, const struct cs_lua_function *f, struct names *names,
                           int i)
{
    if (lua_rawgeti(L, -1, 1) != LUA_TSTRING)
        cs_lua_error(L,
                     "%s: 'spans' item %d must start with \"text\", \"pad\" or the name of a "
                     "modality, got %s",
                     f->name, i + 1, luaL_typename(L, -1));
    const char *name = lua_tostring(L, -1);
    lua_pop(L, 1); /* still held by the span */
    if (strcmp(name, "text") == 0)
        return CS_SPAN_TEXT;
    if (strcmp(name, "pad") == 0)
        return CS_SPAN_PADDING;
    int m = 0;
    while (m < names->n && strcmp(name, names->name[m]) != 0)
        m++;
    if (m == CS_MASK_MODALITIES)
        cs_lua_error(L, "%s: 'spans' item %d: more than %d modalities", f->name, i + 1,
                     (int)CS_MASK_MODALITIES);
    if (m == names->n)
        names->name[names->n++] = name;
    return m;
}

static struct cs_mask_span *read_spans(lua_State *L, const struct cs_lua_function *f,
                                       struct cs_arena *arena, int *n)
{
    struct names names = {.n = 0};
    int64_t tokens = 0;
    int32_t doc = 0;
    *n = cs_lua_push_list(L, f, "spans", MAX_SPANS);
    struct cs_mask_span *span = CS_NEW_ARRAY(arena, struct cs_mask_span, *n + 1);
    for (int i = 0; i < *n; i++) {
        push_item(L, f, "spans", i);
        span[i].modality = modality_of(L, f, &names, i);
        span[i].tokens = whole(L, f, "spans", i, NULL, 0);
        span[i].doc = doc = whole(L, f, "spans", i, "doc", doc);
        span[i].item = whole(L, f, "spans", i, "item", CS_SPAN_OWN_ITEM);
        tokens += span[i].tokens;
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
    if (tokens > MAX_TOKENS)
        cs_lua_error(L, "%s: the spans hold more than %d tokens", f->name, (int)MAX_TOKENS);
    return span;
}

static void read_tile(lua_State *L, const struct cs_lua_function *f, int32_t tile[2])
{
    const int n = cs_lua_push_list(L, f, "tile", 2);
    if (n >= 0 && n != 2)
        cs_lua_error(L, "%s: 'tile' must have two numbers, queries and keys", f->name);
    for (int i = 0; i < n; i++) {
        int is_whole = 0;
        lua_rawgeti(L, -1, i + 1);
        const lua_Integer value = lua_tointegerx(L, -1, &is_whole);
        lua_pop(L, 1);
        if (!is_whole || value < 1 || value > MAX_TOKENS)
            cs_lua_error(L, "%s: 'tile' item %d must be a whole number from 1 to %d", f->name,
                         i + 1, (int)MAX_TOKENS);
        tile[i] = (int32_t)value;
    }
    lua_pop(L, 1);
}

/* Strings, one per row: dense rows of the mask, or rows of the tile map (mask NULL). */
static void set_rows(lua_State *L, const char *key, const struct cs_mask_plan *mask,
                     const struct cs_mask_tiles *tiles, struct cs_arena *arena)
{
    const int32_t n = mask ? mask->n_tokens : tiles->n_q;
    lua_createtable(L, n, 0);
    for (int32_t i = 0; i < n; i++) {
        struct cs_buf text = {0};
        if (mask)
            cs_mask_text_row(mask, i, &text);
        else
            cs_mask_text_tiles(tiles, i, &text);
        const char *kept = cs_arena_strdup(arena, cs_buf_str(&text)); /* pushing may raise */
        cs_buf_free(&text);
        lua_pushstring(L, kept);
        lua_rawseti(L, -2, i + 1);
    }
    lua_setfield(L, -2, key);
}

static void set_work(lua_State *L, const struct cs_mask_plan *mask,
                     const struct cs_mask_tiles *tiles, const int32_t *row_pairs,
                     struct cs_arena *arena)
{
    int64_t *sum = CS_NEW_ARRAY(arena, int64_t, tiles->n_q);
    double *pairs = CS_NEW_ARRAY(arena, double, tiles->n_q),
           *active = CS_NEW_ARRAY(arena, double, tiles->n_q);
    cs_mask_block_pairs(row_pairs, mask->n_tokens, tiles->q_rows, sum);
    for (int32_t q = 0; q < tiles->n_q; q++) {
        const struct cs_mask_tile_counts c = cs_mask_tiles_count(tiles, q);
        pairs[q] = (double)sum[q];
        active[q] = (double)(c.count[CS_TILE_PARTIAL] + c.count[CS_TILE_ALL]);
    }
    cs_lua_set_numbers(L, "pairs", pairs, tiles->n_q);
    cs_lua_set_numbers(L, "work", active, tiles->n_q);
}

static int call_mask(lua_State *L)
{
    const struct cs_lua_function *f = &functions[F_MASK];
    struct cs_err err;
    struct cs_mask_plan mask;
    struct cs_mask_runs runs;
    struct cs_mask_tiles tiles;
    int32_t tile[2] = {128, 32};
    int n = 0;
    cs_lua_args_check(L, f);
    struct cs_arena *arena = cs_lua_scratch(L);
    const struct cs_mask_span *span = read_spans(L, f, arena, &n);
    struct cs_mask_rule rule = {.window = (int32_t)cs_lua_args_int(L, "window", 0),
                                .prefix = (int32_t)cs_lua_args_int(L, "prefix", 0)};
    const bool is_narrow = strcmp(cs_lua_args_string(L, "sees", "all"), "text") == 0;
    if (!cs_mask_kind_from_name(cs_lua_args_string(L, "rule", "cornstarch"), &rule.kind))
        return cs_lua_error(L, "%s: unknown rule", f->name);
    read_tile(L, f, tile);
    if (cs_mask_from_spans(span, n, rule, is_narrow ? CS_TEXT_SEES_TEXT : CS_TEXT_SEES_ALL, arena,
                           &mask, &err) != CS_OK ||
        cs_mask_runs_make(&mask, arena, &runs, &err) != CS_OK)
        return cs_lua_error(L, "%s: %s", f->name, err.text);
    if ((int64_t)((mask.n_tokens - 1) / tile[0] + 1) * ((mask.n_tokens - 1) / tile[1] + 1) >
        MAX_TILES)
        return cs_lua_error(L, "%s: more than %d tiles; make 'tile' larger", f->name,
                            (int)MAX_TILES);
    if (cs_mask_tiles_make(&runs, tile[0], tile[1], arena, &tiles, &err) != CS_OK)
        return cs_lua_error(L, "%s: %s", f->name, err.text);
    int32_t *row_pairs = CS_NEW_ARRAY(arena, int32_t, mask.n_tokens);
    const int64_t allowed = cs_mask_row_pairs(&runs, arena, row_pairs);
    lua_createtable(L, 0, 5);
    lua_pushinteger(L, allowed);
    lua_setfield(L, -2, "allowed");
    if (mask.n_tokens <= MAX_DENSE)
        set_rows(L, "rows", &mask, NULL, arena);
    set_rows(L, "tiles", NULL, &tiles, arena);
    set_work(L, &mask, &tiles, row_pairs, arena);
    return 1;
}

static int call_balance(lua_State *L)
{
    const struct cs_lua_function *f = &functions[F_BALANCE];
    struct cs_err err;
    struct cs_balance_result r;
    int n = -1;
    cs_lua_args_check(L, f);
    struct cs_arena *arena = cs_lua_scratch(L);
    const double *work = cs_lua_numbers(L, f, "work", arena, &n);
    struct cs_balance_options options = {.ranks = (int32_t)cs_lua_args_int(L, "ranks", 1),
                                         .cap = (int32_t)cs_lua_args_int(L, "cap", 0),
                                         .nodes = cs_lua_args_int(L, "nodes", 0),
                                         .seed = (uint64_t)cs_lua_args_int(L, "seed", 0)};
    if (options.nodes * options.ranks > MAX_VISITS)
        return cs_lua_error(L, "%s: %d nodes on %d ranks are too many", f->name, (int)options.nodes,
                            (int)options.ranks);
    if (!cs_balance_how_from_name(cs_lua_args_string(L, "how", "best"), &options.how))
        return cs_lua_error(L, "%s: unknown layout", f->name);
    if (cs_balance(work, n, &options, arena, &r, &err) != CS_OK)
        return cs_lua_error(L, "%s: %s", f->name, err.text);
    lua_createtable(L, 0, 6);
    set_integers(L, "owner", r.owner, n);
    cs_lua_set_numbers(L, "load", r.load, options.ranks);
    cs_lua_push_number(L, r.max);
    lua_setfield(L, -2, "max");
    cs_lua_push_number(L, r.mean);
    lua_setfield(L, -2, "mean");
    lua_pushstring(L, cs_balance_how_name(r.how));
    lua_setfield(L, -2, "how");
    lua_pushboolean(L, r.is_proven);
    lua_setfield(L, -2, "proven");
    return 1;
}

/* enc, llm or tokens of the sample on top; false: absent. */
static bool cost(lua_State *L, const struct cs_lua_function *f, int i, const char *key, double *out)
{
    int is_number = 0;
    lua_pushstring(L, key);
    const int type = lua_rawget(L, -2);
    *out = lua_tonumberx(L, -1, &is_number);
    if (type != LUA_TNIL && (type != LUA_TNUMBER || !is_number))
        cs_lua_error(L, "%s: 'samples' item %d: %s must be a number, got %s", f->name, i + 1, key,
                     luaL_typename(L, -1));
    if (type != LUA_TNIL)
        cs_lua_check_range(L, f, cs_lua_arg(L, f, "samples"), i + 1, *out);
    lua_pop(L, 1);
    return type != LUA_TNIL;
}

static struct cs_assign_samples read_samples(lua_State *L, const struct cs_lua_function *f,
                                             struct cs_arena *arena)
{
    const int n = cs_lua_push_list(L, f, "samples", MAX_ITEMS);
    double *enc = CS_NEW_ARRAY(arena, double, n + 1), *llm = CS_NEW_ARRAY(arena, double, n + 1),
           *tokens = CS_NEW_ARRAY(arena, double, n + 1);
    int with_tokens = 0;
    for (int i = 0; i < n; i++) {
        push_item(L, f, "samples", i);
        if (!cost(L, f, i, "enc", &enc[i]) || !cost(L, f, i, "llm", &llm[i]))
            cs_lua_error(L, "%s: 'samples' item %d needs enc and llm", f->name, i + 1);
        with_tokens += cost(L, f, i, "tokens", &tokens[i]);
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
    if (with_tokens > 0 && with_tokens < n)
        cs_lua_error(L, "%s: %d of %d samples have tokens; give them to all or to none", f->name,
                     with_tokens, n);
    return (struct cs_assign_samples){n, enc, llm, with_tokens > 0 ? tokens : NULL};
}

/* The order of slots, then makespan and even of the result on top. */
static void order_slots(lua_State *L, const struct cs_lua_function *f,
                        const struct cs_assign_samples *samples, struct cs_assign_result *r,
                        struct cs_arena *arena)
{
    struct cs_order_replicas options = {
        .pipe = {.enc_stages = (int32_t)cs_lua_args_int(L, "enc_stages", 1),
                 .llm_stages = (int32_t)cs_lua_args_int(L, "llm_stages", 1),
                 .enc_backward = cs_lua_args_number(L, "enc_backward", 2),
                 .llm_backward = cs_lua_args_number(L, "llm_backward", 2)},
        .rounds = (int32_t)cs_lua_args_int(L, "rounds", 0),
        .seed = (uint64_t)cs_lua_args_int(L, "seed", 0)
    };
    const struct cs_pipe *pipe = &options.pipe;
    const int64_t stages = (int64_t)pipe->enc_stages + pipe->llm_stages;
    const char *name = cs_lua_args_string(L, "order", "kept");
    if (!cs_order_from_name(name, &options.how))
        cs_lua_error(L, "%s: unknown order", f->name);
    if (options.how != CS_ORDER_KEPT && cs_lua_args_bool(L, "defer", false))
        cs_lua_error(L, "%s: 'defer' makes the order of slots itself; leave out 'order'", f->name);
    int64_t runs = options.how == CS_ORDER_SEARCHED
                       ? (options.rounds > 0 ? options.rounds : CS_ORDER_ROUNDS)
                       : (options.how == CS_ORDER_DISTTRAIN ? r->slots : 1);
    if (stages * r->replicas * r->slots > MAX_STEPS / (runs + 1))
        cs_lua_error(L, "%s: order '%s' of %d lanes of %d slots on %d stages is too much work",
                     f->name, name, (int)r->replicas, (int)r->slots, (int)stages);
    cs_order_replicas(samples, &options, arena, r);
    double enc = 0, llm = 0;
    for (int32_t i = 0; i < samples->n; i++) {
        enc += samples->enc[i] / r->replicas;
        llm += samples->llm[i] / r->replicas;
    }
    cs_lua_push_number(L, cs_order_makespan(pipe, r, arena));
    lua_setfield(L, -2, "makespan");
    cs_lua_push_number(L, cs_pipe_even(pipe, r->slots, enc, llm, arena));
    lua_setfield(L, -2, "even");
}

static int call_assign(lua_State *L)
{
    const struct cs_lua_function *f = &functions[F_ASSIGN];
    struct cs_err err;
    struct cs_assign_result r;
    cs_lua_args_check(L, f);
    struct cs_arena *arena = cs_lua_scratch(L);
    const struct cs_assign_samples samples = read_samples(L, f, arena);
    struct cs_assign_options options = {
        .replicas = (int32_t)cs_lua_args_int(L, "lanes", 1),
        .slots = (int32_t)cs_lua_args_int(L, "slots", 1),
        .seed = (uint64_t)cs_lua_args_int(L, "seed", 0),
        .enc_stages = (int32_t)cs_lua_args_int(L, "enc_stages", 1),
        .llm_stages = (int32_t)cs_lua_args_int(L, "llm_stages", 1),
    };
    const int64_t cells = (int64_t)options.replicas * options.slots;
    const bool is_deferred = cs_lua_args_bool(L, "defer", false);
    if (cells > MAX_CELLS ||
        (int64_t)(options.replicas + options.slots) * (samples.n + 1) > MAX_STEPS)
        return cs_lua_error(L, "%s: %d samples on %d lanes of %d slots are too many", f->name,
                            (int)samples.n, (int)options.replicas, (int)options.slots);
    if (!cs_assign_how_from_name(cs_lua_args_string(L, "how", "list2d"), &options.how))
        return cs_lua_error(L, "%s: unknown policy", f->name);
    if (cs_assign(&samples, &options, arena, &r, &err) != CS_OK ||
        (is_deferred && cs_defer(&samples, arena, &r, &err) != CS_OK))
        return cs_lua_error(L, "%s: %s", f->name, err.text);
    lua_createtable(L, 0, 8);
    order_slots(L, f, &samples, &r, arena);
    set_integers(L, "lane", r.replica, samples.n);
    set_integers(L, "slot", r.slot, samples.n);
    cs_lua_set_numbers(L, "enc", r.enc, (int)cells);
    cs_lua_set_numbers(L, "llm", r.llm, (int)cells);
    if (is_deferred) {
        set_integers(L, "llm_slot", r.llm_slot, samples.n);
        cs_lua_set_numbers(L, "enc_back", r.enc_back, (int)cells);
    }
    return 1;
}

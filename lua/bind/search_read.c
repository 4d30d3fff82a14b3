/* Reads the arguments of cs.search and cs.sweep. */
#include "lua/bind/search_read.h"

#include <math.h>
#include <string.h>

#include "core/base/near.h"
#include "core/base/system/io.h"
#include "core/plan/make/place.h"

enum { MAX_FILE_BYTES = 64 << 20, MAX_LIST = 1 << 20 };

static int32_t branch_index(const struct cs_graph *graph, const char *name)
{
    for (int32_t b = 0; b < graph->n_branches; b++)
        if (strcmp(graph->branches[b].name, name) == 0)
            return b;
    return -1;
}

static int32_t *fixed_number(struct cs_search_options *options, int32_t b, const char *key)
{
    const struct {
        const char *key;
        int32_t *at;
    } row[] = {
        {"tp",  &options->fix[b].tp },
        {"cp",  &options->fix[b].cp },
        {"pp",  &options->fix[b].pp },
        {"dp",  &options->fix[b].dp },
        {"vpp", &options->fix[b].vpp},
        {"ep",  &options->fix[b].ep },
    };

    for (size_t i = 0; i < CS_ARRAY_LEN(row); i++)
        if (strcmp(row[i].key, key) == 0)
            return row[i].at;
    return NULL;
}

static void read_place(lua_State *L, const char *name, const json_t *value,
                       struct cs_search_options *options, int32_t b)
{
    for (int p = 0; json_is_string(value) && p < CS_SEARCHED_PLACEMENTS; p++)
        if (strcmp(cs_placement_table[p].name, json_string_value(value)) == 0) {
            options->fix[b].place = 1 + p;
            return;
        }
    cs_lua_error(L, "cs.search: parallel.%s.place is \"own\", \"colocated\" or \"replicated\"",
                 name);
}

static void read_branch(lua_State *L, const char *name, const json_t *row,
                        struct cs_search_options *options, int32_t b)
{
    const char *key;
    json_t *number;
    json_object_foreach((json_t *)(uintptr_t)row, key, number)
    {
        json_int_t n = json_integer_value(number);
        if (strcmp(key, "place") == 0) {
            read_place(L, name, number, options, b);
            continue;
        }
        if (strcmp(key, "sp") == 0) {
            if (!json_is_boolean(number))
                cs_lua_error(L, "cs.search: parallel.%s.sp is true or false", name);
            options->fix[b].sp = 1 + json_is_true(number);
            continue;
        }
        int32_t *at = fixed_number(options, b, key);
        if (!at || !json_is_integer(number) || n < 1 || n > 4096)
            cs_lua_error(L,
                         "cs.search: parallel.%s.%s: tp, cp, pp, dp, vpp and ep are 1 to 4096, sp "
                         "true or false",
                         name, key);
        *at = (int32_t)n;
    }
}

static void refuse_branch(lua_State *L, const char *key, const char *name,
                          const struct cs_graph *graph)
{
    const char *names[CS_MAX_BRANCHES];
    for (int32_t b = 0; b < graph->n_branches; b++)
        names[b] = graph->branches[b].name;
    const char *near = cs_near(name, names, (size_t)graph->n_branches);
    cs_lua_error(L, "cs.search: %s.%s: the model has no branch of this name%s%s", key, name,
                 near ? "; did you mean " : "", near ? near : "");
}

static void read_fixed(lua_State *L, const json_t *parallel, const struct cs_graph *graph,
                       struct cs_search_options *options)
{
    const char *name;
    json_t *row;
    json_object_foreach((json_t *)(uintptr_t)parallel, name, row)
    {
        int32_t b = branch_index(graph, name);
        if (b < 0)
            refuse_branch(L, "parallel", name, graph);
        if (!json_is_object(row))
            cs_lua_error(L, "cs.search: parallel.%s is a table: { tp = 2, pp = 1 }", name);
        read_branch(L, name, row, options, b);
    }
}

json_t *cs_lua_parallel_json(lua_State *L, const struct cs_lua_function *function)
{
    json_t *parallel =
        cs_lua_args_object(L, "parallel", function, "{ vision = { pp = 1 }, llm = { pp = 2 } }");
    const char *name, *key;
    json_t *row, *number;
    void *next;
    json_object_foreach_safe(parallel, next, name, row)
    {
        if (json_is_array(row) && json_array_size(row) == 0) { /* {}: a list to Lua */
            json_object_set_new(parallel, name, json_object());
            continue;
        }
        json_object_foreach(row, key, number)
        {
            const double value =
                json_real_value(number); /* n / 2 is one in Lua, also where it is whole */
            if (json_is_real(number) && fabs(value) < INT32_MAX && value == floor(value))
                json_object_set_new(row, key, json_integer((json_int_t)value));
        }
    }
    return parallel;
}

/* Samples */

static int32_t read_rows(lua_State *L, const char *where, const json_t *value)
{
    json_int_t n = json_integer_value(value);
    if (!json_is_integer(value) || n < 0 || n > INT32_MAX)
        cs_lua_error(L, "cs.search: samples: %s: row counts are whole numbers from 0", where);
    return (int32_t)n;
}

static void read_list(lua_State *L, const json_t *list, const struct cs_graph *graph,
                      struct cs_arena *arena, struct cs_search_samples *out)
{
    size_t n = json_array_size(list), i;
    json_t *sample, *value;
    const char *name;
    if (n < 1 || n > MAX_LIST)
        cs_lua_error(L, "cs.search: samples: 1 to %d of them", MAX_LIST);
    int32_t *row = CS_NEW_ARRAY(arena, int32_t, n * (size_t)graph->n_branches);
    json_array_foreach((json_t *)(uintptr_t)list, i, sample)
    {
        if (!json_is_object(sample))
            cs_lua_error(L, "cs.search: samples: { { vision = 576, llm = 700 }, ... }");
        json_object_foreach(sample, name, value)
        {
            int32_t b = branch_index(graph, name);
            if (b < 0)
                refuse_branch(L, "samples", name, graph);
            row[i * (size_t)graph->n_branches + (size_t)b] = read_rows(L, name, value);
        }
    }
    out->row = row;
    out->n_rows = (int32_t)n;
}

static void read_quantiles(lua_State *L, const json_t *table, const struct cs_graph *graph,
                           struct cs_arena *arena, struct cs_search_samples *out)
{
    const char *name;
    json_t *list;
    json_object_foreach((json_t *)(uintptr_t)table, name, list)
    {
        int32_t b = branch_index(graph, name);
        size_t n = json_array_size(list);
        if (b < 0 || n < 2 || n > MAX_LIST)
            cs_lua_error(L,
                         "cs.search: samples.%s: quantiles of the rows of a branch of the model, "
                         "smallest to largest: { 0, 256, 576 }",
                         name);
        int32_t *value = CS_NEW_ARRAY(arena, int32_t, n);
        for (size_t i = 0; i < n; i++)
            value[i] = read_rows(L, name, json_array_get(list, i));
        out->quantile[b].value = value;
        out->quantile[b].n = (int32_t)n;
    }
}

/* a document (new reference) */
static json_t *read_json(lua_State *L, const char *function, const char *key, const char *path)
{
    struct cs_buf text = {0};
    struct cs_err err;
    json_error_t why;
    json_t *json = NULL;
    enum cs_status status = cs_read_file(path, MAX_FILE_BYTES, &text, &err);
    if (status == CS_OK) {
        json = json_loadb(cs_buf_str(&text), text.len, 0, &why);
        if (!json)
            status = cs_fail(&err, CS_INVALID, "%s:%d: %s", path, why.line, why.text);
    }
    cs_buf_free(&text);
    if (status != CS_OK)
        cs_lua_error(L, "%s: %s: %s%s", function, key, err.text,
                     status == CS_NOT_FOUND && strcmp(key, "profile") == 0
                         ? "; cornstarch-console profile SCRIPT --output FILE writes one"
                         : "");
    return json;
}

/* Jobs leave out what is longer than a slot: a search that counts it finds plans for other data. */
static void check_lengths(lua_State *L, const struct cs_graph *graph,
                          const struct cs_search_samples *samples)
{
    const int32_t seq = (int32_t)cs_lua_args_int(L, "seq_tokens", 8);
    int32_t longest = 0;
    for (int32_t i = 0; i < samples->n_rows; i++) {
        const int32_t rows =
            samples->row[(size_t)i * (size_t)graph->n_branches + (size_t)graph->llm];
        longest = rows > longest ? rows : longest;
    }
    for (int32_t i = 0; samples->n_rows == 0 && i < samples->quantile[graph->llm].n; i++) {
        const int32_t rows = samples->quantile[graph->llm].value[i];
        longest = rows > longest ? rows : longest;
    }
    if (longest > seq)
        cs_lua_error(L,
                     "cs.search: samples: the longest has %d rows of %s, and a slot %d "
                     "(seq_tokens): jobs leave such samples out; leave them out here too, or raise "
                     "seq_tokens",
                     longest, graph->branches[graph->llm].name, seq);
}

static void read_samples(lua_State *L, const struct cs_lua_function *function,
                         const struct cs_graph *graph, struct cs_arena *arena,
                         struct cs_search_options *options, struct cs_search_samples *samples)
{
    const json_t *table = cs_lua_args_json(L, "samples", function);
    const char *path = cs_lua_args_string(L, "samples_file", NULL);
    if (table && path)
        cs_lua_error(L, "cs.search: samples and samples_file: one of them");
    if (path) {
        struct cs_lua_value *box = cs_lua_value_new(L, CS_LUA_BOX, NULL);
        table = box->json = read_json(L, "cs.search", "samples_file", path);
    }
    if (!table) {
        static const char *const of[] = {"batches", "batch_samples", "seed"};
        for (size_t i = 0; i < CS_ARRAY_LEN(of); i++)
            if (cs_lua_args_has(L, of[i]))
                cs_lua_error(L,
                             "cs.search: %s goes with samples or samples_file: without them "
                             "every slot is full",
                             of[i]);
        return;
    }
    *samples =
        (struct cs_search_samples){.n_batches = (int32_t)cs_lua_args_int(L, "batches", 0),
                                   .n_samples = (int32_t)cs_lua_args_int(L, "batch_samples", 0),
                                   .seed = (uint64_t)cs_lua_args_int(L, "seed", 0)};
    if (json_is_array(table))
        read_list(L, table, graph, arena, samples);
    else
        read_quantiles(L, table, graph, arena, samples);
    check_lengths(L, graph, samples);
    options->samples = samples;
}

static void read_names(lua_State *L, struct cs_search_options *options)
{
    const char *modality = cs_lua_args_string(L, "modality", NULL);
    const char *schedule = cs_lua_args_string(L, "schedule", NULL);
    const char *recompute = cs_lua_args_string(L, "recompute", NULL);
    int32_t m;
    enum cs_recompute r;
    enum cs_schedule_id s;
    if (strcmp(cs_lua_args_string(L, "stages", "frozen-aware"), "frozen-blind") == 0)
        options->planner = CS_PLANNER_BLIND;
    (void)cs_planner_from_name(cs_lua_args_string(L, "planner", ""), &options->planner);
    if (modality && cs_search_modality_from_name(modality, &m))
        options->modalities = 1u << m;
    if (schedule && cs_search_schedule_from_name(schedule, &s))
        options->schedules = 1u << s;
    if (recompute && cs_recompute_from_name(recompute, &r))
        options->recomputes = 1u << r;
}

void cs_lua_read_search(lua_State *L, const struct cs_lua_function *function,
                        const struct cs_graph *graph, struct cs_arena *arena,
                        struct cs_search_options *options, struct cs_search_samples *samples)
{
    lua_Integer zero = cs_lua_args_int(L, "zero", -1);
    options->batch_slots = (int32_t)cs_lua_args_int(L, "batch_slots", 1);
    options->dp = (int32_t)cs_lua_args_int(L, "dp", 0);
    options->n_simulate = (int32_t)cs_lua_args_int(L, "simulate", 0);
    options->top = (int32_t)cs_lua_args_int(L, "top", 0);
    options->max_vpp = (int32_t)cs_lua_args_int(L, "max_vpp", 0);
    options->may_leave_node = cs_lua_args_bool(L, "leave_node", false);
    options->only_runs = cs_lua_args_bool(L, "runs", false);
    options->skip_planners = !cs_lua_args_bool(L, "compare", true);
    options->explains = cs_lua_args_bool(L, "explain", true);
    options->zeros = zero >= 0 ? 1u << zero : 0;
    read_names(L, options);
    read_fixed(L, cs_lua_parallel_json(L, function), graph, options);
    read_samples(L, function, graph, arena, options, samples);
}

json_t *cs_lua_profile_json(lua_State *L, const char *function)
{
    const char *path = cs_lua_args_string(L, "profile", NULL);
    if (path && path[0] == '\0')
        cs_lua_error(L,
                     "%s: profile is empty: name a file that cornstarch-console profile wrote, or "
                     "leave it away",
                     function);
    return path && !cs_lua_state_of(L)->skips_profiles ? read_json(L, function, "profile", path)
                                                       : NULL;
}

struct cs_profile *cs_lua_read_profile(lua_State *L, struct cs_arena *arena)
{
    struct cs_profile *profile = NULL;
    struct cs_err err;
    json_t *json = cs_lua_profile_json(L, "cs.search");
    if (!json)
        return NULL;
    enum cs_status status = cs_profile_read(json, arena, &profile, &err);
    json_decref(json);
    if (status != CS_OK)
        cs_lua_error(L, "cs.search: profile: %s", err.text);
    return profile;
}

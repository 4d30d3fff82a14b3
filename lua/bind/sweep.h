/* Found plans as values of scripts: rows of the document that `plan --json` prints. */
#ifndef CS_LUA_SWEEP_H
#define CS_LUA_SWEEP_H

#include <jansson.h>
#include <lua.h>
#include <stdint.h>

enum { CS_SWEEP_METRICS = 5, CS_SWEEP_PLANS = 1000 /* kept at most */, CS_SWEEP_JOBS = 1000 };

/* What plans are ranked by: its name in scripts, the key of a row, and the one over the other. */
struct cs_sweep_metric {
    const char *name, *key;
    double scale;
};

extern const struct cs_sweep_metric cs_sweep_metrics[CS_SWEEP_METRICS];

/* Of a row of plans whose slots hold so many tokens (0: unknown): slot_ns and tokens_per_s. Plans with more slots
 * do more in a step: they are compared by these. */
void cs_lua_sweep_rates(json_t *row, int64_t seq_tokens);
/* Of a function whose argument table has a search as its plan: that table again with the plan that --pick chooses,
 * else the fastest that jobs run, in its place; the state keeps the search. */
void cs_lua_sweep_resolve(lua_State *L);
/* The search at index `sweep` keeps what its arguments (index 1) say of model, cluster and sizes. */
void cs_lua_sweep_keep(lua_State *L, int sweep);
int cs_lua_sweep_plan(lua_State *L); /* the method plan */

#endif

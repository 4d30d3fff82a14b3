/* Functions on strings that are one instruction for the hook: their cost is bounded before they
 * start. */
#include <math.h>
#include <string.h>

#include "core/base/status.h"
#include "lua/base/guard.h"
#include "lua/base/state.h"
#include "lua/base/wrap.h"

enum { MAX_STRING = 1 << 24 };

enum pattern_use { USE_ANCHORED, USE_FIND, USE_GMATCH };

#define MAX_STEPS 2e8 /* of the matcher: about a second */

/* What multiplies the cost of a match by the length: quantifiers, %b and back-references, and a
 * start at every character where ^ does not hold it. The longest set: what a character costs. */
struct pattern_cost {
    int power;
    size_t set;
};

static struct pattern_cost cost_of(const char *pattern, size_t n, bool can_anchor)
{
    struct pattern_cost c = {0, 0};
    size_t open = n;
    for (size_t i = 0; i < n; i++) {
        if (pattern[i] == '%' && i + 1 < n) {
            i++;
            c.power += pattern[i] == 'b' || (pattern[i] >= '1' && pattern[i] <= '9');
        } else if (pattern[i] == '[' && open == n) {
            open = i;
        } else if (pattern[i] == ']' && open < n && i > open + 1) {
            c.set = i - open > c.set ? i - open : c.set;
            open = n;
        } else {
            c.power += pattern[i] != '\0' && strchr("*+-?", pattern[i]) != NULL;
        }
    }
    c.power += c.power > 0 && !(can_anchor && pattern[0] == '^');
    return c;
}

/* One call of find, match, gmatch, gsub: about length ^ power steps. Upvalue 2: enum pattern_use. */
static int bounded_pattern(lua_State *L)
{
    size_t len, pattern_len;
    luaL_checklstring(L, 1, &len);
    const char *pattern = luaL_checklstring(L, 2, &pattern_len);
    lua_Integer use = lua_tointeger(L, lua_upvalueindex(2));
    struct pattern_cost c = cost_of(pattern, pattern_len, use != USE_GMATCH);
    cs_lua_check(L);
    if (use == USE_FIND && lua_toboolean(L, 4))
        c = (struct pattern_cost){0, 0};
    double steps = c.power ? pow((double)len + 1, c.power) * (1 + (double)c.set / 16)
                           : (double)len * (double)pattern_len / 16;
    if (steps > MAX_STEPS)
        return cs_lua_error(L, "the pattern '%s' is too costly on %d characters",
                            pattern_len > 100 ? lua_pushlstring(L, pattern, 100) : pattern,
                            (int)len);
    return cs_lua_call_wrapped(L);
}

static int bounded_rep(lua_State *L)
{
    size_t len, between;
    luaL_checklstring(L, 1, &len);
    lua_Integer n = luaL_checkinteger(L, 2);
    luaL_optlstring(L, 3, "", &between);
    cs_lua_check(L);
    if (n > 0 && (size_t)n > MAX_STRING / (len + between > 0 ? len + between : 1))
        return cs_lua_error(L, "string.rep: the result would be larger than %d bytes", MAX_STRING);
    return cs_lua_call_wrapped(L);
}

void cs_lua_guard_strings(lua_State *L)
{
    cs_lua_wrap(L, "string", "find", bounded_pattern, USE_FIND);
    cs_lua_wrap(L, "string", "match", bounded_pattern, USE_ANCHORED);
    cs_lua_wrap(L, "string", "gsub", bounded_pattern, USE_ANCHORED);
    cs_lua_wrap(L, "string", "gmatch", bounded_pattern, USE_GMATCH);
    cs_lua_wrap(L, "string", "rep", bounded_rep, 0);
    /* the metatable of all strings: a __tostring there would run inside errors */
    lua_pushliteral(L, "");
    lua_getmetatable(L, -1);
    lua_pushboolean(L, 0);
    lua_setfield(L, -2, "__metatable");
    lua_pop(L, 2);
}

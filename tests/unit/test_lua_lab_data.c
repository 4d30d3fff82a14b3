/* cs.lab.mask, balance and assign from scripts: shapes of results, defaults, errors with a
 * place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "lua/base/state.h"
#include "lua/eval.h"
#include "lua/module.h"

/* A state with the module as it is, and the functions of this area in cs.lab. */
static void open_state(struct cs_lua_state *s)
{
    struct cs_err err = {.text = ""};
    if (cs_lua_state_open(s, NULL, &err) != CS_OK)
        fail_msg("%s", err.text);
    cs_lua_install(s->L);
    luaL_getsubtable(s->L, LUA_REGISTRYINDEX, LUA_LOADED_TABLE);
    lua_getfield(s->L, -1, "cornstarch");
    lua_getfield(s->L, -1, "lab");
    const struct cs_lua_area area = cs_lua_area_lab_data();
    for (int i = 0; i < area.n; i++) {
        lua_pushcfunction(s->L, area.functions[i].call);
        lua_setfield(s->L, -2, area.functions[i].name + strlen("cs.lab."));
    }
    lua_settop(s->L, 0);
}

static enum cs_status run(const char *body, struct cs_err *err)
{
    struct cs_lua_state s = {0};
    char text[2000];
    open_state(&s);
    err->text[0] = '\0';
    const int n =
        snprintf(text, sizeof text,
                 "local cs = require \"cornstarch\"\n"
                 "local function same(list, want) want = want .. \" \"\n"
                 "  local got = \"\"; for _, v in ipairs(list) do got = got .. v .. \" \" end\n"
                 "  assert(got == want, got) end\n%s",
                 body);
    assert_in_range(n, 1, sizeof text - 1);
    const enum cs_status st = cs_lua_state_run(&s, "@t.lua", text, (size_t)n, err);
    cs_lua_state_close(&s);
    return st;
}

static void passes(const char *body)
{
    struct cs_err err;
    if (run(body, &err) != CS_OK)
        fail_msg("%s", err.text);
}

static void masks_come_as_strings_of_digits(void **state)
{
    (void)state;
    passes("local m = cs.lab.mask { spans = { {\"text\",2}, {\"a\",2}, {\"text\",1}, {\"b\",2}, "
           "{\"text\",1} },\n"
           "  rule = \"cornstarch\", tile = { 2, 4 } }\n"
           "assert(math.type(m.allowed) == \"integer\" and m.allowed == 24)\n"
           "same(m.rows, \"10000000 11000000 00110000 00110000 11111000 00000110 00000110 "
           "11111111\")\n"
           "same(m.tiles, \"10 10 11 11\")\n"
           "same(m.pairs, \"3 4 7 10\") same(m.work, \"1 1 2 2\")\n");
}

static void defaults_are_cornstarch_and_the_reference_tile(void **state)
{
    (void)state;
    passes("local m = cs.lab.mask { spans = { {\"text\",256}, {\"a\",384}, {\"text\",128}, "
           "{\"b\",64}, {\"text\",192} } }\n"
           "assert(m.allowed == 452896 and m.rows == nil)\n"
           "assert(m.tiles[7] == \"11111111111111111111111122110000\")\n"
           "same(m.work, \"4 8 12 12 12 24 28 32\")\n"
           "local b = cs.lab.balance { work = m.work, ranks = 2, how = \"lpt\" }\n"
           "same(b.owner, \"0 0 0 0 1 1 1 0\") same(b.load, \"68 64\")\n");
}

static void rules_documents_and_what_text_sees(void **state)
{
    (void)state;
    passes("local s = { {\"text\",1}, {\"a\",2}, {\"text\",1,doc=1}, {\"pad\",1} }\n"
           "local function rows(t, want) t.spans = s same(cs.lab.mask(t).rows, want) end\n"
           "rows({ rule = \"packed\" }, \"10000 11000 11100 00010 00000\")\n"
           "rows({ rule = \"full\" }, \"11100 11100 11100 00010 00000\")\n"
           "rows({ rule = \"window\", window = 1 }, \"10000 01000 00100 00010 00000\")\n"
           "rows({ rule = \"prefix\", prefix = 2 }, \"11000 11000 11100 00010 00000\")\n"
           "rows({ rule = \"image_bidir\" }, \"10000 11100 11100 00010 00000\")\n"
           "s = { {\"a\",1}, {\"text\",1} }\n"
           "rows({}, \"10 11\") rows({ sees = \"text\" }, \"10 01\")\n");
}

static void balance_takes_the_best_by_default(void **state)
{
    (void)state;
    passes("local b = cs.lab.balance { work = {5,5,4,4,3,3,3}, ranks = 3 }\n"
           "assert(b.max == 9 and b.mean == 9 and b.proven and b.how == \"exact\")\n"
           "local l = cs.lab.balance { work = {5,5,4,4,3,3,3}, ranks = 3, how = \"lpt\" }\n"
           "assert(l.max == 11 and not l.proven and math.type(l.load[1]) == \"integer\")\n"
           "b = cs.lab.balance { work = {0.5,0.25}, ranks = 1 } assert(b.load[1] == 0.75)\n");
}

static void assign_gives_lanes_slots_and_sums(void **state)
{
    (void)state;
    passes(
        "local s = { {enc=10,llm=1}, {enc=10,llm=1}, {enc=0,llm=9}, {enc=0,llm=9} }\n"
        "local a = cs.lab.assign { samples = s, lanes = 1, slots = 2 }\n"
        "same(a.lane, \"0 0 0 0\") same(a.slot, \"0 1 0 1\")\n"
        "same(a.enc, \"10 10\") same(a.llm, \"10 10\") assert(a.llm_slot == nil)\n"
        "a = cs.lab.assign { samples = s, lanes = 1, slots = 2, how = \"lpt_enc\", defer = true }\n"
        "assert(#a.llm_slot == 4 and #a.enc_back == 2)\n"
        "a = cs.lab.assign { samples = {}, lanes = 1, slots = 2 } same(a.enc, \"0 0\")\n");
}

static void errors_name_function_key_and_item(void **state)
{
    (void)state;

    static const struct {
        const char *body, *want;
    } bad[] = {
  /* clang-format off */
        {"cs.lab.mask { spans = {} }", "cs.lab.mask: the spans hold 0 tokens"},
        {"cs.lab.mask { spans = { 1 } }", "cs.lab.mask: 'spans' item 1 must be a table, got number"},
        {"cs.lab.mask { spans = { { 1, 2 } } }", "'spans' item 1 must start with"},
        {"cs.lab.mask { spans = { { \"text\" } } }", "the second value must be a whole number"},
        {"cs.lab.mask { spans = { { \"text\", 1.5 } } }", "the second value must be a whole number"},
        {"cs.lab.mask { spans = { { \"text\", -1 } } }", "the second value must be a whole number"},
        {"cs.lab.mask { spans = { { \"text\", 1, doc = 1 }, { \"a\", 1, doc = 0 } } }", "document by document"},
        {"cs.lab.mask { spans = { { \"text\", 1 } }, rule = \"window\" }", "the window is 0 tokens"},
        {"cs.lab.mask { spans = { { \"text\", 1 } }, rule = \"causual\" }", "causal"},
        {"cs.lab.mask { spans = { { \"text\", 1 } }, tile = { 1 } }", "'tile' must have two numbers"},
        {"cs.lab.mask { spans = { { \"text\", 1 } }, tile = { 0, 1 } }", "'tile' item 1 must be"},
        {"cs.lab.mask { spans = { { \"text\", 100000 } }, tile = { 1, 1 } }", "make 'tile' larger"},
        {"cs.lab.mask { spans = { { \"text\", 1048576 }, { \"a\", 1 } } }", "more than 1048576 tokens"},
        {"cs.lab.balance { work = { \"x\" }, ranks = 1 }", "'work' item 1 must be a number, got string"},
        {"cs.lab.balance { work = { -1 }, ranks = 1 }", "'work' item 1 must lie between 0 and 1e+15, got -1"},
        {"cs.lab.balance { work = { 1, 1 }, ranks = 1, cap = 1 }", "the cap must be at least 2"},
        {"cs.lab.balance { work = {}, ranks = 1 }", "0 blocks on 1 rank;"},
        {"cs.lab.assign { samples = { { enc = 1 } }, lanes = 1, slots = 1 }", "'samples' item 1 needs enc and llm"},
        {"cs.lab.assign { samples = { { enc = 1, llm = \"2\" } }, lanes = 1, slots = 1 }", "llm must be a number, got string"},
        {"cs.lab.assign { samples = { { enc = 1, llm = 0/0 } }, lanes = 1, slots = 1 }", "'samples' item 1 must lie between 0 and 1e+15, got nan"},
        {"cs.lab.assign { samples = { { enc = 1, llm = 1, tokens = 1 }, { enc = 1, llm = 1 } }, lanes = 1, slots = 1 }", "1 of 2 samples have tokens"},
        {"cs.lab.assign { samples = {}, lanes = 65536, slots = 65536 }", "too many"},
        {"cs.lab.assign { samples = {}, lane = 1, slots = 1 }", "did you mean 'lanes'"},
  /* clang-format on */
    };

    for (size_t i = 0; i < CS_ARRAY_LEN(bad); i++) {
        struct cs_err err;
        assert_int_not_equal(run(bad[i].body, &err), CS_OK);
        if (!strstr(err.text, bad[i].want) || strncmp(err.text, "t.lua:5: cs.lab.", 16) != 0)
            fail_msg("%s: '%s' lacks '%s'", bad[i].body, err.text, bad[i].want);
    }
}

static void too_many_modalities_are_refused(void **state)
{
    (void)state;
    passes("local s = {} for i = 1, 61 do s[i] = { \"m\" .. i, 1 } end\n"
           "assert(cs.lab.mask { spans = s }.allowed == 61)\n"
           "s[62] = { \"one more\", 1 }\n"
           "local ok, why = pcall(cs.lab.mask, { spans = s })\n"
           "assert(not ok and why:find(\"more than 61 modalities\"), why)\n");
}

static void orders_of_slots_change_the_makespan_only(void **state)
{
    (void)state;
    passes(
        "local samples = {}\n"
        "for i = 1, 24 do samples[i] = { enc = i * 7 % 11, llm = i * 5 % 13 + 1 } end\n"
        "local r, sum = {}, {}\n"
        "for _, order in ipairs { \"kept\", \"sorted\", \"disttrain\", \"searched\" } do\n"
        "  r[order] = cs.lab.assign { samples = samples, lanes = 2, slots = 6, how = \"random\",\n"
        "    order = order, enc_stages = 2, llm_stages = 3 }\n"
        "  sum[order] = 0\n"
        "  for i = 1, 12 do sum[order] = sum[order] + r[order].enc[i] * 1000 + r[order].llm[i] "
        "end\n"
        "  assert(sum[order] == sum.kept and r[order].even == r.kept.even)\n"
        "  for i = 1, 24 do assert(r[order].lane[i] == r.kept.lane[i]) end\n"
        "end\n"
        "assert(r.searched.makespan < r.kept.makespan, r.searched.makespan)\n"
        "assert(r.searched.makespan >= 0.5 * r.kept.even)\n");
    /* one stage each, equal slots: (m + p - 1) (f + b) = (4 + 1) * 3 */
    passes("local s = {} for i = 1, 4 do s[i] = { enc = 1, llm = 1 } end\n"
           "local r = cs.lab.assign { samples = s, lanes = 1, slots = 4 }\n"
           "assert(r.makespan == 15 and r.even == 15 and math.type(r.makespan) == \"integer\")\n"
           "r = cs.lab.assign { samples = s, lanes = 1, slots = 4, enc_backward = 0 }\n"
           "assert(r.makespan == 13, r.makespan)\n"); /* one forward in front of 4 * 3 */
    struct cs_err err;
    assert_int_not_equal(run("cs.lab.assign { samples = { { enc = 1, llm = 1 } }, lanes = 1, "
                             "slots = 2, defer = true, order = \"sorted\" }",
                             &err),
                         CS_OK);
    assert_non_null(strstr(err.text, "leave out 'order'"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(masks_come_as_strings_of_digits),
        cmocka_unit_test(defaults_are_cornstarch_and_the_reference_tile),
        cmocka_unit_test(rules_documents_and_what_text_sees),
        cmocka_unit_test(balance_takes_the_best_by_default),
        cmocka_unit_test(assign_gives_lanes_slots_and_sums),
        cmocka_unit_test(errors_name_function_key_and_item),
        cmocka_unit_test(too_many_modalities_are_refused),
        cmocka_unit_test(orders_of_slots_change_the_makespan_only),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Scripts while everything that nothing holds is collected at every chance: values that only a chain of calls holds,
 * names in tables that a script empties meanwhile. What is used after it is gone is for asan to find; without it most
 * of it shows as nonsense. And no memory at all: what is typed then ends nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "lua/eval.h"
#include "lua/help.h"
#include "lua/module.h"

static const char prelude[] =
    "local cs = require \"cornstarch\"\n"
    "local function llm() return cs.config { model_type = \"llama\", vocab_size = 64, hidden_size "
    "= 32,\n"
    "  intermediate_size = 64, num_hidden_layers = 2, num_attention_heads = 2, num_key_value_heads "
    "= 2,\n"
    "  max_position_embeddings = 128, rms_norm_eps = 1e-5 } end\n"
    "local function vision() return cs.encoder { image_size = 32, patch_size = 16, hidden_size = "
    "32,\n"
    "  intermediate_size = 64, num_hidden_layers = 2, num_attention_heads = 2 } end\n"
    "local function model() return cs.mllm { llm = llm(),\n"
    "  encoders = { vision = { from = vision(), projector = cs.projector.mlp {}, token = "
    "\"<image>\" } } } end\n"
    "local function plan(m, pp) return cs.plan { model = m, cluster = cs.cluster { device = "
    "\"cpu\" },\n"
    "  seq_tokens = 64, slots = 2, parallel = { vision = { pp = 1 }, llm = { pp = pp or 1 } } } "
    "end\n";

static void run(const char *body)
{
    const struct cs_lua_limits limits = {.time_ns = INT64_C(600000000000)};
    struct cs_script_result result = {0};
    struct cs_err err = {.text = ""};
    struct cs_lua *lua = NULL;
    struct cs_buf text = {0};
    assert_int_equal(cs_lua_open(&limits, NULL, NULL, &lua, &err), CS_OK);
    lua_gc(cs_lua_raw(lua), LUA_GCINC, 1, 1000, 30); /* a whole round whenever anything is made */
    cs_buf_adds(&text, prelude);
    cs_buf_adds(&text, body);
    if (cs_lua_run_text(lua, "script", cs_buf_str(&text), &result, &err) != CS_OK)
        fail_msg("%s", err.text);
    cs_buf_free(&text);
    cs_script_result_free(&result);
    cs_lua_close(lua);
}

static void what_a_chain_of_calls_holds_stays(void **state)
{
    (void)state;
    run("local m = model():freeze(\"llm\"):lora { rank = 2 }:train(\"vision.projector\"):lora { "
        "module = "
        "\"vision.encoder\" }\n"
        "assert(m:params() > m:trainable_params() and m:trainable_params() > 0)\n"
        "assert(#model():modules() > 4 and tostring(model():train(\"*\")):find(\"^model mllm\"))\n"
        "assert(#plan(model():train(\"*\"), 2):simulate { slots = 4, stragglers = { { rank = 0, "
        "factor = 2 } } "
        "}.critical_path > 0)\n"
        "assert(plan(model():train(\"*\")):explain() ~= \"\" and "
        "#plan(model():train(\"*\")):stages() == 2)");
}

static void what_a_search_was_given_stays(void **state)
{
    (void)state;
    run("local p = cs.search { model = model():train(\"*\"), cluster = cs.cluster { device = "
        "\"cpu\", "
        "devices_per_node = 2 }, seq_tokens = 64, batch_slots = 2, runs = true, compare = false, "
        "explain = false, "
        "optimizer = cs.optim.adamw { lr = 1e-3 } }:plan()\n"
        "assert(p:ranks() >= 1)");
}

static void a_sweep_goes_over_what_it_was_given(void **state)
{
    (void)state;
    run("local over = { [(\"name\"):rep(20)] = { 1, 2 }, b = { \"x\", \"y\", \"z\" } }\n"
        "local args, n, m = { over = over }, 0, model():train(\"*\")\n"
        "args.build = function(p)\n"
        "  n = n + 1\n"
        "  assert(p[(\"name\"):rep(20)] and p.b)\n"
        "  for k in pairs(over) do over[k] = nil end\n"
        "  for k in pairs(args) do if k ~= \"build\" then args[k] = nil end end\n"
        "  return plan(m)\n"
        "end\n"
        "local found = cs.sweep(args)\n"
        "assert(n == 6 and #found:plans() == 6, n)");
}

/* The memory that is left holds no text of any length. */
static void typing_without_memory_ends_nothing(void **state)
{
    (void)state;
    static const char fill[] = "l = nil while true do l = { l } end";
    const struct cs_lua_limits limits = {.memory_bytes = 1 << 20};
    struct cs_script_result result = {0};
    struct cs_err err = {.text = ""};
    struct cs_lua *lua = NULL;
    char text[500];
    json_t *list = json_array();
    memset(text, 'x', sizeof text);
    memcpy(text + sizeof text - 3, ".x", 3);
    assert_int_equal(cs_lua_open(&limits, NULL, NULL, &lua, &err), CS_OK);
    assert_int_not_equal(cs_lua_run_text(lua, "typed", fill, &result, &err), CS_OK);
    assert_false(cs_lua_is_begun(lua, text));
    cs_lua_complete(lua, text, list);
    assert_int_equal(json_array_size(list), 0);
    assert_int_not_equal(cs_lua_run_text(lua, "typed", text, &result, &err), CS_OK);
    json_decref(list);
    cs_script_result_free(&result);
    cs_lua_close(lua);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_a_chain_of_calls_holds_stays),
        cmocka_unit_test(what_a_search_was_given_stays),
        cmocka_unit_test(a_sweep_goes_over_what_it_was_given),
        cmocka_unit_test(typing_without_memory_ends_nothing),
    };
    return cmocka_run_group_tests_name("collected", tests, NULL, NULL);
}

/* Profiles made by hand, and plans made from them. */
#include "tests/support/profiled.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "core/plan/cost/basis/profile.h"
#include "core/plan/make/planner.h"

/* [0, 0, ns]: the same at any number of rows */
json_t *cs_test_profile_flat(int ns)
{
    return json_pack("[i, i, i]", 0, 0, ns);
}

void cs_test_profile_add(json_t *profile, const char *module, const char *kind, int fwd, int input,
                         int weight)
{
    json_array_append_new(json_object_get(profile, "layers"),
                          json_pack("{s:s, s:s, s:i, s:i, s:o, s:o, s:o}", "module", module, "kind",
                                    kind, "tp", 1, "cp", 1, "fwd", cs_test_profile_flat(fwd),
                                    "bwd_input", cs_test_profile_flat(input), "bwd_weight",
                                    cs_test_profile_flat(weight)));
}

json_t *cs_test_profile_row(json_t *profile, size_t i)
{
    return json_array_get(json_object_get(profile, "layers"), i);
}

/* Of the text-only model: embed, block, head, with the key that the device asks for. */
json_t *cs_test_profile_text(const struct cs_graph *graph, const char *device)
{
    char key[65];
    cs_profile_key(graph, cs_device_class_find(device), key);
    json_t *profile = json_pack("{s:s, s:s, s:s, s:[]}", "schema", "cornstarch.profile/1", "key",
                                key, "device", device, "layers");
    cs_test_profile_add(profile, "llm", "embed", 400, 0, 600);
    cs_test_profile_add(profile, "llm", "block", 1000, 1100, 900);
    cs_test_profile_add(profile, "llm", "head", 3000, 3000, 3000);
    return profile;
}

/* The plan of options with a profile, which is stolen. */
enum cs_status cs_test_profiled_make_with(struct cs_test_profiled *m,
                                          const struct cs_test_spec *options, json_t *profile,
                                          const char *device, const char *state)
{
    m->root = cs_test_spec_json(options);
    json_object_set_new(json_object_get(m->root, "optimizer"), "state", json_string(state));
    json_object_set_new(json_object_get(m->root, "plan"), "profile", profile);
    const int32_t node = m->cluster.devices_per_node;
    m->cluster = (struct cs_cluster){cs_device_class_find(device), node > 0 ? 8 / node : 1,
                                     node > 0 ? node : 8};
    if (cs_spec_read(m->root, m->arena, &m->spec, &m->err) != CS_OK ||
        cs_graph_build(m->spec, true, m->arena, &m->graph, &m->err) != CS_OK)
        fail_msg("%s", m->err.text);
    return cs_plan_make(m->spec, m->graph, &m->cluster, m->arena, &m->plan, &m->err);
}

enum cs_status cs_test_profiled_make_on(struct cs_test_profiled *m,
                                        const struct cs_test_spec *options, json_t *profile,
                                        const char *device)
{
    return cs_test_profiled_make_with(m, options, profile, device, "fp32");
}

enum cs_status cs_test_profiled_make(struct cs_test_profiled *m, const struct cs_test_spec *options,
                                     json_t *profile)
{
    return cs_test_profiled_make_on(m, options, profile, "cpu");
}

void cs_test_profiled_need(const struct cs_test_profiled *m, enum cs_status status)
{
    if (status != CS_OK)
        fail_msg("%s: %s", cs_status_slug(status), m->err.text);
}

void cs_test_profiled_free(struct cs_test_profiled *m, json_t *first)
{
    json_decref(m->root);
    json_decref(first);
    cs_arena_free(m->arena);
}

json_t *cs_test_profile_with_step(json_t *profile)
{
    json_t *per = json_pack("[f, f, f]", 0.0, 0.25, 100.0);
    json_t *step = json_pack("{s:O, s:O, s:o}", "clear", per, "norm", per, "update",
                             json_pack("[f, f, f]", 0.0, 2.0, 50.0));
    json_decref(per);
    json_object_set_new(profile, "step", step);
    json_object_set_new(cs_test_profile_row(profile, 0), "prepare", cs_test_profile_flat(70));
    json_object_set_new(profile, "precision", json_string("fp32"));
    return profile;
}

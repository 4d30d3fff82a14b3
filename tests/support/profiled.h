/* Profiles made by hand (core/plan/cost/basis/profile.h), and plans made from them. */
#ifndef CS_TESTS_SUPPORT_PROFILED_H
#define CS_TESTS_SUPPORT_PROFILED_H

#include <jansson.h>

#include "core/plan/plan.h"
#include "tests/support/spec.h"

struct cs_test_profiled {
    struct cs_arena *arena;
    json_t *root;
    struct cs_spec *spec;
    struct cs_graph *graph;
    struct cs_cluster cluster; /* of 8 devices; devices_per_node 0: of one node */
    struct cs_plan *plan;
    struct cs_err err;
};

/* [0, 0, ns]: the same at any number of rows */
json_t *cs_test_profile_flat(int ns);
/* a row of a layer, alone on its rank, ns */
void cs_test_profile_add(json_t *profile, const char *module, const char *kind, int fwd, int input,
                         int weight);
/* its layers[i], borrowed */
json_t *cs_test_profile_row(json_t *profile, size_t i);
/* Of the text-only model: embed, block, head, with the key that the device asks for. */
json_t *cs_test_profile_text(const struct cs_graph *graph, const char *device);
/* The plan of options with a profile, which is stolen; with state in fp32; on CPU ranks. */
enum cs_status cs_test_profiled_make_with(struct cs_test_profiled *m,
                                          const struct cs_test_spec *options, json_t *profile,
                                          const char *device, const char *state);
enum cs_status cs_test_profiled_make_on(struct cs_test_profiled *m,
                                        const struct cs_test_spec *options, json_t *profile,
                                        const char *device);
enum cs_status cs_test_profiled_make(struct cs_test_profiled *m, const struct cs_test_spec *options,
                                     json_t *profile);
/* fails the test with the error */
void cs_test_profiled_need(const struct cs_test_profiled *m, enum cs_status status);
void cs_test_profiled_free(struct cs_test_profiled *m, json_t *first);
/* the profile with an optimizer step of its own */
json_t *cs_test_profile_with_step(json_t *profile);

#endif

/* Job documents: defaults, errors with their paths, hashes. */
#include "core/model/spec.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
/* cmocka wants the headers above first */
#include <cmocka.h>

#include "core/base/hash.h"
#include "support/spec.h"

/* "model.modules.0.token": dots between keys, numbers are indices */
static json_t *step_into(json_t *value, const char *part)
{
    return json_is_array(value) ? json_array_get(value, (size_t)atoi(part))
                                : json_object_get(value, part);
}

/* Put a value (JSON text; NULL: delete) at a path of the document. */
static void mutate(json_t *root, const char *path, const char *text)
{
    char buffer[256], *save = NULL;
    snprintf(buffer, sizeof(buffer), "%s", path);
    char *part = strtok_r(buffer, ".", &save), *next;
    json_t *at = root;
    while ((next = strtok_r(NULL, ".", &save)) != NULL) {
        at = step_into(at, part);
        assert_non_null(at);
        part = next;
    }
    if (text == NULL) {
        int rc = json_is_array(at) ? json_array_remove(at, (size_t)atoi(part))
                                   : json_object_del(at, part);
        assert_int_equal(rc, 0);
        return;
    }
    json_t *value = json_loads(text, JSON_DECODE_ANY, NULL);
    assert_non_null(value);
    if (json_is_array(at) && (size_t)atoi(part) >= json_array_size(at))
        json_array_append_new(at, value);
    else if (json_is_array(at))
        json_array_set_new(at, (size_t)atoi(part), value);
    else
        json_object_set_new(at, part, value);
}

static struct cs_spec *must_read(const json_t *root, struct cs_arena *arena)
{
    struct cs_err err = {.text = ""};
    struct cs_spec *spec = NULL;
    if (cs_spec_read(root, arena, &spec, &err) != CS_OK)
        fail_msg("%s", err.text);
    return spec;
}

static void defaults_are_those_of_the_table(void **state)
{
    struct cs_arena *arena = cs_arena_new(0);
    json_t *root = cs_test_spec_json(NULL);
    (void)state;
    static const char *const optional[] = {
        "name",         "seed",          "plan.slots",           "plan.modality",
        "plan.cluster", "plan.schedule", "model.modules.0.init", "optimizer.kind",
        "schema"};
    for (size_t i = 0; i < CS_ARRAY_LEN(optional); i++)
        mutate(root, optional[i], NULL);
    const struct cs_spec *spec = must_read(root, arena);
    assert_string_equal(spec->name, "job");
    assert_int_equal(spec->seed, 0);
    assert_int_equal(spec->slots, 4);
    assert_string_equal(spec->modality, "encoder-parallel");
    assert_string_equal(spec->schedule, "1f1b");
    assert_string_equal(spec->stages, "frozen-aware");
    assert_string_equal(spec->plan_hash, "");
    assert_string_equal(spec->precision, "");
    assert_string_equal(spec->state, "fp32");
    assert_null(spec->cluster);
    assert_true(fabs(spec->beta1 - 0.9) <= 0 && fabs(spec->beta2 - 0.999) <= 0);
    assert_true(fabs(spec->eps - 1e-8) <= 0 && fabs(spec->weight_decay) <= 0);
    assert_true(fabs(spec->clip - 1) <= 0 && spec->warmup_steps == 0);
    assert_string_equal(spec->lr_kind, "constant");
    assert_int_equal(spec->checkpoint_every, 0);
    assert_int_equal(spec->checkpoint_keep, 3);
    assert_string_equal(spec->checkpoint_dir, "");
    assert_string_equal(spec->data.on_bad_sample, "skip");
    assert_true(fabs(spec->data.max_bad_fraction - 0.01) <= 0);
    assert_false(spec->data.shuffle_images);
    assert_false(spec->has_eval);
    assert_string_equal(spec->module[0].init, "random");
    assert_false(spec->module[0].has_feature_layer);
    assert_int_equal(spec->parallel[0].encoder_rows, 0);
    json_decref(root);
    cs_arena_free(arena);
}

static void every_value_arrives(void **state)
{
    struct cs_arena *arena = cs_arena_new(0);
    json_t *root = cs_test_spec_json(
        &(struct cs_test_spec){.n_encoders = 2,
                               .vision_pp = 2,
                               .depth_pp = 3,
                               .llm_pp = 4,
                               .has_feature_layer = true,
                               .feature_layer = -2,
                               .rules = "train:vision.projector freeze:llm.layers.0-1"});
    (void)state;
    mutate(root, "seed", "17");
    mutate(root, "precision", "\"fp32\"");
    mutate(root, "plan.encoder_rows", "{\"depth\": 64}");
    mutate(root, "plan.cluster", "{\"ranks\": 8}");
    mutate(root, "optimizer.betas", "[0.8, 0.95]");
    mutate(root, "optimizer.warmup_steps", "7");
    mutate(root, "optimizer.state", "\"bf16\"");
    mutate(root, "lr", "{\"kind\": \"cosine\", \"final_ratio\": 0.1}");
    mutate(root, "checkpoint", "{\"every_steps\": 5, \"keep\": 2, \"dir\": \"/ckpt\"}");
    mutate(root, "eval",
           "{\"data\": {\"json\": \"/t.json\", \"shuffle_images\": true}, "
           "\"every_steps\": 50, \"metric\": \"loss\", \"max_samples\": 9}");
    mutate(root, "data.mix", "[{\"json\": \"/b.json\", \"weight\": 2}]");
    mutate(root, "model.modules.4.tokenizer", "\"/tok\"");
    const struct cs_spec *spec = must_read(root, arena);
    assert_int_equal(spec->seed, 17);
    assert_int_equal(json_array_size(spec->data.mix), 1);
    assert_string_equal(spec->precision, "fp32");
    assert_string_equal(spec->state, "bf16");
    assert_int_equal(spec->n_modules, 5);
    assert_int_equal(spec->module[0].kind, CS_MODULE_ENCODER);
    assert_string_equal(spec->module[2].token, "<depth>");
    assert_true(spec->module[0].has_feature_layer && spec->module[0].feature_layer == -2);
    assert_int_equal(spec->module[1].n_layers, 2);
    assert_string_equal(spec->module[1].family, "mlp");
    assert_string_equal(spec->module[1].activation, "gelu");
    assert_string_equal(spec->module[4].tokenizer, "/tok");
    assert_int_equal(spec->n_rules, 2);
    assert_true(spec->rules[0].is_train && !spec->rules[1].is_train);
    assert_string_equal(spec->rules[1].glob, "llm.layers.0-1");
    assert_int_equal(spec->n_parallel, 3);
    for (int i = 0; i < 3; i++) {
        const struct cs_spec_parallel *p = &spec->parallel[i];
        bool is_depth = strcmp(p->branch, "depth") == 0;
        assert_int_equal(p->pp, is_depth ? 3 : strcmp(p->branch, "llm") == 0 ? 4 : 2);
        assert_int_equal(p->encoder_rows, is_depth ? 64 : 0);
    }
    assert_true(json_is_object(spec->cluster));
    assert_true(fabs(spec->beta1 - 0.8) <= 0 && fabs(spec->beta2 - 0.95) <= 0);
    assert_true(spec->has_eval && spec->eval_data.shuffle_images);
    assert_string_equal(spec->eval_data.json, "/t.json");
    assert_string_equal(spec->eval_metric, "loss");
    assert_int_equal(spec->eval_every, 50);
    assert_int_equal(spec->eval_max_samples, 9);
    assert_string_equal(spec->checkpoint_dir, "/ckpt");
    assert_int_equal(spec->checkpoint_keep, 2);
    assert_true(fabs(spec->lr_final_ratio - 0.1) <= 0);
    json_decref(root);
    cs_arena_free(arena);
}

static void hash_is_that_of_the_canonical_encoding(void **state)
{
    struct cs_arena *arena = cs_arena_new(0);
    char want[65];
    json_t *root = cs_test_spec_json(NULL);
    (void)state;
    char *text = json_dumps(root, JSON_COMPACT | JSON_SORT_KEYS);
    cs_sha256_hex(text, strlen(text), want);
    assert_string_equal(must_read(root, arena)->hash, want);
    /* another order of keys is the same job */
    json_t *again = json_object();
    json_t *value = json_incref(json_object_get(root, "seed"));
    json_object_update(again, root);
    json_object_del(again, "seed");
    json_object_set_new(again, "seed", value);
    assert_string_equal(must_read(again, arena)->hash, want);
    mutate(again, "seed", "1");
    assert_string_not_equal(must_read(again, arena)->hash, want);
    free(text);
    json_decref(again);
    json_decref(root);
    cs_arena_free(arena);
}

static const char two_llms[] = "{\"name\": \"llm\", \"kind\": \"llm\", \"config\": {}}";

static void every_mistake_is_named(void **state)
{
    static const struct {
        const char *path, *value, *message;
    } rows[] = {
        {"stepz",                         "1",                        "stepz is no key of a job; did you mean \"steps\"?"                  },
        {"foobarbaz",                     "1",                        "foobarbaz is no key of a job; known here: schema, name, seed, steps"},
        {"schema",                        "\"cornstarch.job/2\"",
         "schema is \"cornstarch.job/2\"; accepted: cornstarch.job/1"                                                                      },
        {"name",                          "5",                        "name is 5; it must be a string"                                     },
        {"seed",                          "-1",                       "seed is -1; it must be a whole number from 0 to 9007199254740992"   },
        {"seed",                          "1.5",                      "seed is 1.5; it must be a whole number"                             },
        {"steps",                         NULL,                       "steps is missing: optimizer steps"                                  },
        {"steps",                         "0",                        "steps is 0; it must be a whole number from 1 to 1000000000000"      },
        {"steps",                         "null",                     "steps is missing: optimizer steps"                                  },
        {"batch_samples",                 "\"16\"",                   "batch_samples is \"16\"; it must be a whole number"                 },
        {"precision",                     "\"fp16\"",                 "precision is \"fp16\"; accepted: bf16|fp32"                         },
        {"precision",                     "32",                       "precision is 32; it must be a string"                               },
        {"plan_hash",                     "\"xyz\"",                  "plan_hash is neither empty nor 64 digits of lower-case hex"         },
        {"model",                         NULL,                       "model is missing"                                                   },
        {"model",                         "null",                     "model is missing"                                                   },
        {"model",                         "[]",                       "model is []; it must be an object"                                  },
        {"model.modules",                 NULL,                       "model.modules is missing"                                           },
        {"model.modules",                 "{}",                       "model.modules is {}; it must be a list"                             },
        {"model.modules",                 "[]",                       "model.modules has no llm; it needs exactly one"                     },
        {"model.modules.0",               "7",                        "model.modules[0] is not an object"                                  },
        {"model.modules.0.kind",          "\"encodr\"",
         "model.modules[0].kind is \"encodr\"; accepted: encoder|projector|llm"                                                            },
        {"model.modules.0.kind",          NULL,                       "model.modules[0].kind is missing"                                   },
        {"model.modules.0.name",          "\"vision\"",
         "model.modules[0].name is \"vision\"; the name of an encoder is X.encoder"                                                        },
        {"model.modules.0.name",          "\"llm.encoder\"",
         "model.modules[0].name is \"llm.encoder\"; the name of an encoder"                                                                },
        {"model.modules.0.name",          "\"Vi-sion.encoder\"",      "the name of an encoder is X.encoder"                                },
        {"model.modules.2.name",          "\"lm\"",
         "model.modules[2].name is \"lm\"; the name of the llm is \"llm\""                                                                 },
        {"model.modules.1.name",          "\"depth.projector\"",
         "model.modules: vision.encoder has no projector; add vision.projector"                                                            },
        {"model.modules.0",               NULL,
         "model.modules: vision.projector has no encoder; add vision.encoder"                                                              },
        {"model.modules.2",               NULL,                       "model.modules has no llm; it needs exactly one"                     },
        {"model.modules.3",               two_llms,                   "model.modules[3].name \"llm\" is taken by model.modules[2]"         },
        {"model.modules.0.token",         NULL,
         "model.modules[0].token is missing: the placeholder in the text"                                                                  },
        {"model.modules.0.token",         "\"\"",                     "model.modules[0].token is empty"                                    },
        {"model.modules.2.token",         "\"<x>\"",
         "model.modules[2].token is a key of encoder modules, this is llm"                                                                 },
        {"model.modules.0.tokn",          "1",
         "model.modules[0].tokn is no key of a job; did you mean \"token\"?"                                                               },
        {"model.modules.0.dir",           "\"rel/path\"",
         "model.modules[0].dir is \"rel/path\"; it must be an absolute path"                                                               },
        {"model.modules.0.init",          "\"weights\"",
         "model.modules[0].init is \"weights\", but \"vision.encoder\" has no dir"                                                         },
        {"model.modules.0.config",        NULL,
         "model.modules[0].config is missing: \"vision.encoder\" needs its config.json"                                                    },
        {"model.modules.0.config",        "3",                        "model.modules[0].config is 3; it must be an object"                 },
        {"model.modules.0.feature_layer", "\"last\"",
         "model.modules[0].feature_layer is \"last\"; it must be a whole number"                                                           },
        {"model.modules.1.layers",        "3",
         "model.modules[1].layers is 3; a projector of family mlp has at most 2"                                                           },
        {"model.modules.1.family",        "\"linear\"",
         "model.modules[1].layers is 2; a projector of family linear has at most 1"                                                        },
        {"model.modules.1.family",        "\"qformer\"",
         "model.modules[1].family is \"qformer\"; accepted: mlp|linear"                                                                    },
        {"model.modules.1.activation",    "\"tanh\"",                 "model.modules[1].activation is \"tanh\""                            },
        {"model.rules.0.op",              "\"thaw\"",                 "model.rules[0].op is \"thaw\"; accepted: train|freeze"              },
        {"model.rules.0.op",              "\"\"",                     "model.rules[0].op is \"\"; accepted: train|freeze"                  },
        {"model.rules.0.glob",            NULL,                       "model.rules[0].glob is missing"                                     },
        {"model.rules.0.glob",            "\"llm.layers.3-1\"",
         "model.rules[0].glob \"llm.layers.3-1\": the range runs backwards"                                                                },
        {"model.rules",                   "{}",                       "model.rules is {}; it must be a list"                               },
        {"plan.slots",                    "0",                        "plan.slots is 0; it must be a whole number from 1 to 4096"          },
        {"plan.slotz",                    "0",                        "plan.slotz is no key of a job; did you mean \"slots\"?"             },
        {"plan.seq_tokens",               NULL,                       "plan.seq_tokens is missing"                                         },
        {"plan.cluster",                  "\"there\"",
         "plan.cluster is \"there\"; it must be an object or \"here\""                                                                     },
        {"plan.modality",                 "\"parallel\"",
         "plan.modality is \"parallel\"; accepted: encoder-parallel|encoder-colocated"                                                     },
        {"plan.schedule",                 "\"1f1\"",                  "plan.schedule is \"1f1\"; accepted: 1f1b|gpipe"                     },
        {"plan.schedule",                 "\"1f1b|gpipe\"",           "plan.schedule is \"1f1b|gpipe\"; accepted"                          },
        {"plan.stages",                   "true",                     "plan.stages is true; it must be a string"                           },
        {"plan.parallel",                 NULL,                       "plan.parallel is missing"                                           },
        {"plan.parallel.visoin",          "{\"pp\": 1}",
         "plan.parallel.visoin is no branch of the model; did you mean \"vision\"?; branches: "
         "vision, llm"                                                                                                                     },
        {"plan.parallel.vision",          NULL,
         "plan.parallel.vision is missing: every branch needs its pp"                                                                      },
        {"plan.parallel.llm.pp",          "1025",                     "plan.parallel.llm.pp is 1025; it must be a whole number"            },
        {"plan.parallel.llm.stages",      "2",                        "plan.parallel.llm.stages is no key of a job"                        },
        {"plan.parallel.llm",             "2",                        "plan.parallel.llm is not an object"                                 },
        {"plan.encoder_rows",             "{\"llm\": 5}",             "plan.encoder_rows.llm: "                                            },
        {"plan.encoder_rows",             "{\"audio\": 5}",
         "plan.encoder_rows.audio: plan.parallel has no encoder of that name"                                                              },
        {"plan.encoder_rows",             "{\"vision\": 0}",
         "plan.encoder_rows.vision must be a whole number from 1 to 16777216"                                                              },
        {"data",                          NULL,                       "data is missing"                                                    },
        {"data.json",                     NULL,                       "data.json is missing: the samples"                                  },
        {"data.json",                     "\"train.json\"",           "data.json is \"train.json\"; it must be an absolute path"           },
        {"data.format",                   "\"webdataset\"",           "data.format is \"webdataset\"; accepted: llava"                     },
        {"data.max_bad_fraction",         "1.5",                      "data.max_bad_fraction is 1.5; it must be a number"                  },
        {"data.shuffle_images",           "1",                        "data.shuffle_images is 1; it must be true or false"                 },
        {"data.mix",                      "{\"json\": \"/b.json\"}",
         "data.mix is {\"json\":\"/b.json\"}; it must be a list"                                                                           },
        {"data.template",                 "\"chatml\"",               "data.template is \"chatml\"; it must be an object"                  },
        {"eval",                          "5",                        "eval is 5; it must be an object"                                    },
        {"eval",                          "{}",                       "eval.data is missing"                                               },
        {"eval",                          "{\"data\": {}}",           "eval.data.json is missing"                                          },
        {"eval",                          "{\"data\": {\"jsn\": 1}}",
         "eval.data.jsn is no key of a job; did you mean "
         "\"json\"?"                                                                                                                       },
        {"optimizer",                     NULL,                       "optimizer is missing"                                               },
        {"optimizer.lr",                  NULL,                       "optimizer.lr is missing: peak learning rate"                        },
        {"optimizer.lr",                  "-1",                       "optimizer.lr is -1; it must be a number from 0 to 1000"             },
        {"optimizer.kind",                "\"sgd\"",                  "optimizer.kind is \"sgd\"; accepted: adamw"                         },
        {"optimizer.state",               "\"fp16\"",                 "optimizer.state is \"fp16\"; accepted: fp32|bf16"                   },
        {"optimizer.betas",               "[0.9]",                    "optimizer.betas is [0.9]; it must be a list of two numbers"         },
        {"optimizer.betas",               "[0.9, 1]",                 "optimizer.betas is [0.9,1]; it must be a list of two"               },
        {"optimizer.betas",               "0.9",                      "optimizer.betas is 0.9; it must be a list of two numbers"           },
        {"lr",                            "{\"kind\": \"cosin\"}",    "lr.kind is \"cosin\"; accepted: constant|linear|cosine"             },
        {"lr",                            "{\"final\": 0}",           "lr.final is no key of a job; known here: kind, final_ratio"         },
        {"checkpoint",                    "{\"keep\": 0}",            "checkpoint.keep is 0; it must be a whole number from 1"             },
    };

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        struct cs_arena *arena = cs_arena_new(0);
        struct cs_err err = {.text = ""};
        struct cs_spec *spec = NULL;
        json_t *root = cs_test_spec_json(NULL);
        mutate(root, rows[i].path, rows[i].value);
        enum cs_status status = cs_spec_read(root, arena, &spec, &err);
        if (status == CS_OK || strstr(err.text, rows[i].message) == NULL)
            fail_msg("%s = %s: %s \"%s\" lacks \"%s\"", rows[i].path,
                     rows[i].value != NULL ? rows[i].value : "(gone)", cs_status_slug(status),
                     err.text, rows[i].message);
        json_decref(root);
        cs_arena_free(arena);
    }
}

static void must_fail(const json_t *root, enum cs_status status, const char *message)
{
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_err err = {.text = ""};
    struct cs_spec *spec = NULL;
    assert_int_equal(cs_spec_read(root, arena, &spec, &err), status);
    if (strstr(err.text, message) == NULL)
        fail_msg("\"%s\" lacks \"%s\"", err.text, message);
    cs_arena_free(arena);
}

static void placeholders_must_differ(void **state)
{
    json_t *root = cs_test_spec_json(&(struct cs_test_spec){.n_encoders = 2});
    (void)state;
    mutate(root, "model.modules.2.token", "\"<image>\"");
    must_fail(root, CS_INVALID,
              "model.modules[2].token \"<image>\" is also that of vision.encoder");
    json_decref(root);
}

static void limits_hold(void **state)
{
    (void)state;
    json_t *root = cs_test_spec_json(NULL), *deep = json_object();
    for (int i = 0; i < 40; i++)
        deep = json_pack("{s:o}", "a", deep);
    json_object_set_new(json_object_get(root, "plan"), "cluster", deep);
    must_fail(root, CS_LIMIT, "the job nests deeper than 32 levels");
    json_decref(root);

    root = cs_test_spec_json(NULL);
    char *big = malloc(CS_SPEC_MAX_BYTES + 1);
    assert_non_null(big);
    memset(big, 'x', CS_SPEC_MAX_BYTES);
    big[CS_SPEC_MAX_BYTES] = '\0';
    json_object_set_new(root, "name", json_string(big));
    must_fail(root, CS_LIMIT, "the limit is 4194304");
    big[300] = '\0';
    json_object_set_new(root, "name", json_string(big));
    must_fail(root, CS_INVALID, "name is too long");
    json_object_set_new(root, "name", json_stringn("a\0b", 3));
    must_fail(root, CS_INVALID, "name is too long or holds a zero byte");
    free(big);
    json_decref(root);

    root = cs_test_spec_json(NULL);
    json_t *modules = json_object_get(json_object_get(root, "model"), "modules");
    for (int i = 0; i < 5; i++) {
        char name[32], token[32];
        snprintf(name, sizeof(name), "e%d.encoder", i);
        snprintf(token, sizeof(token), "<%d>", i);
        json_array_append_new(modules, json_pack("{s:s, s:s, s:s, s:{}}", "name", name, "kind",
                                                 "encoder", "token", token, "config"));
        snprintf(name, sizeof(name), "e%d.projector", i);
        if (i < 4)
            json_array_append_new(modules,
                                  json_pack("{s:s, s:s}", "name", name, "kind", "projector"));
    }
    assert_int_equal(json_array_size(modules), 12);
    json_array_append_new(modules, json_object());
    must_fail(root, CS_LIMIT, "model.modules has 13 modules, the limit is 12");
    json_array_remove(modules, 12);
    json_array_remove(modules, 11);
    must_fail(root, CS_LIMIT, "model.modules has 5 encoders, the limit is 4");
    json_decref(root);
    json_t *text = json_string("x");
    must_fail(text, CS_INVALID, "the job is not a JSON object");
    json_decref(text);
}

static void bf16_is_refused_on_cpu_ranks_only(void **state)
{
    static const struct {
        const char *value, *device;
        enum cs_status status;
    } rows[] = {
        {NULL,       "cpu",      CS_OK     },
        {"\"fp32\"", "cpu",      CS_OK     },
        {"\"bf16\"", "cpu",      CS_INVALID},
        {NULL,       "h100-80g", CS_OK     },
        {"\"fp32\"", "h100-80g", CS_OK     },
        {"\"bf16\"", "h100-80g", CS_OK     },
    };

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        struct cs_arena *arena = cs_arena_new(0);
        struct cs_err err = {.text = ""};
        json_t *root = cs_test_spec_json(NULL);
        if (rows[i].value != NULL)
            mutate(root, "precision", rows[i].value);
        const struct cs_spec *spec = must_read(root, arena);
        assert_int_equal(cs_spec_check_precision(spec, rows[i].device, &err), rows[i].status);
        if (rows[i].status != CS_OK)
            assert_non_null(strstr(err.text, "CPU ranks compute in fp32"));
        json_decref(root);
        cs_arena_free(arena);
    }
}

static void state_in_bf16_needs_ranks_that_compute_in_it(void **state)
{
    static const struct {
        const char *precision, *device, *says;
    } rows[] = {
        {NULL,       "h100-80g", NULL                       },
        {"\"bf16\"", "h100-80g", NULL                       },
        {"\"fp32\"", "h100-80g", "leave precision out"      },
        {NULL,       "cpu",      "leave state out, or plan" },
        {"\"fp32\"", "cpu",      "CPU ranks compute in fp32"},
    };

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++) {
        struct cs_arena *arena = cs_arena_new(0);
        struct cs_err err = {.text = ""};
        json_t *root = cs_test_spec_json(NULL);
        mutate(root, "optimizer.state", "\"bf16\"");
        if (rows[i].precision != NULL)
            mutate(root, "precision", rows[i].precision);
        const struct cs_spec *spec = must_read(root, arena);
        const enum cs_status want = rows[i].says == NULL ? CS_OK : CS_INVALID;
        assert_int_equal(cs_spec_check_precision(spec, rows[i].device, &err), want);
        if (rows[i].says != NULL) {
            assert_non_null(strstr(err.text, "optimizer.state is \"bf16\""));
            assert_non_null(strstr(err.text, rows[i].says));
        }
        json_decref(root);
        cs_arena_free(arena);
    }
}

static void learning_rates_equal_the_formulas(void **state)
{
    struct cs_spec spec = {.steps = 110, .warmup_steps = 10, .lr_kind = "cosine"};
    (void)state;
    assert_true(fabs(cs_spec_lr(&spec, 0) - 0.1) <= 1e-15);
    assert_true(fabs(cs_spec_lr(&spec, 4) - 0.5) <= 1e-15);
    assert_true(fabs(cs_spec_lr(&spec, 9) - 1) <= 1e-15);
    assert_true(fabs(cs_spec_lr(&spec, 10) - 1) <= 1e-15);
    assert_true(fabs(cs_spec_lr(&spec, 35) - 0.85355339059327373) <= 1e-12);
    assert_true(fabs(cs_spec_lr(&spec, 60) - 0.5) <= 1e-12);
    assert_true(cs_spec_lr(&spec, 109) > 0 && cs_spec_lr(&spec, 109) < 1e-3);
    spec.lr_final_ratio = 0.2;
    assert_true(fabs(cs_spec_lr(&spec, 60) - 0.6) <= 1e-12);
    assert_true(fabs(cs_spec_lr(&spec, 110) - 0.2) <= 1e-12);
    assert_true(fabs(cs_spec_lr(&spec, 500) - 0.2) <= 1e-12);
    spec.lr_kind = "linear";
    spec.lr_final_ratio = 0;
    assert_true(fabs(cs_spec_lr(&spec, 35) - 0.75) <= 1e-12);
    assert_true(fabs(cs_spec_lr(&spec, 109) - 0.01) <= 1e-12);
    spec.lr_kind = "constant";
    assert_true(fabs(cs_spec_lr(&spec, 109) - 1) <= 0);
    spec.warmup_steps = 0;
    assert_true(fabs(cs_spec_lr(&spec, 0) - 1) <= 0);
}

static void thresholds_of_alerts_are_numbers_or_off(void **state)
{
    (void)state;
    json_t *root = cs_test_spec_json(NULL);
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_spec *spec = must_read(root, arena);
    assert_true(fabs(spec->alert[CS_ALERT_SKIPPED_UPDATES] - 5) <= 0);
    assert_true(fabs(spec->alert[CS_ALERT_ROWS_LOST]) <= 0);
    assert_true(fabs(spec->alert[CS_ALERT_DATA_WAIT] - 0.25) <= 0);
    mutate(root, "alerts", "{\"skipped_updates\":false,\"data_wait\":0.75}");
    spec = must_read(root, arena);
    assert_true(fabs(spec->alert[CS_ALERT_SKIPPED_UPDATES]) <= 0);
    assert_true(fabs(spec->alert[CS_ALERT_DATA_WAIT] - 0.75) <= 0);
    assert_true(fabs(spec->alert[CS_ALERT_DIVERGENCE] - 1.5) <= 0);

    static const char *const wrong[][2] = {
        {"{\"data_wait\":true}", "alerts.data_wait is true; it must be false or a number from"   },
        {"{\"data_wait\":2}",    "alerts.data_wait is 2; it must be false or a number from 0.001"},
        {"{\"divergense\":2}",   "did you mean \"divergence\"?"                                  },
        {"{\"rows_lost\":1}",    "alerts.rows_lost is no key of a job; known here:"              },
        {"[]",                   "alerts is []; it must be an object"                            },
    };

    for (size_t i = 0; i < CS_ARRAY_LEN(wrong); i++) {
        struct cs_err err = {.text = ""};
        mutate(root, "alerts", wrong[i][0]);
        assert_int_equal(cs_spec_read(root, arena, &spec, &err), CS_INVALID);
        if (strstr(err.text, wrong[i][1]) == NULL)
            fail_msg("\"%s\" is not in \"%s\"", wrong[i][1], err.text);
    }
    cs_arena_free(arena);
    json_decref(root);
}

/* Every key of the table is on one side: a job with another layout trains the same, any other change
 * is named with both values. */
static void layout_is_apart_from_what_is_trained(void **state)
{
    static const struct {
        const char *path, *value, *difference, *a,
            *b; /* difference NULL: of the layout or a label */
    } cases[] = {
        {"plan.parallel.llm.pp",        "2",                     NULL,                    "",                        ""           },
        {"plan.parallel.llm.recompute", "\"full\"",              NULL,                    "",                        ""           },
        {"plan.dp",                     "2",                     NULL,                    "",                        ""           },
        {"plan.slots",                  "8",                     NULL,                    "",                        ""           },
        {"plan.schedule",               "\"gpipe\"",             NULL,                    "",                        ""           },
        {"plan.modality",               "\"encoder-first\"",     NULL,                    "",                        ""           },
        {"balance",                     "\"lpt\"",               NULL,                    "",                        ""           },
        {"data_threads",                "8",                     NULL,                    "",                        ""           },
        {"plan_hash",                   "\"abc\"",               NULL,                    "",                        ""           },
        {"optimizer.lr",                "0.25",                  "optimizer.lr",          "",                        "0.25"       },
        {"optimizer.clip",              "1",                     NULL,                    "",                        ""           },
        {"seed",                        "99",                    "seed",                  "0",                       "99"         },
        {"plan.seq_tokens",             "256",                   "plan.seq_tokens",       "128",                     "256"        },
        {"model.rules.0.glob",          "\"llm*\"",              "model.rules[0].glob",   "\"*\"",                   "\"llm*\""   },
        {"model.modules.0.init",        "\"weights\"",           "model.modules[0].init", "\"random\"",
         "\"weights\""                                                                                                            },
        {"data.json",                   "\"/x.json\"",           "data.json",             "\"/nowhere/train.json\"", "\"/x.json\""},
        {"eval",                        "null",                  NULL,                    "",                        ""           },
        {"name",                        "\"other\"",             NULL,                    "",                        ""           },
        {"tensorboard",                 "\"/board\"",            NULL,                    "",                        ""           },
        {"alerts",                      "{\"grad_norm\":false}", NULL,                    "",                        ""           },
    };

    (void)state;
    for (size_t i = 0; i < CS_ARRAY_LEN(cases); i++) {
        struct cs_spec_difference d;
        json_t *job = cs_test_spec_json(NULL), *other = cs_test_spec_json(NULL);
        mutate(other, cases[i].path, cases[i].value);
        json_t *a = cs_spec_trained(job), *b = cs_spec_trained(other);
        json_t *moved = cs_spec_with_layout(job, other), *c = cs_spec_trained(moved);
        cs_spec_compare(a, b, &d);
        assert_string_equal(d.path, cases[i].difference != NULL ? cases[i].difference : "");
        if (cases[i].difference != NULL && cases[i].a[0] != '\0')
            assert_string_equal(d.a, cases[i].a);
        if (cases[i].difference != NULL)
            assert_string_equal(d.b, cases[i].b);
        assert_true(json_equal(a, c)); /* taking a layout changes nothing of what is trained */
        if (cases[i].difference == NULL) {
            json_t *back = cs_spec_with_layout(moved, job);
            assert_true(json_equal(json_object_get(moved, "name"), json_object_get(job, "name")));
            assert_true(json_equal(back, job));
            json_decref(back);
        }
        json_t *const all[] = {job, other, a, b, c, moved};
        for (size_t k = 0; k < CS_ARRAY_LEN(all); k++)
            json_decref(all[k]);
    }
}

static void table_is_fit_for_a_manual(void **state)
{
    int n = 0;
    const struct cs_spec_key *keys = cs_spec_keys(&n);
    (void)state;
    assert_true(n > 40);
    for (int i = 0; i < n; i++) {
        assert_true(strlen(keys[i].help) > 5);
        assert_true(keys[i].type < CS_SPEC_TYPES);
        for (int k = 0; k < i; k++)
            assert_false(strcmp(keys[i].group, keys[k].group) == 0 &&
                         strcmp(keys[i].key, keys[k].key) == 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(defaults_are_those_of_the_table),
        cmocka_unit_test(every_value_arrives),
        cmocka_unit_test(hash_is_that_of_the_canonical_encoding),
        cmocka_unit_test(every_mistake_is_named),
        cmocka_unit_test(placeholders_must_differ),
        cmocka_unit_test(limits_hold),
        cmocka_unit_test(bf16_is_refused_on_cpu_ranks_only),
        cmocka_unit_test(state_in_bf16_needs_ranks_that_compute_in_it),
        cmocka_unit_test(learning_rates_equal_the_formulas),
        cmocka_unit_test(thresholds_of_alerts_are_numbers_or_off),
        cmocka_unit_test(layout_is_apart_from_what_is_trained),
        cmocka_unit_test(table_is_fit_for_a_manual),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Every key that is read, of every document: misspelt it is found, of another type it is an error.
 * Nothing gives silently the same as the document without it. The keys come from the tables. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/arch/families/families.h"
#include "core/arch/read/composite.h"
#include "core/arch/read/config.h"
#include "core/plan/cost/basis/profile_keys.h"
#include "input/data/record/record.h"
#include "input/media/processor.h"
#include "input/tok/files/keys.h"
#include "support/spec.h"

/* A kind of document: a small one that is well, its table, and who reads it. */
struct subject {
    const char *name;
    const struct cs_doc_table *table;
    enum cs_status (*read)(const struct subject *s, const json_t *json,
                           struct cs_findings *findings, struct cs_err *err);
    json_t *document;
    int n_tried;
};

static enum cs_status read_arch(const struct subject *s, const json_t *json,
                                struct cs_findings *findings, struct cs_err *err)
{
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_arch arch;
    const struct cs_config_source source = {s->name, "", json, findings};
    enum cs_status status = cs_projector_is(json) ? cs_arch_read_projector(&source, &arch, err)
                                                  : cs_arch_read(&source, arena, &arch, err);
    cs_arena_free(arena);
    return status;
}

static enum cs_status read_composite(const struct subject *s, const json_t *json,
                                     struct cs_findings *findings, struct cs_err *err)
{
    struct cs_composite composite;
    const struct cs_config_source source = {s->name, "", json, findings};
    return cs_composite_read(&source, true, &composite, err);
}

static enum cs_status read_processor(const struct subject *s, const json_t *json,
                                     struct cs_findings *findings, struct cs_err *err)
{
    struct cs_processor processor;
    return cs_processor_read_doc(&(struct cs_doc){.name = s->name, .where = "", .json = json},
                                 findings, &processor, err);
}

static enum cs_status review(const struct subject *s, const json_t *json,
                             struct cs_findings *findings, struct cs_err *err)
{
    return cs_doc_review(
        &(struct cs_doc){.name = s->name, .where = "", .json = json, .table = s->table}, findings,
        err);
}

/* The document as it stands now. Returns its status; *n_unknown: findings of that kind. */
static enum cs_status read_now(struct subject *s, int *n_unknown)
{
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_findings findings = {.arena = arena};
    struct cs_err err;
    enum cs_status status = s->read(s, s->document, &findings, &err);
    *n_unknown = cs_findings_count(&findings, CS_FINDING_UNKNOWN);
    cs_arena_free(arena);
    s->n_tried++;
    return status;
}

static void misspell(struct subject *s, const struct cs_doc_table *table, json_t *object,
                     const char *name)
{
    size_t len = strlen(name);
    for (int way = 0; way < 3; way++) {
        char word[CS_DOC_NAME + 2];
        int before = 0, after = 0;
        if (way == 0) /* a letter too many, one too few, an upper case one */
            snprintf(word, sizeof word, "%sx", name);
        else if (way == 1)
            snprintf(word, sizeof word, "%.*s", (int)len - 1, name);
        else
            snprintf(word, sizeof word, "%c%s", name[0] - 'a' + 'A', name + 1);
        const struct cs_doc_key *known = cs_doc_find(table, word);
        if (len < 2 || known != NULL)
            continue;
        (void)!read_now(s, &before);
        json_object_set_new(object, word, json_integer(1));
        enum cs_status status = read_now(s, &after);
        if (status == CS_OK && after == before)
            fail_msg("%s: \"%s\" instead of \"%s\" changes nothing", s->name, word, name);
        json_object_del(object, word);
    }
}

static void mistype(struct subject *s, const struct cs_doc_key *row, json_t *object,
                    const char *name)
{
    static const struct {
        int types; /* rows that take it */
        const char *json;
    } values[] = {
        {CS_DOC_BOOL,                                  "true"     },
        {CS_DOC_INT | CS_DOC_NUMBER | CS_DOC_POSITIVE, "1"        },
        {CS_DOC_NUMBER | CS_DOC_POSITIVE,              "0.5"      },
        {CS_DOC_STRING,                                "\"1\""    },
        {CS_DOC_LIST,                                  "[1]"      },
        {CS_DOC_OBJECT,                                "{\"a\":1}"},
    };

    json_t *old = json_incref(json_object_get(object, name));
    for (size_t i = 0; row->types != CS_DOC_ANY && i < CS_ARRAY_LEN(values); i++) {
        int unknown = 0;
        if (row->types & values[i].types)
            continue;
        json_object_set_new(object, name, json_loads(values[i].json, JSON_DECODE_ANY, NULL));
        if (read_now(s, &unknown) == CS_OK)
            fail_msg("%s: \"%s\" may be %s", s->name, name, values[i].json);
    }
    if (old != NULL)
        json_object_set_new(object, name, old);
    else
        json_object_del(object, name);
}

static void try_table(struct subject *s, const struct cs_doc_table *table, json_t *object,
                      int depth);

/* Its keys inside, in an object of this name (or a list of one). */
static void try_inside(struct subject *s, const struct cs_doc_key *row, json_t *object,
                       const char *name, int depth)
{
    json_t *old = json_incref(json_object_get(object, name));
    json_t *inner = json_is_object(old) ? json_deep_copy(old) : json_object();
    json_object_set_new(object, name,
                        row->types & CS_DOC_OBJECT ? json_incref(inner) : json_pack("[O]", inner));
    try_table(s, row->inside, inner, depth + 1);
    json_decref(inner);
    if (old != NULL)
        json_object_set_new(object, name, old);
    else
        json_object_del(object, name);
}

static void try_row(struct subject *s, const struct cs_doc_table *table,
                    const struct cs_doc_key *row, json_t *object, int depth)
{
    for (const char *at = row->names; *at != '\0' && row->use != CS_DOC_HARMLESS;) {
        char name[CS_DOC_NAME];
        size_t len = strcspn(at, "|");
        snprintf(name, sizeof name, "%.*s", (int)len, at);
        at += len + (at[len] == '|');
        bool is_any = strcmp(name, "*") == 0;
        if (!is_any)
            misspell(s, table, object, name);
        mistype(s, row, object, is_any ? "7" : name);
        if (row->inside != NULL && depth < 3)
            try_inside(s, row, object, is_any ? "7" : name, depth);
    }
}

static void try_table(struct subject *s, const struct cs_doc_table *table, json_t *object,
                      int depth)
{
    for (const struct cs_doc_table *t = table; t != NULL; t = t->more)
        for (int i = 0; i < t->n; i++)
            try_row(s, table, cs_doc_row(t, i), object, depth);
}

static void try_document(const char *name, const struct cs_doc_table *table,
                         enum cs_status (*read)(const struct subject *, const json_t *,
                                                struct cs_findings *, struct cs_err *),
                         const char *text)
{
    struct subject s = {name, table, read, json_loads(text, 0, NULL), 0};
    int n_unknown = 0;
    assert_non_null(s.document);
    if (read_now(&s, &n_unknown) != CS_OK || n_unknown != 0)
        fail_msg("%s: the document is not well: %s", name, text);
    try_table(&s, table, s.document, 0);
    assert_true(s.n_tried > 10);
    json_decref(s.document);
}

static void configurations_of_every_family(void **state)
{
    (void)state;
    const struct cs_family *family;
    for (int i = 0; (family = cs_family_at(i)) != NULL; i++) {
        char text[200];
        const bool is_gemma4 = strcmp(family->model_type, "gemma4_text") == 0;
        snprintf(text, sizeof text, "{\"model_type\": \"%s\"%s%s%s%s}", family->model_type,
                 family->inner != NULL ? ", \"" : "", family->inner != NULL ? family->inner : "",
                 family->inner != NULL ? "\": {}" : "",
                 is_gemma4 ? ", \"hidden_size_per_layer_input\": 0" : "");
        try_document(family->model_type, family->table, read_arch, text);
    }
}

static void configurations_of_composites_and_projectors(void **state)
{
    (void)state;
    int n;
    const struct cs_composite_family *families = cs_composite_families(&n);
    for (int i = 0; i < n; i++) {
        char text[256];
        const struct cs_doc_table *table = families[i].table;
        const bool has_strategy =
            table != NULL && cs_doc_find(table, "vision_feature_select_strategy") != NULL;
        const bool has_order = table != NULL && cs_doc_find(table, "ps_version") != NULL;
        snprintf(text, sizeof text, "{\"model_type\": \"%s\", \"%s\": {}, \"%s\": {}%s%s}",
                 families[i].model_type, families[i].encoder_key,
                 families[i].text_key != NULL ? families[i].text_key : "text_config",
                 has_strategy ? ", \"vision_feature_select_strategy\": \"full\"" : "",
                 has_order ? ", \"ps_version\": \"v2\"" : "");
        if (table != NULL) /* else the root is the tower's */
            try_document(families[i].model_type, table, read_composite, text);
    }
    try_document("projector", cs_projector_keys(), read_arch,
                 "{\"model_type\": \"mlp\", \"in_width\": 4, \"out_width\": 4}");
}

static void documents_of_processors(void **state)
{
    (void)state;
    try_document("preprocessor_config.json", cs_processor_keys(), read_processor,
                 "{\"image_processor_type\": \"SiglipImageProcessor\", \"size\": {\"height\": 8, "
                 "\"width\": 8}}");
    try_document("processor_config.json", cs_processor_pair_keys(), review,
                 "{\"processor_class\": \"LlavaProcessor\"}");
}

static void documents_of_tokenizers(void **state)
{
    (void)state;
    try_document("tokenizer.json", &tok_file_table, review, "{\"version\": \"1.0\"}");
    try_document("tokenizer_config.json", &tok_config_table, review, "{}");
    try_document("special_tokens_map.json", &tok_special_table, review, "{}");
}

static void documents_of_profiles(void **state)
{
    (void)state;
    try_document("profile", &cs_profile_keys, review, "{\"schema\": \"cornstarch.profile/1\"}");
}

static struct cs_record_keys *record_keys; /* of the job that reads the samples */

static enum cs_status read_sample(const struct subject *s, const json_t *json,
                                  struct cs_findings *findings, struct cs_err *err)
{
    struct cs_record *record = NULL;
    enum cs_status status = cs_record_read(json, record_keys, findings, &record, err);
    cs_record_free(record);
    (void)s;
    return status;
}

static void samples_of_a_data_set(void **state)
{
    static const struct cs_record_encoder encoder = {
        .name = "vision", .token = "<image>", .key = ""};
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_err err;
    (void)state;
    assert_int_equal(cs_record_keys_new(&encoder, 1, arena, &record_keys, &err), CS_OK);
    try_document(
        "a sample", &record_keys->sample, read_sample,
        "{\"conversations\": [{\"from\": \"human\", \"value\": \"a\"}, {\"from\": \"gpt\", "
        "\"value\": \"b\"}]}");
    cs_arena_free(arena);
}

/* --- the job: keys of its groups, by the same rules --------------------------------------------- */

/* The object of a group in the document, NULL: there is none. kind: of a module. */
static json_t *group_of(json_t *root, const char *group, const char *kind)
{
    json_t *model = json_object_get(root, "model"), *module;
    size_t i;
    if (strcmp(group, "") == 0)
        return root;
    if (strcmp(group, "model.rules[]") == 0)
        return json_array_get(json_object_get(model, "rules"), 0);
    if (strcmp(group, "plan.parallel.*") == 0)
        return json_object_get(json_object_get(json_object_get(root, "plan"), "parallel"), "llm");
    if (strcmp(group, "model.modules[]") != 0)
        return json_object_get(root, group);
    json_array_foreach(json_object_get(model, "modules"), i, module)
    {
        if (kind == NULL || strcmp(json_string_value(json_object_get(module, "kind")), kind) == 0)
            return module;
    }
    return NULL;
}

static enum cs_status read_job(const json_t *root)
{
    struct cs_arena *arena = cs_arena_new(0);
    struct cs_spec *spec = NULL;
    struct cs_err err;
    enum cs_status status = cs_spec_read(root, arena, &spec, &err);
    cs_arena_free(arena);
    return status;
}

static void keys_of_a_job(void **state)
{
    (void)state;
    int n = 0, n_tried = 0;
    const struct cs_spec_key *keys = cs_spec_keys(&n);
    json_t *root = cs_test_spec_json(NULL);
    assert_int_equal(read_job(root), CS_OK);
    for (int i = 0; i < n; i++) {
        char word[CS_DOC_NAME];
        json_t *group = group_of(root, keys[i].group, keys[i].kind);
        if (!json_is_object(group))
            continue; /* a group that this job does without */
        snprintf(word, sizeof word, "%sx", keys[i].key);
        json_object_set_new(group, word, json_integer(1));
        if (read_job(root) == CS_OK)
            fail_msg("%s.%s is no key and taken", keys[i].group, word);
        json_object_del(group, word);
        json_t *old = json_incref(json_object_get(group, keys[i].key));
        json_object_set_new(group, keys[i].key, json_pack("[[]]"));
        if (read_job(root) == CS_OK)
            fail_msg("%s.%s may be [[]]", keys[i].group, keys[i].key);
        if (old != NULL)
            json_object_set_new(group, keys[i].key, old);
        else
            json_object_del(group, keys[i].key);
        n_tried++;
    }
    assert_true(n_tried > 40);
    assert_int_equal(read_job(root), CS_OK);
    json_decref(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(configurations_of_every_family),
        cmocka_unit_test(configurations_of_composites_and_projectors),
        cmocka_unit_test(documents_of_processors),
        cmocka_unit_test(documents_of_tokenizers),
        cmocka_unit_test(documents_of_profiles),
        cmocka_unit_test(samples_of_a_data_set),
        cmocka_unit_test(keys_of_a_job),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

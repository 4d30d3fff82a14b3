/* The tables of keys. */
#include "core/plan/json/fields.h"

#include <stddef.h>

enum field_type { FIELD_I32, FIELD_I64, FIELD_BOOL };

struct field {
    const char *key;
    size_t offset;
    enum field_type type;
};

#define STAGE(key, type)                                                                           \
    {                                                                                              \
#key, offsetof(struct cs_stage, key), type                                                 \
    }
#define EDGE(key, type)                                                                            \
    {                                                                                              \
#key, offsetof(struct cs_edge, key), type                                                  \
    }
#define ENC(key, type)                                                                             \
    {                                                                                              \
#key, offsetof(struct cs_item_budget, key), type                                           \
    }

static const struct field stage_fields[] = {
    STAGE(id, FIELD_I32),
    STAGE(index, FIELD_I32),
    STAGE(rank, FIELD_I32), /* in the document: the first of its ranks */
    STAGE(first_layer, FIELD_I32),
    STAGE(n_layers, FIELD_I32),
    STAGE(fwd_ns, FIELD_I64),
    STAGE(bwd_input_ns, FIELD_I64),
    STAGE(bwd_weight_ns, FIELD_I64),
    STAGE(has_backward, FIELD_BOOL),
    STAGE(needs_input_grad, FIELD_BOOL),
    STAGE(weight_bytes, FIELD_I64),
    STAGE(state_bytes, FIELD_I64),
    STAGE(saved_bytes, FIELD_I64),
};
/* only where a profile was measured: written unless all are 0 */
static const struct field measured_fields[] = {
    STAGE(prepare_ns, FIELD_I64),
    STAGE(clear_ns, FIELD_I64),
    STAGE(norm_ns, FIELD_I64),
    STAGE(update_ns, FIELD_I64),
};
static const struct field edge_fields[] = {
    EDGE(id, FIELD_I32),    EDGE(from, FIELD_I32),      EDGE(to, FIELD_I32),
    EDGE(width, FIELD_I32), EDGE(has_grad, FIELD_BOOL), EDGE(max_rows, FIELD_I64),
};
static const struct field enc_fields[] = {
    ENC(rows, FIELD_I32),       ENC(items, FIELD_I32),  ENC(item_rows, FIELD_I32),
    ENC(item_bytes, FIELD_I32), ENC(height, FIELD_I32), ENC(width, FIELD_I32),
    ENC(channels, FIELD_I32),
};
/* only of pictures that differ in size; where all are alike they follow from the others */
static const struct field any_fields[] = {
    ENC(patches, FIELD_I32),
    ENC(bytes, FIELD_I64),
    ENC(item_patches, FIELD_I32),
    ENC(has_sources, FIELD_BOOL),
};

static const struct table {
    const struct field *field;
    size_t n;
} tables[] = {
    [CS_PLAN_STAGE] = {stage_fields,    CS_ARRAY_LEN(stage_fields)   },
    [CS_PLAN_MEASURED] = {measured_fields, CS_ARRAY_LEN(measured_fields)},
    [CS_PLAN_EDGE] = {edge_fields,     CS_ARRAY_LEN(edge_fields)    },
    [CS_PLAN_ENC] = {enc_fields,      CS_ARRAY_LEN(enc_fields)     },
    [CS_PLAN_ANY] = {any_fields,      CS_ARRAY_LEN(any_fields)     },
};

const char *const cs_plan_striped_words[1 << CS_FLOWS] = {NULL, "rows", "gradients", "both"};

void cs_plan_write_fields(json_t *object, const void *record, enum cs_plan_fields which)
{
    const struct field *fields = tables[which].field;
    for (size_t i = 0; i < tables[which].n; i++) {
        const void *at = (const char *)record + fields[i].offset;
        json_t *value = fields[i].type == FIELD_BOOL  ? json_boolean(*(const bool *)at)
                        : fields[i].type == FIELD_I32 ? json_integer(*(const int32_t *)at)
                                                      : json_integer(*(const int64_t *)at);
        json_object_set_new(object, fields[i].key, value);
    }
}

static bool read_number(const json_t *value, const struct field *field, void *at)
{
    json_int_t number = json_integer_value(value);
    if (!json_is_integer(value) || number < 0)
        return false;
    if (field->type == FIELD_I64) {
        *(int64_t *)at = (int64_t)number;
        return true;
    }
    if (number > INT32_MAX)
        return false;
    *(int32_t *)at = (int32_t)number;
    return true;
}

enum cs_status cs_plan_read_fields(const json_t *object, void *record, enum cs_plan_fields which,
                                   const char *where, struct cs_err *err)
{
    const struct field *fields = tables[which].field;
    const size_t n = tables[which].n;
    if (!json_is_object(object))
        return cs_fail(err, CS_CORRUPT, "plan: %s is not an object", where);
    for (size_t i = 0; i < n; i++) {
        const json_t *value = json_object_get(object, fields[i].key);
        void *at = (char *)record + fields[i].offset;
        bool is_bool = fields[i].type == FIELD_BOOL;
        if (is_bool && json_is_boolean(value))
            *(bool *)at = json_is_true(value);
        else if (is_bool || !read_number(value, &fields[i], at))
            return cs_fail(err, CS_CORRUPT, "plan: %s.%s must be %s", where, fields[i].key,
                           is_bool ? "true or false" : "a whole number from 0 within its range");
    }
    return CS_OK;
}

const char *cs_plan_first_key(enum cs_plan_fields which)
{
    return tables[which].field[0].key;
}

enum cs_status cs_plan_read_count(const json_t *json, const char *key, int32_t min, int32_t max,
                                  int32_t *out, struct cs_err *err)
{
    const json_t *value = json_object_get(json, key);
    json_int_t number = json_integer_value(value);
    if (!json_is_integer(value) || number < min || number > max)
        return cs_fail(err, CS_CORRUPT, "plan: %s must be a whole number from %d to %d", key, min,
                       max);
    *out = (int32_t)number;
    return CS_OK;
}

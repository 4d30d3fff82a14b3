/* Numbers and flags of a plan's records as tables of keys, so that what is written is what is read. */
#ifndef CS_PLAN_JSON_FIELDS_H
#define CS_PLAN_JSON_FIELDS_H

#include <jansson.h>

#include "core/plan/plan.h"

#define CS_PLAN_SCHEMA "cornstarch.plan/1"

/* which: of which record */
enum cs_plan_fields {
    CS_PLAN_STAGE,    /* struct cs_stage */
    CS_PLAN_MEASURED, /* of it, where a profile was measured: written unless all are 0 */
    CS_PLAN_EDGE,     /* struct cs_edge */
    CS_PLAN_ENC,      /* struct cs_item_budget */
    CS_PLAN_ANY /* of it, of pictures that differ in size; where all are alike they follow from the others */
};

/* by which flows of an edge are striped, a bit of each; [0] is NULL */
extern const char *const cs_plan_striped_words[1 << CS_FLOWS];

void cs_plan_write_fields(json_t *object, const void *record, enum cs_plan_fields which);
/* CS_CORRUPT: where.key is missing or of another type */
enum cs_status cs_plan_read_fields(const json_t *object, void *record, enum cs_plan_fields which,
                                   const char *where, struct cs_err *err) CS_NODISCARD;
/* a document that has it has all of the table */
const char *cs_plan_first_key(enum cs_plan_fields which);
/* CS_CORRUPT: it is no whole number from min to max */
enum cs_status cs_plan_read_count(const json_t *json, const char *key, int32_t min, int32_t max,
                                  int32_t *out, struct cs_err *err) CS_NODISCARD;

#endif

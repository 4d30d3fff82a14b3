/* Edits of documents. */
#ifndef CS_TESTS_SUPPORT_JSON_PUT_H
#define CS_TESTS_SUPPORT_JSON_PUT_H

#include <jansson.h>

/* Sets the value, which is stolen, at a path such as "stages/0/rank". */
void cs_test_json_put(json_t *json, const char *path, json_t *value);

#endif

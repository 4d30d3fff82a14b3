/* JSON as Python's json module writes it, which the strict parser refuses. */
#ifndef CS_INPUT_DATA_JSON_TOLERANT_H
#define CS_INPUT_DATA_JSON_TOLERANT_H

#include <jansson.h>

#include "core/base/status.h"

/* NaN and Infinity become null, lone surrogates and invalid UTF-8 U+FFFD, integers of more than 18
 * digits strings. CS_CORRUPT with line and reason. */
enum cs_status cs_json_tolerant(const char *bytes, size_t n, json_t **out,
                                struct cs_err *err) CS_NODISCARD;

#endif

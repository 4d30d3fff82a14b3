/* JSON as Python's json module writes it, which the strict parser refuses. */
#ifndef CS_INPUT_DATA_JSON_TOLERANT_H
#define CS_INPUT_DATA_JSON_TOLERANT_H

#include <jansson.h>
#include <stdint.h>

#include "core/base/status.h"

/* NaN and Infinity become null, integers of more than 18 digits real numbers. CS_CORRUPT with line
 * and reason; bytes that are not UTF-8, lone surrogates and an object's second key of one name too:
 * nothing is replaced by something else. at: place of the first byte in its file, for messages. */
enum cs_status cs_json_tolerant(const char *bytes, size_t n, uint64_t at, json_t **out,
                                struct cs_err *err) CS_NODISCARD;

#endif

/* JSON as Python writes it, parsed. Its integers have no limit: tokenizer_config.json of most models says
 * model_max_length 1000000000000000019884624838656. One that int64 does not hold becomes a real number. */
#ifndef CS_DOC_JSON_TEXT_H
#define CS_DOC_JSON_TEXT_H

#include <jansson.h>

/* As json_loadb of jansson; the caller owns the reference. NULL: why says what and where. */
json_t *cs_json_parse(const char *text, size_t n, size_t flags, json_error_t *why);

#endif

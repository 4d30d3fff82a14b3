/* Jobs over the models of goldens: their weights, the optimizer that the goldens were made with. */
#ifndef CS_TESTS_SUPPORT_GOLDEN_DOCUMENT_H
#define CS_TESTS_SUPPORT_GOLDEN_DOCUMENT_H

#include <jansson.h>

/* A file of it, "": its directory; good until the next call. family: a model of tests/golden, or the whole path
 * of a directory. */
const char *golden_path(const char *family, const char *file);
/* Its config.json, and the document of its job; the caller owns the references. */
json_t *golden_config(const char *family);
json_t *golden_document(const char *family);

#endif

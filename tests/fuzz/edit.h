/* What fuzz targets share: a fuzzer's bytes as a source of small choices, and documents that are nearly
 * right. A random text is hardly ever a document; one with some values exchanged goes deep. */
#ifndef CS_TESTS_FUZZ_EDIT_H
#define CS_TESTS_FUZZ_EDIT_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

struct fuzz_bytes {
    const uint8_t *at;
    size_t n;
};

/* 0 .. below - 1; 0 when there are no bytes left */
uint32_t fuzz_take(struct fuzz_bytes *bytes, uint32_t below);
/* a value that something may not expect; a new reference */
json_t *fuzz_value(struct fuzz_bytes *bytes);
/* Exchanges, removes, adds and doubles some values anywhere in the document (an object or a list). */
void fuzz_edit(json_t *document, struct fuzz_bytes *bytes);
/* Stops the program: something that must hold does not. */
void fuzz_must(int holds);

#endif

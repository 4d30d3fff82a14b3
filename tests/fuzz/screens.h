/* Draws every view of a store, as a console would. */
#ifndef CS_TESTS_FUZZ_SCREENS_H
#define CS_TESTS_FUZZ_SCREENS_H

#include "console/store/store.h"
#include "fuzz/edit.h"

void fuzz_draw(struct cs_store *store, struct fuzz_bytes *bytes);

#endif

/* Libraries of the system that are opened when the first file needs them, so that programs also start
 * where they are not installed: a node that trains on text needs no decoders.
 *
 * Stays loaded until the process ends; opening again costs some microseconds. */
#ifndef CS_BASE_LIBRARY_H
#define CS_BASE_LIBRARY_H

#include <stddef.h>

#include "core/base/status.h"

/* A function, and where its pointer goes in the caller's table. */
struct cs_symbol {
    const char *name;
    size_t offset;
};

struct cs_library {
    const char *file;    /* "libsndfile.so.1": the version that the headers are of */
    const char *package; /* that brings it, for messages */
    const char *what;    /* is read with it: "sound files" */
    const struct cs_symbol *symbols;
    int n_symbols;
};

/* Fills the table of function pointers. CS_UNSUPPORTED: not installed, or without one of them. */
enum cs_status cs_library_open(const struct cs_library *library, void *table,
                               struct cs_err *err) CS_NODISCARD;

#endif

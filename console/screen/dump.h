/* Screens without a terminal: a canvas of any size as text. */
#ifndef CS_CONSOLE_SCREEN_DUMP_H
#define CS_CONSOLE_SCREEN_DUMP_H

#include <jansson.h>

#include "console/draw/glyph.h"
#include "core/base/buf.h"
#include "core/plan/cluster.h"

struct cs_store;

/* Replays a trace file (with what lies beside it in its job directory), opens a view, presses keys
 * ("3 j Space", "g g", "C-d", "Esc": separated by spaces), draws and appends rows lines to out.
 * CS_USAGE: unknown view or key, with what there is. Sizes from 1x1 to 1000x1000. */
struct cs_dump {
    const char *trace;      /* path; or */
    struct cs_store *store; /* ... what is there already, borrowed; or */
    const json_t *spec;     /* ... the specification of a script, trace NULL */
    const json_t *job;      /* what the daemon says of the job of the trace, NULL: nothing */
    const json_t *node;     /* ... a node.show answer about GPUs, both others NULL */
    struct cs_here here;    /* of the script */
    const char *view;       /* "jobs" "model" "pipeline" "logs" "plan"; NULL: pipeline, of a
                            script plan */
    const char *keys;       /* NULL: none */
    int cols, rows;
    enum cs_glyph_set glyphs;
    bool is_read; /* as lines for a screen reader, not as a screen */
};

enum cs_status cs_dump_replay(const struct cs_dump *dump, struct cs_buf *out,
                              struct cs_err *err) CS_NODISCARD;
/* "100x30" */
enum cs_status cs_dump_size(const char *text, int *cols, int *rows,
                            struct cs_err *err) CS_NODISCARD;

#endif

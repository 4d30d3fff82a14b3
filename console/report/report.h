/* A run as one page: HTML with its charts as SVG inside, no script, nothing that is loaded from
 * elsewhere, readable in light and dark and on paper. Pure: what the store and a few answers of the
 * daemon know, into a buffer. */
#ifndef CS_CONSOLE_REPORT_REPORT_H
#define CS_CONSOLE_REPORT_REPORT_H

#include <jansson.h>

#include "console/store/store.h"
#include "console/whatif/preview.h"

struct cs_report {
    const struct cs_store *store;     /* the job is selected in it: documents, metrics, notes */
    const json_t *job, *spec;         /* as job.show has them */
    const json_t *node;               /* node.show; NULL: not known */
    const struct cs_preview *preview; /* of the job's own plan; without an arena: there is none */
    int64_t wall_ns;                  /* now */
};

void cs_report_html(const struct cs_report *report, struct cs_buf *out);

#endif

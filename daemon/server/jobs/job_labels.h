/* Tags and note of a job: what its owner says about it. They stay in the job's record. */
#ifndef CS_SERVER_JOB_LABELS_H
#define CS_SERVER_JOB_LABELS_H

#include <jansson.h>

#include "core/base/status.h"
#include "server/records/job_row.h"

struct cs_labels {
    const json_t *add, *remove; /* lists of tags, NULL: none */
    const char *note;           /* NULL: as it is */
};

/* Changes row. CS_INVALID: a tag is no word; CS_LIMIT: too many; row is as it was. */
enum cs_status cs_job_label(struct cs_job_row *row, const struct cs_labels *labels,
                            struct cs_err *err) CS_NODISCARD;
json_t *cs_job_tags(const struct cs_job_row *row); /* a new list */
/* does it have all of them; NULL: asked for none */
bool cs_job_has_tags(const struct cs_job_row *row, const json_t *tags);

#endif

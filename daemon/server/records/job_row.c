/* The table of a job's fields. */
#include "server/records/job_row.h"

#include <math.h>

#include "core/base/status.h"

#define AT(member) offsetof(struct cs_job_row, member)
#define TEXT(member, is_derived)                                                                   \
    {                                                                                              \
#member, CS_ROW_TEXT, AT(member), sizeof((struct cs_job_row *)0)->member, is_derived       \
    }
#define INT(member, is_derived)                                                                    \
    {                                                                                              \
#member, CS_ROW_INT, AT(member), 0, is_derived                                             \
    }
#define REAL(member, is_derived)                                                                   \
    {                                                                                              \
#member, CS_ROW_REAL, AT(member), 0, is_derived                                            \
    }

/* clang-format off */
const struct cs_row_field cs_row_fields[] = {
    TEXT(name, false),
    TEXT(state, false),
    TEXT(owner, false),
    TEXT(spec_hash, false),
    TEXT(plan_hash, false),
    TEXT(reason, false),
    TEXT(dir, true),
    INT(step, true),
    INT(steps, false),
    INT(submitted_ns, false),
    INT(started_ns, false),
    INT(ended_ns, false),
    INT(stopped_ns, false),
    INT(stop, false),
    INT(generation, false),
    INT(checkpoint_step, false),
    INT(predicted_step_ns, false),
    INT(step_ns, true),
    INT(exit_code, false),
    INT(ranks, false),
    INT(journal_offset, true),
    INT(energy_mj, true),
    INT(energy_steps, true),
    INT(energy_tokens, true),
    TEXT(device, false),
    TEXT(gpus, false),
    TEXT(tags, false),
    TEXT(note, false),
    REAL(loss, true),
    REAL(exact_match, true),
    REAL(bubble, true),
};
/* clang-format on */
const int cs_n_row_fields = CS_ARRAY_LEN(cs_row_fields);

void cs_row_init(struct cs_job_row *row)
{
    *row = (struct cs_job_row){.loss = (double)NAN,
                               .exact_match = (double)NAN,
                               .bubble = (double)NAN,
                               .checkpoint_step = -1};
}

char *cs_row_text(struct cs_job_row *row, const struct cs_row_field *field)
{
    return (char *)row + field->offset;
}

int64_t *cs_row_int(struct cs_job_row *row, const struct cs_row_field *field)
{
    return (int64_t *)(void *)((char *)row + field->offset);
}

double *cs_row_real(struct cs_job_row *row, const struct cs_row_field *field)
{
    return (double *)(void *)((char *)row + field->offset);
}

/* Looks up the states of a job. */
#include "core/wire/job_state.h"

#include <stddef.h>
#include <string.h>

#include "core/base/status.h"

static const struct cs_job_state_row rows[] = {
#define X(name, phase, orders, exit, mood, help)                                                   \
    {CS_STATE_##name, #name, CS_PHASE_##phase, orders, exit, CS_MOOD_##mood, help},
    CS_JOB_STATES(X)
#undef X
};
_Static_assert(CS_ARRAY_LEN(rows) == CS_JOB_STATE_COUNT, "one row per state");

const struct cs_job_state_row *cs_job_state_row(enum cs_job_state state)
{
    return &rows[state];
}

const struct cs_job_state_row *cs_job_state_find(const char *name)
{
    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++)
        if (strcmp(rows[i].name, name) == 0)
            return &rows[i];
    return NULL;
}

bool cs_job_state_is(const char *name, enum cs_job_phase phase)
{
    const struct cs_job_state_row *row = cs_job_state_find(name);
    return row != NULL && row->phase == phase;
}

enum cs_job_mood cs_job_state_mood(const char *name)
{
    const struct cs_job_state_row *row = cs_job_state_find(name);
    return row != NULL ? row->mood : CS_MOOD_PLAIN;
}

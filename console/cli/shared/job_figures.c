/* Figures of a job object as text, "-" where unknown. */
#include <math.h>
#include <stdio.h>

#include "console/cli/command/cmd.h"
#include "core/wire/job_state.h"
#include "core/wire/wire.h"

void cs_cmd_number(char out[32], const json_t *job, const char *key, double scale, int decimals,
                   const char *unit)
{
    double value = 0;
    const json_t *item = json_object_get(job, key);
    if (!item || json_is_null(item) || !cs_json_to_num(item, &value))
        snprintf(out, 32, "-");
    else
        snprintf(out, 32, "%.*f%s", decimals, value * scale, unit);
}

int cs_cmd_job_exit(const json_t *job)
{
    const struct cs_job_state_row *state = cs_job_state_find(cs_msg_str(job, "state", ""));
    const int code = (int)cs_msg_int(job, "exit", 0);
    return code == 0 && state != NULL ? state->exit_code : code;
}

void cs_cmd_mean_bubble(char out[32], const json_t *job)
{
    const json_t *list = cs_msg_arr(job, "bubble"), *item;
    double sum = 0, value = cs_msg_num(job, "mean_bubble", (double)NAN);
    size_t i, n = json_array_size(list);
    for (i = 0; i < n; i++) {
        double share;
        item = json_array_get(list, i);
        sum += cs_json_to_num(item, &share) ? share : 0;
    }
    if (isfinite(value))
        sum = value;
    else if (n)
        sum /= (double)n;
    if (isfinite(value) || n)
        snprintf(out, 32, "%.1f%%", 100 * sum);
    else
        snprintf(out, 32, "-");
}

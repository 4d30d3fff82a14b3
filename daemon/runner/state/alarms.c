/* The alarms of a job as a list of objects, and back: they are kept over its runs. */
#include "runner/state/alarms.h"

#include <stdio.h>

#include "core/base/str.h"
#include "core/base/system/io.h"
#include "core/wire/line.h"
#include "core/wire/wire.h"

static json_t *object_of(enum cs_alert rule, const struct cs_alarm *alarm)
{
    json_t *o = json_object();
    cs_msg_set_str(o, "rule", cs_alert_row(rule)->slug);
    cs_msg_set_str(o, "level", cs_log_level_name(alarm->level));
    cs_msg_set_int(o, "count", alarm->count);
    if (alarm->step >= 0)
        cs_msg_set_int(o, "step", alarm->step);
    cs_msg_set_str(o, "text", alarm->text);
    cs_msg_set_int(o, "wall_ns", alarm->wall_ns);
    return o;
}

json_t *cs_run_alarms(const struct cs_runner *r)
{
    json_t *list = json_array();
    for (int i = 0; i < CS_ALERT_COUNT; i++)
        if (r->alarm[i].count > 0)
            json_array_append_new(list, object_of((enum cs_alert)i, &r->alarm[i]));
    return list;
}

static void take(struct cs_runner *r, const json_t *o)
{
    const enum cs_alert rule = cs_alert_find(cs_msg_str(o, "rule", ""));
    enum cs_log_level level;
    if (rule == CS_ALERT_COUNT || !cs_log_level_parse(cs_msg_str(o, "level", ""), &level))
        return; /* of another release */
    struct cs_alarm *alarm = &r->alarm[rule];
    *alarm = (struct cs_alarm){.count = cs_msg_int(o, "count", 1),
                               .step = cs_msg_int(o, "step", -1),
                               .wall_ns = cs_msg_int(o, "wall_ns", 0),
                               .level = level};
    cs_str_copy(alarm->text, sizeof alarm->text, cs_msg_str(o, "text", ""));
}

void cs_run_alarms_read(struct cs_runner *r)
{
    char path[CS_PATH_CAP + 16];
    struct cs_buf text = {0};
    json_t *state = NULL;
    snprintf(path, sizeof path, "%s/state.json", r->job.dir);
    if (cs_read_file(path, 1 << 20, &text, NULL) == CS_OK)
        (void)!cs_line_parse(cs_buf_str(&text), text.len, &state, NULL);
    const json_t *alarms = cs_msg_arr(state, "alarms");
    for (size_t i = 0; i < json_array_size(alarms); i++)
        take(r, json_array_get(alarms, i));
    json_decref(state);
    cs_buf_free(&text);
}

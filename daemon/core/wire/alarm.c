/* Prints alarms and keeps lists of them, one entry per rule. */
#include "core/wire/alarm.h"

#include <string.h>

#include "core/wire/wire.h"

/* level on the wire, as people read it; the most serious first */
static const struct {
    const char *level, *word;
} levels[] = {
    {"error", "ERROR"  },
    {"warn",  "WARNING"},
    {"info",  "NOTE"   },
};

static size_t level_of(const json_t *alarm)
{
    size_t i = 0;
    while (i + 1 < CS_ARRAY_LEN(levels) &&
           strcmp(levels[i].level, cs_msg_str(alarm, "level", "info")) != 0)
        i++;
    return i;
}

const char *cs_alarm_word(const json_t *alarm)
{
    return levels[level_of(alarm)].word;
}

void cs_alarm_print(struct cs_buf *out, const json_t *alarm)
{
    const int64_t step = cs_msg_int(alarm, "step", -1), count = cs_msg_int(alarm, "count", 1);
    cs_buf_addf(out, "%s %s", cs_alarm_word(alarm), cs_msg_str(alarm, "rule", ""));
    if (step >= 0)
        cs_buf_addf(out, ", step %lld", (long long)step + 1);
    if (count > 1)
        cs_buf_addf(out, ", %lld times", (long long)count);
    cs_buf_addf(out, ": %s", cs_msg_str(alarm, "text", ""));
}

static bool is_worse(const json_t *a, const json_t *b)
{
    if (level_of(a) != level_of(b))
        return level_of(a) < level_of(b);
    return cs_msg_int(a, "wall_ns", 0) > cs_msg_int(b, "wall_ns", 0);
}

const json_t *cs_alarm_worst(const json_t *alarms)
{
    const json_t *worst = NULL;
    for (size_t i = 0; i < json_array_size(alarms); i++)
        if (worst == NULL || is_worse(json_array_get(alarms, i), worst))
            worst = json_array_get(alarms, i);
    return worst;
}

bool cs_alarm_merge(json_t *alarms, const json_t *alarm)
{
    static const char *const keys[] = {"rule", "level", "step", "count", "text", "wall_ns"};
    const char *rule = cs_msg_str(alarm, "rule", "");
    if (rule[0] == '\0')
        return false;
    json_t *entry = json_object();
    for (size_t i = 0; i < CS_ARRAY_LEN(keys); i++)
        if (json_object_get(alarm, keys[i]) != NULL)
            cs_msg_set(entry, keys[i], json_incref(json_object_get(alarm, keys[i])));
    for (size_t i = 0; i < json_array_size(alarms); i++) {
        const json_t *have = json_array_get(alarms, i);
        if (strcmp(cs_msg_str(have, "rule", ""), rule) != 0)
            continue;
        if (cs_msg_int(have, "wall_ns", 0) > cs_msg_int(alarm, "wall_ns", 0))
            json_decref(entry); /* it is behind: rows of the journal come after what was told */
        else
            json_array_set_new(alarms, i, entry);
        return true;
    }
    json_array_append_new(alarms, entry);
    return true;
}

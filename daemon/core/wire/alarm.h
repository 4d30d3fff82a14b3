/* Alarms of a job as they travel (object "alarm" of core/wire/schema.def) and as people read them. */
#ifndef CS_WIRE_ALARM_H
#define CS_WIRE_ALARM_H

#include <jansson.h>

#include "core/base/buf.h"

/* "WARNING divergence, step 40, 3 times: TEXT"; without a newline; steps count from 1 here. Of an
 * alarm object, or of a note that is one. */
void cs_alarm_print(struct cs_buf *out, const json_t *alarm);
const char *cs_alarm_word(const json_t *alarm); /* "WARNING": its level */
/* the most serious of a list, of equals the latest; NULL: the list is empty */
const json_t *cs_alarm_worst(const json_t *alarms);
/* Puts an alarm object or a note that is one into a list with one entry per rule, where the newest
 * holds. A note without a rule is none: false. */
bool cs_alarm_merge(json_t *alarms, const json_t *alarm);

#endif

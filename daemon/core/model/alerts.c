/* Looks up the rules of a job's alarms. */
#include "core/model/alerts.h"

#include <string.h>

static const struct cs_alert_row rows[CS_ALERT_COUNT] = {
#define X(id, slug, threshold, least, most, help) {slug, help, threshold, least, most},
    CS_ALERTS_MEASURED(X)
#undef X
#define X(id, slug, help) {slug, help, 0, 0, 0},
        CS_ALERTS_TOLD(X)
#undef X
};

const struct cs_alert_row *cs_alert_row(enum cs_alert alert)
{
    return &rows[alert];
}

enum cs_alert cs_alert_find(const char *slug)
{
    int i = 0;
    while (i < CS_ALERT_COUNT && strcmp(rows[i].slug, slug) != 0)
        i++;
    return (enum cs_alert)i;
}

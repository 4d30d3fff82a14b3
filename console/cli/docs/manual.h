/* Parts of the manual pages that are made from the tables (mdoc): scripts/gen-docs puts them
 * between the markers of the pages, 'cornstarch-console help --mdoc --part NAME' prints them. */
#ifndef CS_CONSOLE_CLI_MANUAL_H
#define CS_CONSOLE_CLI_MANUAL_H

#include "console/cli/command/command.h"

enum cs_manual_part {
    CS_MANUAL_COMMANDS, /* cornstarch-console.1: commands with their options */
    CS_MANUAL_SCREEN,   /* options of the screen */
    CS_MANUAL_KEYS,     /* keys of the screen, by view */
    CS_MANUAL_JOB,      /* cornstarch-job.5: keys of the specification */
    CS_MANUAL_VIEWS,    /* what each view of the screen shows */
    CS_MANUAL_PARTS
};

extern const char *const cs_manual_parts[]; /* their names, NULL-terminated */

void cs_manual_part(const struct cs_commands *all, enum cs_manual_part part, struct cs_buf *out);

#endif

/* One option of a table as an item of a list in a manual page: what every option of the console
 * looks like there. */
#ifndef CS_CONSOLE_CLI_MANUAL_OPTION_H
#define CS_CONSOLE_CLI_MANUAL_OPTION_H

#include "core/base/buf.h"
#include "core/program/options.h"

void cs_manual_option(struct cs_buf *out, const struct cs_option *option);

#endif

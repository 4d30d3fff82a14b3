/* cornstarch-console: what a user types at. */
#include <locale.h>
#include <signal.h>

#include "console/cli/cli.h"
#include "console/command.h"
#include "core/program/process.h"

int main(int argc, char **argv)
{
    cs_process_begin("cornstarch-console");
    setlocale(LC_ALL, "");
    setlocale(LC_NUMERIC, "C"); /* numbers look the same everywhere */
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a full quota is an error of the write, not our end */
    return cs_cli_main(&cs_commands, argc, argv);
}

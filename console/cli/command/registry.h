/* Every command, in the order of help and manual: cs_command_NAME is defined in a file of this
 * folder. */
#ifndef CS_CONSOLE_CLI_REGISTRY_H
#define CS_CONSOLE_CLI_REGISTRY_H

#include "console/cli/command/command.h"

/* clang-format off */
#define CS_COMMAND_TABLE(X) \
    X(run)                  \
    X(submit)               \
    X(sweep)                \
    X(plan)                 \
    X(profile)              \
    X(jobs)                 \
    X(show)                 \
    X(metrics)              \
    X(report)               \
    X(logs)                 \
    X(pause)                \
    X(resume)               \
    X(stop)                 \
    X(checkpoint)           \
    X(wait)                 \
    X(attach)               \
    X(queue)                \
    X(retry)                \
    X(clone)                \
    X(tag)                  \
    X(note)                 \
    X(rm)                   \
    X(prune)                \
    X(nodes)                \
    X(gpus)                 \
    X(export)               \
    X(model_init)           \
    X(model_show)           \
    X(model_check)          \
    X(model_convert)        \
    X(selftest_family)      \
    X(selftest_parallel)    \
    X(data_make_shapes)     \
    X(data_check)           \
    X(inspect)              \
    X(lua)                  \
    X(dump)                 \
    X(doctor)               \
    X(daemon_start)         \
    X(daemon_stop)          \
    X(daemon_drain)         \
    X(daemon_undrain)       \
    X(daemon_status)        \
    X(proxy)                \
    X(raw)                  \
    X(complete)             \
    X(version)              \
    X(help)
/* clang-format on */

#define X(name) extern const struct cs_command cs_command_##name;
CS_COMMAND_TABLE(X)
#undef X

#endif

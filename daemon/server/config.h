/* Options of cornstarchd: one table for the command line and for cornstarch.conf. */
#ifndef CS_SERVER_CONFIG_H
#define CS_SERVER_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/status.h"

struct cs_config {
    const char *config_file, *state_dir, *runtime_dir, *log_file;
    int log_level; /* enum cs_log_level */
    bool is_background, check_only;
    int64_t cpu_devices;      /* ranks the node offers on CPU cores */
    int64_t max_connections;
    int64_t hello_timeout_ns;
    int64_t queue_entries; /* events a slow console may be behind */
};

/* argv over the file over the defaults; wants_exit: --help or --version was printed */
enum cs_status cs_config_read(int argc, char **argv, struct cs_config *out, bool *wants_exit,
                              struct cs_err *err) CS_NODISCARD;

#endif

/* Options of cornstarchd: one table for the command line and for cornstarch.conf. */
#ifndef CS_SERVER_CONFIG_H
#define CS_SERVER_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

#include "core/base/status.h"
#include "core/program/options.h"

struct cs_config {
    const char *config_file, *state_dir, *runtime_dir, *log_file;
    int log_level; /* enum cs_log_level */
    bool is_background, check_only, is_rebuild;
    int64_t cpu_devices; /* ranks the node offers on CPU cores: N of devices "cpu:N" too */
    const char *devices; /* see cs_offer_read */
    int64_t max_connections;
    int64_t metrics_port; /* 0: none */
    const char *metrics_address;
    int64_t hello_timeout_ns;
    int64_t queue_entries; /* events a slow console may be behind */
    int64_t idle_exit_ns;  /* 0: never */
    char **file_args;      /* what options of the file point into */
    int n_file_args;
};

/* argv over the file over the defaults; wants_exit: --help or --version was printed. The file is
 * that of
 * --config, else $XDG_CONFIG_HOME/cornstarch/cornstarch.conf (~/.config) when it is there. */
enum cs_status cs_config_read(int argc, char **argv, struct cs_config *out, bool *wants_exit,
                              struct cs_err *err) CS_NODISCARD;
void cs_config_free(struct cs_config *config);
/* levels, limits and times; directories and files need a restart */
void cs_config_take_reloadable(struct cs_config *config, const struct cs_config *fresh);
/* Hidden options for scripts/gen-docs: --list-messages, --list-states, --list-options, --list-config print their
 * part of the manual pages as mdoc. CS_NOT_FOUND: another word. */
enum cs_status cs_docs_print(const char *what, struct cs_buf *out, struct cs_err *err) CS_NODISCARD;

/* What --devices says a node offers. */
enum cs_offer_kind { CS_OFFER_AUTO, CS_OFFER_CPU, CS_OFFER_CUDA };

struct cs_offer {
    enum cs_offer_kind kind;
    int64_t n; /* 0: all */
};

/* "auto", "cpu", "cpu:N", "cuda", "cuda:N" */
enum cs_status cs_offer_read(const char *text, struct cs_offer *out,
                             struct cs_err *err) CS_NODISCARD;
const struct cs_cli *cs_config_cli(void);
bool cs_config_is_reloadable(const char *name);
bool cs_config_is_for_file(const char *name);

#endif

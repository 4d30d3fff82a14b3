/* Command-line options from a table: parsing, --help, --version and a listing for manual pages.
 *
 * Forms: --name=value, --name value, --flag, --no-flag, -n5, -n 5, -abc (flags), -- ends options.
 * Defaults are texts parsed by the same rules, so they obey the range. The value of an option goes
 * to values + offset, of the type its row names: FLAG bool, INT int64_t, SIZE int64_t bytes,
 * DURATION int64_t nanoseconds, NUMBER double, STRING const char * (into argv or the table), ENUM
 * int (index into choices), TEXTS struct cs_texts (the option may be given several times). Every program also has --help and --version. Unknown names get the
 * nearest known one as a hint. */
#ifndef CS_BASE_OPTIONS_H
#define CS_BASE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/base/buf.h"
#include "core/base/status.h"

enum cs_option_type {
    CS_OPT_FLAG,
    CS_OPT_INT,
    CS_OPT_SIZE,
    CS_OPT_DURATION,
    CS_OPT_NUMBER,
    CS_OPT_STRING,
    CS_OPT_ENUM,
    CS_OPT_TEXTS,
    CS_OPT_TYPE_COUNT
};

enum { CS_TEXTS_MAX = 16 };

struct cs_texts {
    int n;
    const char *item[CS_TEXTS_MAX]; /* into argv */
};

struct cs_option {
    const char *name; /* without the dashes */
    char letter;      /* 0: none */
    enum cs_option_type type;
    int64_t min, max;    /* INT, SIZE, DURATION; both 0: no range. STRING, TEXTS: max bytes or 0 */
    const char *dflt;    /* NULL: the value stays as the caller set it */
    const char *argname; /* NULL: derived from the type */
    const char *const *choices; /* ENUM: NULL-terminated */
    const char *help;
    size_t offset; /* offsetof in the caller's struct of values */
};

struct cs_cli {
    const char *name, *version, *summary;
    const char *usage; /* after "usage: NAME ", e.g. "[options] SCRIPT" */
    const struct cs_option *options;
    size_t n_options;
    int min_args, max_args;   /* positional arguments; max_args -1: any number */
    bool stops_at_positional; /* programs with subcommands: the rest is left untouched */
};

struct cs_args {
    int n;
    char **items;                   /* positional arguments: argv + 1, moved there in place */
    bool wants_help, wants_version; /* when one is set, nothing else was checked */
};

/* Sets defaults, then what argv says. argv is reordered in place. CS_USAGE says what is wrong. */
CS_NODISCARD enum cs_status cs_options_parse(const struct cs_cli *program, int argc, char **argv,
                                             void *values, struct cs_args *args,
                                             struct cs_err *err);
/* One value by name, with the option's type and range: for configuration files with the same
 * table. */
CS_NODISCARD enum cs_status cs_options_set(const struct cs_cli *program, const char *name,
                                           const char *value, void *values, struct cs_err *err);
/* width: of the terminal, 0: it is none */
void cs_options_help(const struct cs_cli *program, int width, struct cs_buf *out);
void cs_options_version(const struct cs_cli *program, struct cs_buf *out); /* one line */
/* One line per option: name, letter, type, argument, min, max, default, choices (a|b), help;
 * tab-separated, "-" where there is none. */
void cs_options_list(const struct cs_cli *program, struct cs_buf *out);
const char *cs_option_type_name(enum cs_option_type type);

#endif

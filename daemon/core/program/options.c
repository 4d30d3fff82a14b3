/* Parses command lines and configuration values by a table of options. */
#include "core/program/options.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/near.h"
#include "core/base/str.h"
#include "core/base/units.h"

#define NAMES_MAX 128

struct parse {
    const struct cs_cli *program;
    char **argv;
    int argc, at; /* at: the argument being read */
    void *values;
    struct cs_args *args;
    struct cs_err *err;
};

static const struct cs_option help_option = {
    .name = "help", .letter = 'h', .type = CS_OPT_FLAG, .help = "print this text and leave"};
static const struct cs_option version_option = {
    .name = "version", .letter = 'V', .type = CS_OPT_FLAG, .help = "print the version and leave"};

static const struct cs_option *find_name(const struct cs_cli *program, const char *name, size_t len)
{
    for (size_t i = 0; i < program->n_options; i++)
        if (strlen(program->options[i].name) == len &&
            memcmp(program->options[i].name, name, len) == 0)
            return &program->options[i];
    if (len == 4 && memcmp(name, "help", 4) == 0)
        return &help_option;
    if (len == 7 && memcmp(name, "version", 7) == 0)
        return &version_option;
    return NULL;
}

static const struct cs_option *find_letter(const struct cs_cli *program, char letter)
{
    for (size_t i = 0; i < program->n_options; i++)
        if (program->options[i].letter == letter)
            return &program->options[i];
    return letter == 'h' ? &help_option : letter == 'V' ? &version_option : NULL;
}

static const char *nearest_name(const struct cs_cli *program, const char *name)
{
    const char *names[NAMES_MAX] = {"help", "version"};
    int n = 2;
    for (size_t i = 0; i < program->n_options && n < NAMES_MAX; i++)
        names[n++] = program->options[i].name;
    return cs_near(name, names, n);
}

static enum cs_status fail_unknown(const struct cs_cli *program, const char *name,
                                   struct cs_err *err)
{
    const char *near = nearest_name(program, name);
    if (near)
        return cs_fail(err, CS_USAGE, "unknown option --%.100s; did you mean --%s?", name, near);
    return cs_fail(err, CS_USAGE, "unknown option --%.100s; try %s --help", name, program->name);
}

static void put(void *values, const struct cs_option *option, const void *value, size_t bytes)
{
    memcpy((char *)values + option->offset, value, bytes);
}

static enum cs_status fail_value(const struct cs_option *option, const char *value,
                                 const char *wanted, struct cs_err *err)
{
    return cs_fail(err, CS_USAGE, "--%s: '%.100s' is not %s", option->name, value, wanted);
}

static enum cs_status set_whole(const struct cs_option *option, const char *text, void *values,
                                struct cs_err *err)
{
    int64_t value = 0;
    uint64_t scaled = 0;
    if (option->type == CS_OPT_INT && !cs_str_to_i64(text, &value))
        return fail_value(option, text, "a whole number", err);
    if (option->type == CS_OPT_SIZE && !cs_bytes_parse(text, &scaled))
        return fail_value(option, text, "a size such as 64MiB", err);
    if (option->type == CS_OPT_DURATION && !cs_duration_parse(text, &scaled))
        return fail_value(option, text, "a time such as 250ms, 30s or 1h30m", err);
    if (scaled > INT64_MAX)
        return fail_value(option, text, "small enough", err);
    if (option->type != CS_OPT_INT)
        value = (int64_t)scaled;
    if ((option->min || option->max) && (value < option->min || value > option->max))
        return cs_fail(err, CS_USAGE, "--%s: %.100s is outside %lld..%lld%s", option->name, text,
                       (long long)option->min, (long long)option->max,
                       option->type == CS_OPT_SIZE       ? " bytes"
                       : option->type == CS_OPT_DURATION ? " ns"
                                                         : "");
    put(values, option, &value, sizeof(value));
    return CS_OK;
}

static enum cs_status set_flag(const struct cs_option *option, const char *text, void *values,
                               struct cs_err *err)
{
    bool value = strcmp(text, "true") == 0 || strcmp(text, "yes") == 0 || strcmp(text, "1") == 0;
    if (!value && strcmp(text, "false") != 0 && strcmp(text, "no") != 0 && strcmp(text, "0") != 0)
        return fail_value(option, text, "yes or no", err);
    put(values, option, &value, sizeof(value));
    return CS_OK;
}

static enum cs_status set_number(const struct cs_option *option, const char *text, void *values,
                                 struct cs_err *err)
{
    double value;
    if (!cs_str_to_double(text, &value))
        return fail_value(option, text, "a number", err);
    if ((option->min || option->max) &&
        !(value >= (double)option->min && value <= (double)option->max))
        return cs_fail(err, CS_USAGE, "--%s: %.100s is outside %lld..%lld", option->name, text,
                       (long long)option->min, (long long)option->max);
    put(values, option, &value, sizeof(value));
    return CS_OK;
}

static enum cs_status set_string(const struct cs_option *option, const char *text, void *values,
                                 struct cs_err *err)
{
    if (option->max && strlen(text) > (size_t)option->max)
        return cs_fail(err, CS_USAGE, "--%s: longer than %lld bytes", option->name,
                       (long long)option->max);
    if (option->min && strlen(text) < (size_t)option->min)
        return cs_fail(err, CS_USAGE, "--%s: needs a value", option->name);
    put(values, option, &text, sizeof(text));
    return CS_OK;
}

static enum cs_status set_enum(const struct cs_option *option, const char *text, void *values,
                               struct cs_err *err)
{
    struct cs_buf all = {0};
    for (int i = 0; option->choices[i]; i++) {
        if (strcmp(option->choices[i], text) == 0) {
            put(values, option, &i, sizeof(i));
            cs_buf_free(&all);
            return CS_OK;
        }
        cs_buf_addf(&all, "%s%s", i ? ", " : "", option->choices[i]);
    }
    enum cs_status status = cs_fail(err, CS_USAGE, "--%s: '%.100s' is not one of %s", option->name,
                                    text, cs_buf_str(&all));
    cs_buf_free(&all);
    return status;
}

static enum cs_status add_text(const struct cs_option *option, const char *text, void *values,
                               struct cs_err *err)
{
    struct cs_texts *texts = (struct cs_texts *)(void *)((char *)values + option->offset);
    if (option->max && strlen(text) > (size_t)option->max)
        return cs_fail(err, CS_USAGE, "--%s: longer than %lld bytes", option->name,
                       (long long)option->max);
    if (texts->n == CS_TEXTS_MAX)
        return cs_fail(err, CS_USAGE, "--%s: at most %d times", option->name, CS_TEXTS_MAX);
    texts->item[texts->n++] = text;
    return CS_OK;
}

typedef enum cs_status set_fn(const struct cs_option *option, const char *text, void *values,
                              struct cs_err *err);
static set_fn *const setters[] = {
    [CS_OPT_FLAG] = set_flag,      [CS_OPT_INT] = set_whole,     [CS_OPT_SIZE] = set_whole,
    [CS_OPT_DURATION] = set_whole, [CS_OPT_NUMBER] = set_number, [CS_OPT_STRING] = set_string,
    [CS_OPT_ENUM] = set_enum,      [CS_OPT_TEXTS] = add_text,
};
_Static_assert(CS_ARRAY_LEN(setters) == CS_OPT_TYPE_COUNT, "one setter per type");

static enum cs_status set_value(const struct parse *p, const struct cs_option *option,
                                const char *text)
{
    if (option == &help_option)
        p->args->wants_help = true;
    else if (option == &version_option)
        p->args->wants_version = true;
    else
        return setters[option->type](option, text, p->values, p->err);
    return CS_OK;
}

enum cs_status cs_options_set(const struct cs_cli *program, const char *name, const char *value,
                              void *values, struct cs_err *err)
{
    const struct cs_option *option = find_name(program, name, strlen(name));
    if (!option || option == &help_option || option == &version_option)
        return fail_unknown(program, name, err);
    return setters[option->type](option, value, values, err);
}

/* the value after "--name" or "-n": the next argument */
static enum cs_status take_next(struct parse *p, const struct cs_option *option)
{
    if (p->at + 1 >= p->argc)
        return cs_fail(p->err, CS_USAGE, "--%s needs a value", option->name);
    return set_value(p, option, p->argv[++p->at]);
}

static enum cs_status read_long(struct parse *p, const char *text)
{
    size_t len = strcspn(text, "=");
    const struct cs_option *option = find_name(p->program, text, len);
    if (!option && text[len] == '\0' && cs_str_starts(text, "no-")) {
        option = find_name(p->program, text + 3, len - 3);
        if (option && option->type == CS_OPT_FLAG && option != &help_option &&
            option != &version_option)
            return set_value(p, option, "no");
        option = NULL;
    }
    if (!option) {
        char name[128];
        cs_str_copy(name, len + 1 < sizeof(name) ? len + 1 : sizeof(name), text);
        return fail_unknown(p->program, name, p->err);
    }
    if (text[len] == '=')
        return set_value(p, option, text + len + 1);
    return option->type == CS_OPT_FLAG ? set_value(p, option, "yes") : take_next(p, option);
}

static enum cs_status read_letters(struct parse *p, const char *letters)
{
    for (; *letters; letters++) {
        const struct cs_option *option = find_letter(p->program, *letters);
        if (!option)
            return cs_fail(p->err, CS_USAGE, "unknown option -%c; try %s --help", *letters,
                           p->program->name);
        if (option->type == CS_OPT_FLAG)
            CS_TRY(set_value(p, option, "yes"));
        else
            return letters[1] ? set_value(p, option, letters + 1) : take_next(p, option);
    }
    return CS_OK;
}

static enum cs_status check_count(const struct parse *p)
{
    const struct cs_cli *program = p->program;
    if (p->args->n < program->min_args)
        return cs_fail(p->err, CS_USAGE, "too few arguments; usage: %s %s", program->name,
                       program->usage ? program->usage : "");
    if (program->max_args >= 0 && p->args->n > program->max_args)
        return cs_fail(p->err, CS_USAGE, "unexpected argument '%.100s'; usage: %s %s",
                       p->args->items[program->max_args], program->name,
                       program->usage ? program->usage : "");
    return CS_OK;
}

static enum cs_status read_arguments(struct parse *p)
{
    bool only_positional = false;
    for (p->at = 1; p->at < p->argc; p->at++) {
        char *text = p->argv[p->at];
        if (only_positional || text[0] != '-' || text[1] == '\0') {
            p->args->items[p->args->n++] = text;
            only_positional = only_positional || p->program->stops_at_positional;
        } else if (strcmp(text, "--") == 0) {
            only_positional = true;
        } else {
            CS_TRY(text[1] == '-' ? read_long(p, text + 2) : read_letters(p, text + 1));
            if (p->args->wants_help || p->args->wants_version)
                return CS_OK;
        }
    }
    return check_count(p);
}

enum cs_status cs_options_parse(const struct cs_cli *program, int argc, char **argv, void *values,
                                struct cs_args *args, struct cs_err *err)
{
    struct parse p = {program, argv, argc, 1, values, args, err};
    *args = (struct cs_args){.items = argc > 0 ? argv + 1 : argv};
    for (size_t i = 0; i < program->n_options; i++) {
        const struct cs_option *option = &program->options[i];
        if (option->dflt)
            CS_TRY(setters[option->type](option, option->dflt, values, err));
    }
    return read_arguments(&p);
}

/* Prints the help, the version and the listing of a table of options. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "core/base/str.h"
#include "core/base/units.h"
#include "core/program/options.h"

#define LEFT_MAX 30 /* columns of the option names before their help moves to its own line */

static const struct {
    const char *name, *argname;
} types[] = {
    [CS_OPT_FLAG] = {"flag",     NULL  },
      [CS_OPT_INT] = {"int",      "N"   },
    [CS_OPT_SIZE] = {"size",     "SIZE"},
      [CS_OPT_DURATION] = {"duration", "TIME"},
    [CS_OPT_NUMBER] = {"number",   "X"   },
      [CS_OPT_STRING] = {"string",   "TEXT"},
    [CS_OPT_ENUM] = {"enum",     "WORD"},
      [CS_OPT_TEXTS] = {"texts",    "TEXT"},
};

_Static_assert(CS_ARRAY_LEN(types) == CS_OPT_TYPE_COUNT, "one name per type");

const char *cs_option_type_name(enum cs_option_type type)
{
    return types[type].name;
}

static const char *argname(const struct cs_option *option)
{
    return option->argname && option->type != CS_OPT_FLAG ? option->argname
                                                          : types[option->type].argname;
}

/* words of text, wrapped between columns from and width; the cursor stands at column `from` */
static void wrap(struct cs_buf *out, const char *text, int from, int width)
{
    int column = from;
    while (*text) {
        size_t len = strcspn(text, " ");
        int columns = cs_utf8_width(text, len);
        if (column > from && column + 1 + columns > width) {
            cs_buf_addf(out, "\n%*s", from, "");
            column = from;
        } else if (column > from) {
            cs_buf_addc(out, ' ');
            column++;
        }
        cs_buf_add(out, text, len);
        column += columns;
        text += len;
        text += strspn(text, " ");
    }
    cs_buf_addc(out, '\n');
}

static void add_choices(struct cs_buf *out, const struct cs_option *option, const char *gap)
{
    for (int i = 0; option->choices[i]; i++)
        cs_buf_addf(out, "%s%s", i ? gap : "", option->choices[i]);
}

static void add_bound(struct cs_buf *out, const struct cs_option *option, int64_t value)
{
    char text[CS_UNITS_CAP];
    if (option->type == CS_OPT_SIZE && value >= 0)
        cs_bytes_print(text, sizeof(text), (uint64_t)value);
    else if (option->type == CS_OPT_DURATION && value >= 0)
        cs_duration_print(text, sizeof(text), (uint64_t)value);
    else
        snprintf(text, sizeof(text), "%" PRId64, value);
    cs_buf_adds(out, text);
}

static void add_option(struct cs_buf *out, const struct cs_option *option, int width)
{
    struct cs_buf left = {0}, right = {0};
    if (option->letter)
        cs_buf_addf(&left, "  -%c, --%s", option->letter, option->name);
    else
        cs_buf_addf(&left, "      --%s", option->name);
    if (argname(option))
        cs_buf_addf(&left, "=%s", argname(option));
    cs_buf_adds(&right, option->help);
    if (option->type == CS_OPT_ENUM) {
        cs_buf_adds(&right, ": ");
        add_choices(&right, option, ", ");
    }
    if ((option->min || option->max) && option->type != CS_OPT_STRING &&
        option->type != CS_OPT_TEXTS) {
        cs_buf_adds(&right, "; ");
        add_bound(&right, option, option->min);
        cs_buf_adds(&right, " to ");
        add_bound(&right, option, option->max);
    }
    if (option->dflt && option->dflt[0] && option->type != CS_OPT_FLAG)
        cs_buf_addf(&right, " (default %s)", option->dflt);
    if ((int)left.len + 2 > LEFT_MAX)
        cs_buf_addf(out, "%s\n%*s", left.data, LEFT_MAX, "");
    else
        cs_buf_addf(out, "%-*s", LEFT_MAX, left.data);
    wrap(out, right.data, LEFT_MAX, width);
    cs_buf_free(&left);
    cs_buf_free(&right);
}

void cs_options_help(const struct cs_cli *program, int width, struct cs_buf *out)
{
    static const struct cs_option common[] = {
        {.name = "help",    .letter = 'h', .help = "print this text and leave"  },
        {.name = "version", .letter = 'V', .help = "print the version and leave"},
    };
    if (width == 0)
        width = 80;
    if (width < LEFT_MAX + 20)
        width = LEFT_MAX + 20;
    cs_buf_addf(out, "usage: %s %s\n\n", program->name, program->usage ? program->usage : "");
    if (program->summary) {
        wrap(out, program->summary, 0, width);
        cs_buf_addc(out, '\n');
    }
    for (size_t i = 0; i < program->n_options; i++)
        add_option(out, &program->options[i], width);
    for (size_t i = 0; i < CS_ARRAY_LEN(common); i++)
        add_option(out, &common[i], width);
}

void cs_options_version(const struct cs_cli *program, struct cs_buf *out)
{
    cs_buf_addf(out, "%s %s\n", program->name, program->version);
}

void cs_options_list(const struct cs_cli *program, struct cs_buf *out)
{
    for (size_t i = 0; i < program->n_options; i++) {
        const struct cs_option *option = &program->options[i];
        const char *arg = argname(option);
        cs_buf_addf(out, "%s\t%c\t%s\t%s\t", option->name, option->letter ? option->letter : '-',
                    types[option->type].name, arg ? arg : "-");
        if (option->min || option->max)
            cs_buf_addf(out, "%" PRId64 "\t%" PRId64 "\t", option->min, option->max);
        else
            cs_buf_adds(out, "-\t-\t");
        cs_buf_addf(out, "%s\t", option->dflt && option->dflt[0] ? option->dflt : "-");
        if (option->type == CS_OPT_ENUM)
            add_choices(out, option, "|");
        else
            cs_buf_addc(out, '-');
        cs_buf_addf(out, "\t%s\n", option->help);
    }
}

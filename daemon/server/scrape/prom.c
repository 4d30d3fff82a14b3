/* Lines of Prometheus' text format. */
#include "server/scrape/prom.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/base/str.h"

/* of labels with quotes, of help without; line ends and what no reader should meet are escaped */
static void add_text(struct cs_buf *out, const char *text, bool is_quoted)
{
    struct cs_buf clean = {0};
    cs_str_escape(&clean, text, strlen(text), false);
    for (size_t i = 0; i < clean.len; i++) {
        const char c = clean.data[i];
        if (c == '\\' || (is_quoted && c == '"'))
            cs_buf_addc(out, '\\');
        cs_buf_addc(out, c);
    }
    cs_buf_free(&clean);
}

void cs_prom_family(struct cs_buf *out, const char *name, const char *type, const char *help)
{
    cs_buf_addf(out, "# HELP %s ", name);
    add_text(out, help, false);
    cs_buf_addf(out, "\n# TYPE %s %s\n", name, type);
}

static void add_value(struct cs_buf *out, double value)
{
    if (isnan(value))
        cs_buf_adds(out, "NaN");
    else if (isinf(value))
        cs_buf_adds(out, value > 0 ? "+Inf" : "-Inf");
    else
        cs_buf_addf(out, "%.15g", value);
}

void cs_prom_sample(struct cs_buf *out, const char *name, const struct cs_prom_label *labels,
                    double value)
{
    cs_buf_adds(out, name);
    for (const struct cs_prom_label *label = labels; label && label->name; label++) {
        cs_buf_addf(out, "%c%s=\"", label == labels ? '{' : ',', label->name);
        add_text(out, label->value, true);
        cs_buf_addc(out, '"');
    }
    if (labels && labels->name)
        cs_buf_addc(out, '}');
    cs_buf_addc(out, ' ');
    add_value(out, value);
    cs_buf_addc(out, '\n');
}

void cs_prom_name(const char *metric, char *out, size_t cap, double *scale)
{
    static const struct {
        const char *end, *base;
        double scale;
    } units[] = {
        {"_ms",    "_seconds",    1e-3            },
        {"_gib",   "_bytes",      1024.0 * 1048576},
        {"_w",     "_watts",      1               },
        {"_per_s", "_per_second", 1               },
        {"_per_j", "_per_joule",  1               },
    };

    const size_t n = strlen(metric);
    *scale = 1;
    snprintf(out, cap, "cornstarch_%s", metric);
    for (size_t i = 0; i < CS_ARRAY_LEN(units); i++) {
        const size_t end = strlen(units[i].end);
        if (n <= end || strcmp(metric + n - end, units[i].end) != 0)
            continue;
        snprintf(out, cap, "cornstarch_%.*s%s", (int)(n - end), metric, units[i].base);
        *scale = units[i].scale;
    }
}

/* Keeps what a look at a job found. */
#include <stdarg.h>

#include "console/preflight/preflight.h"

void cs_preflight_free(struct cs_preflight *preflight)
{
    json_decref(preflight->notes);
    json_decref(preflight->warnings);
    preflight->notes = preflight->warnings = NULL;
}

void cs_preflight_warn(struct cs_preflight *out, const char *fmt, ...)
{
    struct cs_buf text = {0};
    va_list args;
    va_start(args, fmt);
    cs_buf_addv(&text, fmt, args);
    va_end(args);
    json_t *warning = json_stringn(cs_buf_str(&text), text.len);
    if (warning)
        json_array_append_new(out->warnings, warning);
    cs_buf_free(&text);
}

/* Says what a terminal may be shown. */
#include "core/base/say.h"

#include "core/base/str.h"

void cs_say_exact(FILE *to, const struct cs_buf *text)
{
    fwrite(cs_buf_str(text), 1, text->len, to);
}

void cs_say_text(FILE *to, const struct cs_buf *text)
{
    struct cs_buf safe = {0};
    cs_str_clean(&safe, cs_buf_str(text), text->len);
    cs_say_exact(to, &safe);
    cs_buf_free(&safe);
}

void cs_say(FILE *to, const char *fmt, ...)
{
    struct cs_buf text = {0};
    va_list args;
    va_start(args, fmt);
    cs_buf_addv(&text, fmt, args);
    va_end(args);
    cs_say_text(to, &text);
    cs_buf_free(&text);
}

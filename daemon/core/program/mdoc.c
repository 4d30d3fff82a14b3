/* Escapes text for manual pages. */
#include "core/program/mdoc.h"

void cs_mdoc_text(struct cs_buf *out, const char *text)
{
    if (*text == '.' || *text == '\'')
        cs_buf_adds(out, "\\&");
    for (; *text; text++) {
        if (*text == '\\')
            cs_buf_adds(out, "\\e");
        else if (*text == '-')
            cs_buf_adds(out, "\\-");
        else
            cs_buf_addc(out, *text);
    }
}

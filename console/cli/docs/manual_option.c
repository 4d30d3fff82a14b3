/* One option of a table as an item of a list in a manual page. */
#include "console/cli/docs/manual_option.h"

#include <ctype.h>

#include "core/program/mdoc.h"

/* as --help names them */
static const char *const argument_names[CS_OPT_TYPE_COUNT] = {
    [CS_OPT_FLAG] = "",         [CS_OPT_INT] = "N",      [CS_OPT_SIZE] = "SIZE",
    [CS_OPT_DURATION] = "TIME", [CS_OPT_NUMBER] = "X",   [CS_OPT_STRING] = "TEXT",
    [CS_OPT_ENUM] = "WORD",     [CS_OPT_TEXTS] = "TEXT",
};

void cs_manual_option(struct cs_buf *out, const struct cs_option *o)
{
    cs_buf_adds(out, ".It Fl ");
    if (o->letter)
        cs_buf_addf(out, "%c , Fl ", o->letter);
    cs_buf_adds(out, "\\-");
    cs_mdoc_text(out, o->name);
    if (o->type != CS_OPT_FLAG)
        cs_buf_addf(out, " Ar %s", o->argname ? o->argname : argument_names[o->type]);
    cs_buf_addc(out, '\n');
    cs_buf_addc(out, (char)toupper((unsigned char)o->help[0]));
    cs_mdoc_text(out, o->help + 1);
    for (int i = 0; o->choices && o->choices[i]; i++)
        cs_buf_addf(out, "%s%s", i ? ", " : ": ", o->choices[i]);
    if (o->dflt) {
        cs_buf_adds(out, " (default ");
        cs_mdoc_text(out, o->dflt);
        cs_buf_addc(out, ')');
    }
    cs_buf_adds(out, ".\n");
}

/* Searches text. */
#include "console/views/state/needle.h"

#include <ctype.h>
#include <string.h>

#include "core/base/str.h"

static bool has_capital(const char *text)
{
    for (; *text; text++)
        if (isupper((unsigned char)*text))
            return true;
    return false;
}

/* An expression that is none, "a(b", is looked for as it stands. */
void cs_needle_make(struct cs_needle *needle, const char *text)
{
    *needle = (struct cs_needle){.is_empty = text[0] == '\0', .is_exact = has_capital(text)};
    cs_str_copy(needle->text, sizeof needle->text, text);
    const int flags = REG_EXTENDED | (needle->is_exact ? 0 : REG_ICASE);
    if (strpbrk(text, ".[]()*+?{}|^$\\") != NULL)
        needle->is_regex = regcomp(&needle->regex, text, flags) == 0;
}

void cs_needle_free(struct cs_needle *needle)
{
    if (needle->is_regex)
        regfree(&needle->regex);
    needle->is_regex = false;
}

bool cs_needle_match(const struct cs_needle *needle, const char *text, int *at, int *n)
{
    regmatch_t match = {.rm_so = 0, .rm_eo = 0};
    bool is_found = true;
    if (needle->is_regex) {
        is_found = regexec(&needle->regex, text, 1, &match, 0) == 0;
    } else if (!needle->is_empty) {
        const char *found =
            needle->is_exact ? strstr(text, needle->text) : strcasestr(text, needle->text);
        is_found = found != NULL;
        match.rm_so = found ? (regoff_t)(found - text) : 0;
        match.rm_eo = match.rm_so + (regoff_t)strlen(needle->text);
    }
    if (is_found && at)
        *at = (int)match.rm_so;
    if (is_found && n)
        *n = (int)(match.rm_eo - match.rm_so);
    return is_found;
}

/* Chooses and looks up the UTF-8 and ASCII forms of drawn marks. */
#include "console/draw/glyph.h"

#include <string.h>
#include <strings.h>
#include <wchar.h>

#include "core/base/str.h"

static const char *const glyphs[CS_GLYPH_COUNT][CS_GLYPH_SETS] = {
#define X(id, utf8, ascii) [CS_GLYPH_##id] = {utf8, ascii},
    CS_GLYPH_TABLE(X)
#undef X
};

static const char *const sparks[CS_SPARK_LEVELS][CS_GLYPH_SETS] = {
    {"▁", "_"},
    {"▂", "."},
    {"▃", ","},
    {"▄", "-"},
    {"▅", "~"},
    {"▆", "="},
    {"▇", "*"},
    {"█", "#"},
};

const char *cs_glyph(enum cs_glyph_set set, enum cs_glyph glyph)
{
    return glyphs[glyph][set];
}

const char *cs_glyph_spark(enum cs_glyph_set set, int level)
{
    int last = CS_SPARK_LEVELS - 1;
    return sparks[level < 0 ? 0 : level > last ? last : level][set];
}

/* Box and block characters are ambiguous in East Asian locales: the terminal's rule decides. */
static bool are_narrow(void)
{
    for (int g = 0; g < CS_GLYPH_COUNT; g++) {
        uint32_t code = 0;
        const char *text = glyphs[g][CS_GLYPHS_UTF8];
        if (!cs_utf8_decode(text, strlen(text), &code) || wcwidth((wchar_t)code) != 1)
            return false;
    }
    return true;
}

enum cs_glyph_set cs_glyph_choose(const char *option, const char *codeset)
{
    if (option && strcmp(option, "utf8") == 0)
        return CS_GLYPHS_UTF8;
    if (option && strcmp(option, "ascii") == 0)
        return CS_GLYPHS_ASCII;
    bool is_utf8 =
        codeset && (strcasecmp(codeset, "UTF-8") == 0 || strcasecmp(codeset, "UTF8") == 0);
    return is_utf8 && are_narrow() ? CS_GLYPHS_UTF8 : CS_GLYPHS_ASCII;
}

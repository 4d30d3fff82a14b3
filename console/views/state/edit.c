/* Edits one line of UTF-8. */
#include "console/views/state/edit.h"

#include <string.h>

#include "console/draw/canvas.h"
#include "console/views/state/key_codes.h"
#include "core/base/str.h"

void cs_edit_set(struct cs_edit *edit, const char *text)
{
    cs_str_copy(edit->text, sizeof edit->text, text);
    edit->at = strlen(edit->text);
}

static size_t before(const struct cs_edit *edit)
{
    size_t at = edit->at;
    while (at > 0 && ((unsigned char)edit->text[--at] & 0xc0) == 0x80)
        ;
    return at;
}

static size_t behind(const struct cs_edit *edit)
{
    uint32_t code;
    const size_t n = strlen(edit->text + edit->at);
    return edit->at + (n ? cs_utf8_decode(edit->text + edit->at, n, &code) : 0);
}

static void cut(struct cs_edit *edit, size_t from, size_t to)
{
    memmove(edit->text + from, edit->text + to, strlen(edit->text + to) + 1);
    edit->at = from;
}

void cs_edit_insert(struct cs_edit *edit, const char *text, size_t n)
{
    for (size_t i = 0; i < n;) {
        uint32_t code;
        const size_t rest = strlen(edit->text + edit->at), length = edit->at + rest;
        size_t width = cs_utf8_decode(text + i, n - i, &code);
        const char *bytes = width > 0 && code >= ' ' && code != 127 ? text + i : " ";
        const size_t step = width > 0 ? width : 1;
        width = bytes == text + i ? width : 1;
        if (length + width >= CS_EDIT_CAP)
            return;
        memmove(edit->text + edit->at + width, edit->text + edit->at, rest + 1);
        memcpy(edit->text + edit->at, bytes, width);
        edit->at += width;
        i += step;
    }
}

static void cut_word(struct cs_edit *edit)
{
    size_t from = edit->at;
    while (from > 0 && edit->text[from - 1] == ' ')
        from--;
    while (from > 0 && edit->text[from - 1] != ' ')
        from--;
    cut(edit, from, edit->at);
}

enum { C_A = 1, C_E = 5, C_K = 11, C_U = 21, C_W = 23, C_B = 2, C_F = 6, C_D = 4 };

bool cs_edit_key(struct cs_edit *edit, int key)
{
    char bytes[4];
    if (key >= ' ' && key < CS_KEY_UP && key != CS_KEY_BACKSPACE)
        cs_edit_insert(edit, bytes, cs_canvas_encode((uint32_t)key, bytes));
    else if (key == CS_KEY_LEFT || key == C_B)
        edit->at = before(edit);
    else if (key == CS_KEY_RIGHT || key == C_F)
        edit->at = behind(edit);
    else if (key == CS_KEY_HOME || key == C_A)
        edit->at = 0;
    else if (key == CS_KEY_END || key == C_E)
        edit->at = strlen(edit->text);
    else if (key == CS_KEY_BACKSPACE)
        cut(edit, before(edit), edit->at);
    else if (key == CS_KEY_DELETE || key == C_D)
        cut(edit, edit->at, behind(edit));
    else if (key == C_U)
        cut(edit, 0, edit->at);
    else if (key == C_W)
        cut_word(edit);
    else if (key == C_K)
        edit->text[edit->at] = '\0';
    else
        return false;
    return true;
}

/* What the screen lends its terminal for: the clipboard, a pager, another command. */
#include "console/screen/terminal/lend.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/system/io.h"

void cs_lend_copy(struct cs_term *term, struct cs_screen *screen, const struct cs_store *store)
{
    struct cs_buf text = {0};
    cs_view_row_text(store, screen, &text);
    cs_term_copy(term, cs_buf_str(&text), text.len);
    snprintf(screen->message, sizeof screen->message, "copied %zu bytes: %.200s", text.len,
             cs_buf_str(&text));
    screen->message_style = CS_STYLE_DIM;
    cs_buf_free(&text);
}

void cs_lend_page(struct cs_term *term, struct cs_screen *screen, const struct cs_store *store)
{
    const char *pager = getenv("PAGER");
    struct cs_buf rows = {0};
    cs_view_rows_text(store, screen, &rows);
    pager = pager && pager[0] ? pager : "less";
    if (cs_term_run(term, pager, &rows) == 127)
        cs_screen_say(screen, CS_STYLE_WARN, "the pager was not found; PAGER names another");
    cs_buf_free(&rows);
}

/* The program itself, with the words that were typed: nothing of them is the shell's. */
static void add_quoted(struct cs_buf *out, const char *text, size_t n)
{
    cs_buf_addc(out, '\'');
    for (size_t i = 0; i < n; i++)
        text[i] == '\'' ? cs_buf_adds(out, "'\\''") : cs_buf_addc(out, text[i]);
    cs_buf_adds(out, "' ");
}

/* A word, or a blank between words; "\\ " is a blank of one. Returns its bytes. */
static size_t add_word(struct cs_buf *out, const char *text)
{
    struct cs_buf word = {0};
    size_t n = 0;
    for (; text[n] && text[n] != ' '; n++) {
        n += text[n] == '\\' && text[n + 1];
        cs_buf_addc(&word, text[n]);
    }
    if (word.len > 0)
        add_quoted(out, cs_buf_str(&word), word.len);
    cs_buf_free(&word);
    return n > 0 ? n : 1;
}

void cs_lend_command(struct cs_term *term, const char *words, const char *socket)
{
    struct cs_buf command = {0};
    char path[CS_PATH_CAP] = "/proc/self/exe";
    const ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    path[n > 0 ? n : (ssize_t)strlen(path)] = '\0';
    add_quoted(&command, path, strlen(path));
    for (const char *at = words; *at;)
        at += add_word(&command, at);
    if (socket) {
        cs_buf_adds(&command, "--socket ");
        add_quoted(&command, socket, strlen(socket));
    }
    cs_buf_adds(&command, "; code=$?; printf '\\n[code %s; Enter goes back] ' $code; read -r _");
    cs_term_run(term, cs_buf_str(&command), NULL);
    cs_buf_free(&command);
}

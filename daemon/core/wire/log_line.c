/* Reads lines of logs, whoever wrote them. */
#include "core/wire/log_line.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { STAMP = 24 /* bytes, without the space behind it */ };

static bool read_stamp(const char *line, size_t n, int64_t *wall_ns)
{
    struct tm tm = {0};
    char text[STAMP + 1];
    int ms = 0, used = 0;
    if (n < STAMP || (n > STAMP && line[STAMP] != ' '))
        return false;
    memcpy(text, line, STAMP);
    text[STAMP] = '\0';
    if (sscanf(text, "%4d-%2d-%2dT%2d:%2d:%2d.%3dZ%n", &tm.tm_year, &tm.tm_mon, &tm.tm_mday,
               &tm.tm_hour, &tm.tm_min, &tm.tm_sec, &ms, &used) != 7 ||
        used != STAMP || tm.tm_year < 1970 || tm.tm_year > 2200) /* nanoseconds must fit */
        return false;
    tm.tm_year -= 1900;
    tm.tm_mon -= 1;
    *wall_ns = (int64_t)timegm(&tm) * 1000000000 + (int64_t)ms * 1000000;
    return *wall_ns > 0;
}

static void skip(struct cs_log_line *line, size_t n)
{
    n += n < line->n && line->text[n] == ' ';
    line->text += n;
    line->n -= n;
}

/* "warn", and "WARNING:" of programs that are not ours */
static bool read_level(const char *word, size_t n, enum cs_log_level *level)
{
    static const struct {
        const char *word;
        enum cs_log_level level;
    } words[] = {
        {"error",    CS_ERROR},
        {"error:",   CS_ERROR},
        {"fatal:",   CS_ERROR},
        {"warn",     CS_WARN },
        {"warning",  CS_WARN },
        {"warning:", CS_WARN },
        {"info",     CS_INFO },
        {"info:",    CS_INFO },
        {"debug",    CS_DEBUG},
        {"debug:",   CS_DEBUG},
    };

    for (size_t i = 0; i < CS_ARRAY_LEN(words); i++) {
        size_t k = 0;
        while (k < n && words[i].word[k] == tolower((unsigned char)word[k]))
            k++;
        if (k == n && words[i].word[k] == '\0') {
            *level = words[i].level;
            return true;
        }
    }
    return false;
}

struct cs_log_line cs_log_line_parse(const char *line, size_t n)
{
    struct cs_log_line out = {.level = CS_INFO, .text = line, .n = n};
    int64_t own_ns;
    if (read_stamp(out.text, out.n, &out.wall_ns))
        skip(&out, STAMP);
    if (out.wall_ns > 0 && read_stamp(out.text, out.n, &own_ns))
        skip(&out, STAMP);
    const char *space = memchr(out.text, ' ', out.n);
    const size_t word = space ? (size_t)(space - out.text) : out.n;
    if (read_level(out.text, word, &out.level))
        skip(&out, word);
    return out;
}

/* the value of `note text="..."`, whose quotes and backslashes have one before them */
static void add_unquoted(const char *text, size_t n, struct cs_buf *out)
{
    for (size_t i = 0; i < n && text[i] != '"'; i++) {
        i += text[i] == '\\' && i + 1 < n && strchr("\"\\", text[i + 1]) != NULL;
        cs_buf_addc(out, text[i]);
    }
}

/* pairs that say nothing, ` reason=""`, are left out */
static void add_without_empty(const char *text, size_t n, struct cs_buf *out)
{
    static const char empty[] = "=\"\"";
    for (size_t i = 0; i < n;) {
        size_t end = i + 1;
        while (end < n && text[end] != ' ')
            end++;
        const bool is_empty =
            text[i] == ' ' && end - i > 4 && memcmp(text + end - 3, empty, 3) == 0;
        if (!is_empty)
            cs_buf_add(out, text + i, end - i);
        i = end;
    }
}

void cs_log_line_text(const struct cs_log_line *line, struct cs_buf *out)
{
    static const char note[] = "note text=\"";
    const size_t skipped = sizeof note - 1;
    if (line->n > skipped && memcmp(line->text, note, skipped) == 0) {
        add_unquoted(line->text + skipped, line->n - skipped, out);
        return;
    }
    const char *space = memchr(line->text, ' ', line->n);
    const size_t word = space ? (size_t)(space - line->text) : line->n, rest = line->n - word;
    const bool is_said_twice =
        rest > word + 1 && memcmp(line->text, space + 1, word) == 0 && space[1 + word] == '=';
    const size_t from = is_said_twice ? word + 1 : 0;
    add_without_empty(line->text + from, line->n - from, out);
}

/* Reads and writes history in libedit's form. */
#include "console/screen/history.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "core/base/str.h"
#include "core/base/system/io.h"
#include "core/program/dirs.h"

enum { MOST_BYTES = 4 << 20 };

static const char cookie[] = "_HiStOrY_V2_\n";

void cs_history_encode(struct cs_buf *out, const char *line)
{
    for (const unsigned char *at = (const unsigned char *)line; *at; at++)
        if (*at > ' ' && *at < 127 && *at != '\\')
            cs_buf_addc(out, (char)*at);
        else
            cs_buf_addf(out, "\\%03o", *at);
}

static bool is_octal(const char *text, size_t n)
{
    for (size_t i = 0; i < 3; i++)
        if (i >= n || text[i] < '0' || text[i] > '7')
            return false;
    return text[0] < '4';
}

void cs_history_decode(struct cs_buf *out, const char *line, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const bool is_escape = line[i] == '\\' && i + 1 < n;
        if (is_escape && is_octal(line + i + 1, n - i - 1)) {
            cs_buf_addc(out, (char)((line[i + 1] - '0') * 64 + (line[i + 2] - '0') * 8 +
                                    (line[i + 3] - '0')));
            i += 3;
        } else if (is_escape && line[i + 1] == '\\') {
            cs_buf_addc(out, '\\');
            i++;
        } else {
            cs_buf_addc(out, line[i]);
        }
    }
}

static bool path_of(char path[CS_PATH_CAP])
{
    char dir[CS_PATH_CAP];
    return cs_dir_state(dir, NULL) == CS_OK && cs_mkdirs(dir, NULL) == CS_OK &&
           cs_path(path, NULL, "%s/lua-history", dir) == CS_OK;
}

void cs_history_read(struct cs_lua_screen *lua)
{
    char path[CS_PATH_CAP];
    struct cs_buf text = {0}, line = {0};
    if (path_of(path) && cs_read_file(path, MOST_BYTES, &text, NULL) == CS_OK &&
        cs_str_starts(cs_buf_str(&text), cookie))
        for (const char *at = cs_buf_str(&text) + sizeof cookie - 1; *at;) {
            const size_t n = strcspn(at, "\n");
            cs_buf_reset(&line);
            cs_history_decode(&line, at, n);
            if (strlen(cs_buf_str(&line)) == line.len && cs_utf8_valid(cs_buf_str(&line), line.len))
                cs_lua_screen_remember(lua, cs_buf_str(&line));
            at += n + (at[n] == '\n');
        }
    lua->n_known = lua->n_history;
    cs_buf_free(&text);
    cs_buf_free(&line);
}

/* Appended in one piece, so that consoles which end at once do not mix. */
void cs_history_write(struct cs_lua_screen *lua)
{
    char path[CS_PATH_CAP];
    struct cs_buf text = {0};
    if (lua->n_known == lua->n_history || !path_of(path))
        return;
    const int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0)
        return;
    if (lseek(fd, 0, SEEK_END) == 0)
        cs_buf_adds(&text, cookie);
    for (int i = lua->n_known; i < lua->n_history; i++) {
        cs_history_encode(&text, lua->history[i]);
        cs_buf_addc(&text, '\n');
    }
    (void)!write(fd, cs_buf_str(&text), text.len);
    close(fd);
    lua->n_known = lua->n_history;
    cs_buf_free(&text);
}

/* job.logs: the newest lines of all logs of a job, merged by time. Of every file the end is read, less
 * of each the more there are; what is older than the begin of a window is left out, so that nothing
 * is missing between two lines. */
#include <dirent.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/arena.h"
#include "core/base/str.h"
#include "core/base/system/clock.h"
#include "core/wire/log_line.h"
#include "core/wire/wire.h"
#include "server/request_call.h"

enum {
    WINDOW_MOST = 256 << 10, /* bytes of one file */
    WINDOW_LEAST = 8 << 10,
    WINDOWS_BYTES = 8 << 20, /* of all, as long as WINDOW_LEAST allows */
    LINE_MOST = 8191,
    REPLY_MOST = 4 << 20,
    NOTES = -3
};

struct row {
    int64_t wall_ns;
    int64_t number; /* in the order of reading: lines of one time keep it */
    int64_t rank;
    const char *line;
    size_t n;
};

struct merge {
    struct cs_arena *arena;
    struct row *row;
    int64_t n, cap;
    int64_t from_ns; /* lines before it may be incomplete */
    int64_t before_ns, rank;
    enum cs_log_level level;
    size_t window;
};

static void add_row(struct merge *m, const struct row *row)
{
    if (m->n == m->cap) {
        m->cap = m->cap ? 2 * m->cap : 1024;
        m->row = realloc(m->row, (size_t)m->cap * sizeof *m->row);
        CS_ASSERT(m->row != NULL);
    }
    m->row[m->n] = *row;
    m->row[m->n].number = m->n;
    m->n++;
}

/* Whole lines of a window. Lines without a time have that of the line before. */
static void take_lines(struct merge *m, int64_t rank, const char *bytes, size_t n, bool is_whole)
{
    int64_t wall_ns = 0;
    const char *newline, *at = bytes;
    if (!is_whole) {
        newline = memchr(at, '\n', n);
        at = newline ? newline + 1 : bytes + n;
    }
    for (bool is_first = true; (newline = memchr(at, '\n', (size_t)(bytes + n - at))) != NULL;
         at = newline + 1) {
        const size_t length = (size_t)(newline - at);
        const struct cs_log_line line = cs_log_line_parse(at, length);
        wall_ns = line.wall_ns > 0 ? line.wall_ns : wall_ns;
        if (!is_whole && is_first && wall_ns > m->from_ns)
            m->from_ns = wall_ns;
        is_first = false;
        if (line.level <= m->level)
            add_row(m, &(struct row){.wall_ns = wall_ns,
                                     .rank = rank,
                                     .line = at,
                                     .n = length < LINE_MOST ? length : LINE_MOST});
    }
}

/* The last `room` bytes of a file, before the end of what was taken of a newer one. */
static size_t read_end(const char *path, char *to, size_t room, bool *is_whole)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    *is_whole = true;
    if (fd == -1)
        return 0;
    const off_t end = lseek(fd, 0, SEEK_END);
    const off_t at = end > (off_t)room ? end - (off_t)room : 0;
    const ssize_t got = pread(fd, to, room, at);
    close(fd);
    *is_whole = at == 0;
    return got > 0 ? (size_t)got : 0;
}

/* A log and, where it is short, the one that was rotated away before it. */
static void take_file(struct merge *m, const char *path, int64_t rank)
{
    char old[CS_PATH_CAP];
    bool is_whole, is_old_whole = true;
    char *bytes = cs_arena_alloc(m->arena, 2 * m->window);
    const size_t n = read_end(path, bytes + m->window, m->window, &is_whole);
    size_t n_old = 0;
    if (is_whole && cs_path(old, NULL, "%s.1", path) == CS_OK)
        n_old = read_end(old, bytes, m->window, &is_old_whole);
    if (n_old > 0)
        take_lines(m, rank, bytes, n_old, is_old_whole);
    take_lines(m, rank, bytes + m->window, n, is_whole);
}

/* The daemon's notes are messages; as lines they look like those of a log. */
static void take_notes(struct merge *m, const char *path)
{
    bool is_whole;
    char *bytes = cs_arena_alloc(m->arena, WINDOW_MOST), stamp[CS_ISO_CAP];
    const size_t n = read_end(path, bytes, WINDOW_MOST, &is_whole);
    struct cs_buf text = {0};
    for (const char *at = bytes, *newline;
         (newline = memchr(at, '\n', (size_t)(bytes + n - at))) != NULL; at = newline + 1) {
        json_t *note = json_loadb(at, (size_t)(newline - at), 0, NULL);
        const char *words = cs_msg_str(note, "text", NULL);
        cs_iso_print(stamp, sizeof stamp, cs_msg_int(note, "wall_ns", 0));
        if (words != NULL) {
            cs_buf_addf(&text, "%s %s ", stamp, cs_msg_str(note, "level", "info"));
            cs_str_escape(&text, words, strlen(words), false);
            cs_buf_addc(&text, '\n');
        }
        json_decref(note);
    }
    char *lines = cs_arena_alloc(m->arena, text.len + 1);
    memcpy(lines, cs_buf_str(&text), text.len);
    take_lines(m, NOTES, lines, text.len, true);
    cs_buf_free(&text);
}

static bool rank_of(const char *name, int64_t *rank)
{
    char number[24] = "";
    const char *dot = strchr(name, '.');
    if (dot == NULL || strcmp(dot, ".log") != 0 || (size_t)(dot - name) >= sizeof number)
        return false;
    memcpy(number, name, (size_t)(dot - name));
    *rank = strcmp(number, "feeder") == 0 ? -1 : -2;
    return *rank == -1 || strcmp(number, "runner") == 0 || cs_str_to_i64(number, rank);
}

/* Both passes go over the same names: how many there are says how much of each is read. */
static int64_t each_log(struct merge *m, const char *dir, bool is_counted_only)
{
    char path[CS_PATH_CAP];
    int64_t rank, n = 0;
    DIR *d = opendir(dir);
    if (d == NULL)
        return 0;
    for (const struct dirent *entry; (entry = readdir(d)) != NULL;) {
        if (!rank_of(entry->d_name, &rank) || (m->rank != INT64_MAX && m->rank != rank))
            continue;
        n++;
        if (!is_counted_only && cs_path(path, NULL, "%s/%s", dir, entry->d_name) == CS_OK)
            take_file(m, path, rank);
    }
    closedir(d);
    return n;
}

static int by_time(const void *left, const void *right)
{
    const struct row *a = left, *b = right;
    if (a->wall_ns != b->wall_ns)
        return a->wall_ns < b->wall_ns ? -1 : 1;
    return a->number < b->number ? -1 : a->number > b->number;
}

static void give(struct cs_call *c, const struct merge *m, int64_t limit)
{
    json_t *lines = json_array();
    size_t bytes = 0;
    int64_t end = m->n, first;
    while (end > 0 && m->row[end - 1].wall_ns >= m->before_ns)
        end--;
    for (first = end; first > 0 && end - first < limit; first--) {
        bytes += m->row[first - 1].n;
        if (m->row[first - 1].wall_ns < m->from_ns || bytes > REPLY_MOST)
            break;
    }
    for (int64_t i = first; i < end; i++) {
        json_t *line = json_array();
        json_array_append_new(line, json_integer(m->row[i].rank));
        json_array_append_new(line, cs_json_bytes(m->row[i].line, m->row[i].n));
        json_array_append_new(lines, line);
    }
    cs_msg_set(c->reply, "lines", lines);
    cs_msg_set_bool(c->reply, "is_cut", first > 0 || m->from_ns > 0);
}

enum cs_status cs_request_logs(struct cs_call *c, struct cs_err *err)
{
    struct cs_job *job;
    char dir[CS_PATH_CAP], notes[CS_PATH_CAP];
    const char *level = cs_msg_str(c->request, "level", "debug");
    struct merge m = {.rank = cs_msg_int(c->request, "rank", INT64_MAX),
                      .before_ns = cs_msg_int(c->request, "before_ns", INT64_MAX)};
    CS_TRY(cs_call_job(c, &job, err));
    if (!cs_log_level_parse(level, &m.level))
        return cs_fail(err, CS_INVALID, "'%.16s' is no level: error, warn, info or debug", level);
    CS_TRY(cs_path(dir, err, "%s/logs", job->row.dir));
    CS_TRY(cs_path(notes, err, "%s/notes", job->row.dir));
    m.arena = cs_arena_new(0);
    const int64_t n = each_log(&m, dir, true);
    m.window = n > WINDOWS_BYTES / WINDOW_MOST ? (size_t)(WINDOWS_BYTES / n) : WINDOW_MOST;
    m.window = m.window < WINDOW_LEAST ? WINDOW_LEAST : m.window;
    if (m.rank == INT64_MAX || m.rank == NOTES)
        take_notes(&m, notes);
    each_log(&m, dir, false);
    if (m.n > 0)
        qsort(m.row, (size_t)m.n, sizeof *m.row, by_time);
    give(c, &m, cs_msg_int(c->request, "limit", 1000));
    cs_arena_free(m.arena);
    free(m.row);
    return CS_OK;
}

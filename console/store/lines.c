/* Keeps lines in the order of their times. */
#include "console/store/lines.h"

#include <stdlib.h>
#include <string.h>

#include "core/wire/log_line.h"

void cs_lines_init(struct cs_store_lines *lines, int cap)
{
    lines->line = calloc((size_t)cap, sizeof *lines->line);
    lines->order = calloc((size_t)cap, sizeof *lines->order);
    CS_ASSERT(lines->line && lines->order);
    lines->cap = cap;
}

void cs_lines_clear(struct cs_store_lines *lines)
{
    for (int i = 0; i < lines->cap; i++) {
        free(lines->line[i].text);
        lines->line[i].text = NULL;
    }
    lines->n = 0;
    lines->total = 0;
}

void cs_lines_free(struct cs_store_lines *lines)
{
    cs_lines_clear(lines);
    free(lines->line);
    free(lines->order);
    *lines = (struct cs_store_lines){0};
}

static char *copy_text(const char *text, size_t n)
{
    size_t fits = n < CS_STORE_LINE_MOST ? n : CS_STORE_LINE_MOST;
    while (fits > 0 && fits < n && ((unsigned char)text[fits] & 0xc0) == 0x80)
        fits--; /* not inside a character */
    char *copy = malloc(fits + 1);
    CS_ASSERT(copy);
    memcpy(copy, text, fits);
    copy[fits] = '\0';
    return copy;
}

static struct cs_store_line *at(const struct cs_store_lines *lines, int i)
{
    return &lines->line[lines->order[i]];
}

/* What the daemon tells live it may have read from the file a moment ago, and the other way round. Two
 * lines of one answer, or two live ones, are two however alike they are. */
static bool is_known(struct cs_store_lines *lines, const struct cs_lines_new *add, const char *text)
{
    for (int i = lines->n - 1; add->wall_ns > 0 && i >= 0 && at(lines, i)->sort_ns >= add->wall_ns;
         i--) {
        struct cs_store_line *line = at(lines, i);
        const bool is_taken = add->is_past ? line->past == lines->past : line->is_live;
        if (is_taken || line->wall_ns != add->wall_ns || line->rank != add->rank ||
            strcmp(line->text, text) != 0)
            continue;
        line->past = add->is_past ? lines->past : line->past;
        line->is_live = line->is_live || !add->is_past;
        return true;
    }
    return false;
}

void cs_lines_begin_past(struct cs_store_lines *lines)
{
    lines->past++;
}

static int make_room(struct cs_store_lines *lines, int64_t sort_ns, int *place)
{
    int *order = lines->order, n = lines->n;
    int slot = n < lines->cap ? n : order[0], i = n < lines->cap ? lines->n++ : n - 1;
    if (n == lines->cap)
        memmove(order, order + 1, (size_t)i * sizeof *order);
    while (i > 0 && lines->line[order[i - 1]].sort_ns > sort_ns) {
        order[i] = order[i - 1];
        i--;
    }
    order[i] = slot;
    *place = i;
    return slot;
}

/* Lines of several files come one file after the other; they are merged by time. A line without a
 * time stays behind the one before it. */
bool cs_lines_add(struct cs_store_lines *lines, const struct cs_lines_new *add)
{
    const int n = lines->n;
    int place;
    int64_t sort_ns = add->wall_ns > 0 ? add->wall_ns : n > 0 ? at(lines, n - 1)->sort_ns : 0;
    char *text = copy_text(add->text, add->n);
    if (is_known(lines, add, text) || (n == lines->cap && sort_ns < at(lines, 0)->sort_ns)) {
        free(text);
        return false;
    }
    struct cs_store_line *line = &lines->line[make_room(lines, sort_ns, &place)];
    free(line->text);
    *line = (struct cs_store_line){.number = ++lines->total,
                                   .wall_ns = add->wall_ns,
                                   .sort_ns = sort_ns,
                                   .rank = add->rank,
                                   .level = add->level,
                                   .text = text,
                                   .is_live = !add->is_past,
                                   .past = add->is_past ? lines->past : 0};
    return true;
}

bool cs_lines_add_log(struct cs_store_lines *lines, int32_t rank, const char *text, size_t n,
                      bool is_past)
{
    const struct cs_log_line line = cs_log_line_parse(text, n);
    struct cs_buf said = {0};
    cs_log_line_text(&line, &said);
    const bool is_new = cs_lines_add(lines, &(struct cs_lines_new){.rank = rank,
                                                                   .level = line.level,
                                                                   .wall_ns = line.wall_ns,
                                                                   .text = cs_buf_str(&said),
                                                                   .n = said.len,
                                                                   .is_past = is_past});
    cs_buf_free(&said);
    return is_new;
}

int cs_lines_find(const struct cs_store_lines *lines, int64_t number)
{
    int next = 0;
    for (int i = 0; i < lines->n; i++) {
        if (at(lines, i)->number == number)
            return i;
        if (at(lines, i)->number < number)
            next = i + 1 < lines->n ? i + 1 : i;
    }
    return next;
}

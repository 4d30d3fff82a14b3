/* Finds rows and cells of separated values. */
#include "input/data/shard/csv.h"

#include <string.h>

bool cs_csv_ends_row(struct cs_csv_scan *s, char c)
{
    const bool is_end = c == '\n' && s->in != CS_CSV_QUOTED;

    if (is_end || (c == s->separator && s->in != CS_CSV_QUOTED))
        s->in = CS_CSV_BEGIN;
    else if (c == '"' && s->in != CS_CSV_PLAIN)
        s->in = s->in == CS_CSV_QUOTED ? CS_CSV_QUOTE : CS_CSV_QUOTED;
    else if (s->in != CS_CSV_QUOTED)
        s->in = CS_CSV_PLAIN;
    return is_end;
}

bool cs_csv_cell(const char *row, size_t n, char separator, size_t *at, struct cs_buf *out)
{
    struct cs_csv_scan s = {.separator = separator};
    size_t i = *at;

    if (i > n)
        return false;
    for (; i < n && (row[i] != separator || s.in == CS_CSV_QUOTED); i++) {
        const bool was_quote = s.in == CS_CSV_QUOTE;
        const bool opens = s.in == CS_CSV_BEGIN && row[i] == '"';
        (void)cs_csv_ends_row(&s, row[i]);
        if (!opens && (row[i] != '"' || s.in == CS_CSV_PLAIN || was_quote))
            cs_buf_add(out, row + i, 1);
    }
    *at = i + 1; /* behind the separator, or behind the end */
    return true;
}

char cs_csv_separator_of(const char *row, size_t n)
{
    static const char separators[] = {',', ';', '\t'};
    size_t most = 0;
    char best = ',';

    for (size_t k = 0; k < sizeof separators; k++) {
        struct cs_csv_scan s = {.separator = separators[k]};
        size_t count = 0;
        for (size_t i = 0; i < n; i++) {
            count += row[i] == separators[k] && s.in != CS_CSV_QUOTED;
            (void)cs_csv_ends_row(&s, row[i]);
        }
        if (count > most) {
            most = count;
            best = separators[k];
        }
    }
    return best;
}

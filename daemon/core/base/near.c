#include "core/base/near.h"

#include <stddef.h>
#include <string.h>

enum { MAX_WORD = 128 };

static int lower(char c)
{
    return c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : (unsigned char)c;
}

static int min_int(int a, int b)
{
    return a < b ? a : b;
}

int cs_near_distance(const char *a, const char *b)
{
    int row[3][MAX_WORD + 1]; /* the rows i-2, i-1 and i of the usual table, taken in turns */
    size_t len_a = strlen(a), len_b = strlen(b);
    if (len_a > MAX_WORD || len_b > MAX_WORD)
        return (int)(len_a > len_b ? len_a : len_b);
    int na = (int)len_a, nb = (int)len_b;
    for (int j = 0; j <= nb; j++)
        row[0][j] = j;
    for (int i = 1; i <= na; i++) {
        int *now = row[i % 3], *before = row[(i + 2) % 3], *two_before = row[(i + 1) % 3];
        now[0] = i;
        for (int j = 1; j <= nb; j++) {
            int differs = lower(a[i - 1]) != lower(b[j - 1]);
            int d = min_int(before[j - 1] + differs, min_int(before[j], now[j - 1]) + 1);
            if (i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) &&
                lower(a[i - 2]) == lower(b[j - 1]))
                d = min_int(d, two_before[j - 2] + 1);
            now[j] = d;
        }
    }
    return row[na % 3][nb];
}

const char *cs_near(const char *word, const char *const *names, int n)
{
    const char *best = NULL;
    int best_distance = 0;
    size_t len = strlen(word);
    if (len > MAX_WORD)
        return NULL;
    for (int i = 0; i < n; i++) {
        if (names[i] == NULL)
            continue;
        size_t longer = strlen(names[i]) > len ? strlen(names[i]) : len;
        int limit = (int)(longer / 3) > 1 ? (int)(longer / 3) : 1;
        int distance = cs_near_distance(word, names[i]);
        /* replacing every letter is not a resemblance, however short the words are */
        if (distance > limit || (size_t)distance >= longer)
            continue;
        if (best == NULL || distance < best_distance) {
            best = names[i];
            best_distance = distance;
        }
    }
    return best;
}

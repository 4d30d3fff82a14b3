/* The nearest of some names, for "did you mean".
 *
 * Distance: Damerau-Levenshtein, optimal string alignment (insert, delete, replace, swap of two
 * neighbours), ignoring ASCII case. A name is close when the distance is at most a third of the
 * longer string, at least 1. Ties: the earliest. */
#ifndef CS_BASE_NEAR_H
#define CS_BASE_NEAR_H

/* NULL when nothing is close, n is 0 or the word is longer than 128 bytes. NULL entries are
 * skipped. */
const char *cs_near(const char *word, const char *const *names, int n);
/* The distance itself; either string over 128 bytes: the longer length. */
int cs_near_distance(const char *a, const char *b);

#endif

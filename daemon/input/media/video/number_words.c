/* Spells numbers. */
#include "input/media/video/number_words.h"

#include <stdio.h>
#include <string.h>

#include "core/base/status.h"

static const char *const small[] = {"zero",    "one",     "two",       "three",    "four",
                                    "five",    "six",     "seven",     "eight",    "nine",
                                    "ten",     "eleven",  "twelve",    "thirteen", "fourteen",
                                    "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"};
static const char *const tens[] = {"",      "",      "twenty",  "thirty", "forty",
                                   "fifty", "sixty", "seventy", "eighty", "ninety"};

static void add(char *out, const char *text)
{
    strncat(out, text, CS_NUMBER_WORDS_CAP - 1 - strlen(out));
}

static void below_thousand(int n, char *out)
{
    if (n >= 100) {
        add(out, small[n / 100]);
        add(out, n % 100 > 0 ? " hundred and " : " hundred");
        n %= 100;
        if (n == 0)
            return;
    }
    if (n < 20) {
        add(out, small[n]);
        return;
    }
    add(out, tens[n / 10]);
    if (n % 10 > 0) {
        add(out, "-");
        add(out, small[n % 10]);
    }
}

void cs_number_words(int n, char out[CS_NUMBER_WORDS_CAP])
{
    CS_ASSERT(n >= 0 && n <= CS_NUMBER_WORDS_MAX);
    out[0] = '\0';
    if (n >= 1000) {
        below_thousand(n / 1000, out);
        add(out, n % 1000 == 0 ? " thousand" : n % 1000 < 100 ? " thousand and " : " thousand, ");
        n %= 1000;
        if (n == 0)
            return;
    }
    below_thousand(n, out);
}

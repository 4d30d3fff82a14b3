/* What may stand where the cursor is on a command line: commands, options, values, and which kind of
 * thing an argument is. Shells ask for it, and the palette may. */
#ifndef CS_CONSOLE_CLI_COMPLETE_H
#define CS_CONSOLE_CLI_COMPLETE_H

#include "console/cli/command/command.h"

struct cs_completion {
    struct cs_buf lines; /* "WORD\tHELP\n" */
    /* what else may stand there: "" nothing, or the word of usage: ID, SCRIPT, FILE, DIR, STATE, TAG,
     * COMMAND, VIEW, KEY=VALUE ... */
    char kind[32];
    const struct cs_command *command; /* NULL: none yet */
};

/* words[0 .. n-1] after the program's name; the last one is being typed and may be empty. Free
 * out->lines. */
void cs_complete(const struct cs_commands *all, int n, char *const *words,
                 struct cs_completion *out);
/* appends those that start with `typed` */
void cs_complete_word(struct cs_completion *out, const char *typed, const char *word,
                      const char *help);

#endif

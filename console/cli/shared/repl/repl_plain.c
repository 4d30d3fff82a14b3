/* Lines of standard input, for pipes and where libedit was missing when this was built. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "console/cli/shared/repl/repl.h"
#include "core/base/say.h"

struct cs_typist {
    char *line;
    size_t cap;
};

struct cs_typist *cs_typist_new(struct cs_lua *lua, const struct cs_buf *begun)
{
    struct cs_typist *typist = calloc(1, sizeof *typist);
    (void)lua;
    (void)begun;
    CS_ASSERT(typist);
    return typist;
}

const char *cs_typist_line(struct cs_typist *typist, const char *prompt)
{
    if (isatty(0) && isatty(1)) {
        cs_say(stdout, "%s", prompt);
        fflush(stdout);
    }
    const ssize_t n = getline(&typist->line, &typist->cap, stdin);
    if (n < 0) {
        clearerr(stdin); /* of a C-c */
        return NULL;
    }
    typist->line[strcspn(typist->line, "\r\n")] = '\0';
    return typist->line;
}

void cs_typist_free(struct cs_typist *typist)
{
    free(typist->line);
    free(typist);
}

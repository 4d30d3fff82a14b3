/* A directory of the test's own, and small file helpers. Failures end the test program. */
#ifndef CS_SUPPORT_TMPDIR_H
#define CS_SUPPORT_TMPDIR_H

#include <stdbool.h>
#include <stddef.h>

/* made under $TMPDIR or /tmp; malloc'ed */
char *tmpdir_new(void);
/* removes it with everything inside, frees the text */
void tmpdir_free(char *dir);
/* "DIR/NAME" in one of eight static buffers that take turns */
const char *tmpdir_path(const char *dir, const char *name);
void tmpdir_write(const char *path, const void *data, size_t bytes);
/* malloc'ed, NUL-terminated; NULL when the file cannot be read */
char *tmpdir_read(const char *path, size_t *bytes);
bool tmpdir_has(const char *dir, const char *name);
/* entries, without . and .. */
int tmpdir_count(const char *dir);
/* path inside the source tree: $CORNSTARCH_SOURCE, else the working directory */
const char *source_path(const char *name);

#endif

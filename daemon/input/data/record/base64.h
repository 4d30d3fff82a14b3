/* Base64 of RFC 4648, the usual and the URL's alphabet, padded or not. */
#ifndef CS_INPUT_DATA_BASE64_H
#define CS_INPUT_DATA_BASE64_H

#include <stdbool.h>
#include <stddef.h>

/* At most this many bytes come of n characters. */
size_t cs_base64_room(size_t n);
/* White space is skipped. false: a character that does not belong there, or half a byte at the end.
 * out: cs_base64_room(n) bytes. */
bool cs_base64_decode(const char *text, size_t n, unsigned char *out, size_t *n_out);

#endif

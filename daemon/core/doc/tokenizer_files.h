/* The files of a tokenizer in a model directory: who reads them, copies them, or asks whether they are
 * still the same, goes by this list. */
#ifndef CS_DOC_TOKENIZER_FILES_H
#define CS_DOC_TOKENIZER_FILES_H

#include <stdbool.h>

/* The i-th file, NULL: no more. */
const char *cs_tokenizer_file(int i);
/* Those that hold a vocabulary, in the order in which they are looked for: the first that is there is
 * the tokenizer. NULL: no more. */
const char *cs_tokenizer_vocabulary_file(int i);
bool cs_tokenizer_has_file(const char *name);

#endif

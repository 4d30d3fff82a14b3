/* Names of files. */
#include "core/doc/tokenizer_files.h"

#include <stddef.h>
#include <string.h>

#include "core/base/status.h"

static const char *const names[] = {
    "tokenizer.json",
    "tekken.json",
    "tokenizer.model",
    "qwen.tiktoken",
    "sentencepiece.bpe.model",
    "spiece.model",
    NULL, /* up to here: vocabularies */
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template.jinja",
    "chat_template.json",
};

enum { N_VOCABULARIES = 6 };

const char *cs_tokenizer_file(int i)
{
    const size_t at = (size_t)(i < N_VOCABULARIES ? i : i + 1);

    return at < CS_ARRAY_LEN(names) ? names[at] : NULL;
}

const char *cs_tokenizer_vocabulary_file(int i)
{
    return names[i < N_VOCABULARIES ? i : N_VOCABULARIES];
}

bool cs_tokenizer_has_file(const char *name)
{
    for (int i = 0; cs_tokenizer_file(i) != NULL; i++)
        if (strcmp(name, cs_tokenizer_file(i)) == 0)
            return true;
    return false;
}

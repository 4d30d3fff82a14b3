/* libFuzzer target: the first part (up to a NUL byte) is a tokenizer.json, the rest a text to
 * encode with it.
 *
 *   clang -fsanitize=fuzzer,address,undefined -Idaemon tests/fuzz/fuzz_tokenizer.c <core/base,
 * input/tok*.c> -ljansson -lpcre2-8 -lutf8proc -lxxhash */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "input/tok/tokenizer.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void encode(const struct cs_tokenizer *tok, const char *text, size_t n, bool allow_special)
{
    struct cs_tokens tokens = {0};
    struct cs_buf back = {0};
    struct cs_err err = {0};

    if (cs_tokenizer_encode(tok, text, n, allow_special, &tokens, &err) == CS_OK)
        for (size_t i = 0; i < tokens.n; i++) {
            const struct cs_token *t = &tokens.items[i];
            if (t->begin > t->end || t->end > n || t->id < 0 || t->id >= cs_tokenizer_vocab(tok))
                abort();
            if (cs_tokenizer_decode(tok, &t->id, 1, false, &back, &err) != CS_OK)
                abort();
        }
    cs_tokens_free(&tokens);
    cs_buf_free(&back);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *bytes = (const char *)data;
    const char *nul = size > 0 ? memchr(bytes, '\0', size) : NULL;
    size_t n = nul != NULL ? (size_t)(nul - bytes) : size;
    struct cs_tokenizer *tok = NULL;
    struct cs_err err = {0};

    if (cs_tokenizer_parse(bytes, n, "fuzz", &tok, &err) != CS_OK) {
        if (tok != NULL || err.text[0] == '\0')
            abort();
        return 0;
    }
    if (nul != NULL) {
        encode(tok, nul + 1, size - n - 1, true);
        encode(tok, nul + 1, size - n - 1, false);
    }
    cs_tokenizer_close(tok);
    return 0;
}

/* Oracle tool: encode strings with our tokenizer, or decode what it makes of them.
 *
 *   tool_tokenize TOKENIZER special|plain|decode  stdin: records of u32 little-endian length and bytes
 *
 * stdout: one line per record, "id:begin:end" per token separated by spaces; decode: the text of the
 * tokens (special ones are found) in hex. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "input/tok/tokenizer.h"

static int print_text(const struct cs_tokenizer *tok, const struct cs_tokens *tokens,
                      struct cs_err *err)
{
    struct cs_buf out = {0};
    int32_t *ids = malloc((tokens->n + 1) * sizeof *ids);

    for (size_t i = 0; i < tokens->n; i++)
        ids[i] = tokens->items[i].id;
    const enum cs_status status = cs_tokenizer_decode(tok, ids, tokens->n, false, &out, err);
    for (size_t i = 0; i < out.len; i++)
        printf("%02x", (unsigned char)out.data[i]);
    printf("\n");
    free(ids);
    cs_buf_free(&out);
    return status == CS_OK ? 0 : 1;
}

static void print_tokens(const struct cs_tokens *tokens)
{
    for (size_t i = 0; i < tokens->n; i++)
        printf("%d:%u:%u ", tokens->items[i].id, tokens->items[i].begin, tokens->items[i].end);
    printf("\n");
}

static int run(const struct cs_tokenizer *tok, const char *mode)
{
    const bool allow_special = strcmp(mode, "plain") != 0;
    struct cs_tokens tokens = {0};
    struct cs_err err = {0};
    uint32_t n = 0;

    while (fread(&n, sizeof(n), 1, stdin) == 1) {
        char *text = malloc((size_t)n + 1);
        if (text == NULL || fread(text, 1, n, stdin) != n) {
            free(text);
            fprintf(stderr, "short record\n");
            return 1;
        }
        tokens.n = 0;
        if (cs_tokenizer_encode(tok, text, n, allow_special, &tokens, &err) != CS_OK) {
            free(text);
            fprintf(stderr, "%s\n", err.text);
            return 1;
        }
        free(text);
        if (strcmp(mode, "decode") != 0)
            print_tokens(&tokens);
        else if (print_text(tok, &tokens, &err) != 0)
            return 1;
    }
    cs_tokens_free(&tokens);
    return 0;
}

int main(int argc, char **argv)
{
    struct cs_tokenizer *tok = NULL;
    struct cs_err err = {0};
    int rc = 1;

    if (argc != 3) {
        fprintf(stderr, "usage: tool_tokenize TOKENIZER special|plain|decode < records\n");
        return 1;
    }
    if (cs_tokenizer_open(argv[1], &tok, &err) != CS_OK) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    rc = run(tok, argv[2]);
    cs_tokenizer_close(tok);
    return rc;
}

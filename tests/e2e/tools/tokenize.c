/* Oracle tool: encode strings with our tokenizer.
 *
 *   tool_tokenize TOKENIZER special|plain    stdin: records of u32 little-endian length and bytes
 *
 * stdout: one line per record, "id:begin:end" per token separated by spaces. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "input/tok/tokenizer.h"

static int run(const struct cs_tokenizer *tok, bool allow_special)
{
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
        for (size_t i = 0; i < tokens.n; i++)
            printf("%d:%u:%u ", tokens.items[i].id, tokens.items[i].begin, tokens.items[i].end);
        printf("\n");
        free(text);
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
        fprintf(stderr, "usage: tool_tokenize TOKENIZER special|plain < records\n");
        return 1;
    }
    if (cs_tokenizer_open(argv[1], &tok, &err) != CS_OK) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    rc = run(tok, strcmp(argv[2], "special") == 0);
    cs_tokenizer_close(tok);
    return rc;
}

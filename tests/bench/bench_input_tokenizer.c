/* How fast a tokenizer encodes: every text of a file by itself, special tokens looked for.
 * Usage: bench_input_tokenizer TOKENIZER RECORDS [ROUNDS]    RECORDS: u32 little-endian length and bytes, again
 * and again. Prints for each round the tokens and the CPU seconds of this one thread; beside its peers:
 * tokenizer_peer.py. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/base/system/io.h"
#include "input/tok/tokenizer.h"

static double cpu_seconds(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Tokens of all texts; ends the program where one cannot be encoded. */
static size_t encode_all(const struct cs_tokenizer *tok, const struct cs_buf *records)
{
    struct cs_tokens tokens = {0};
    struct cs_err err = {0};
    size_t n_tokens = 0;

    for (size_t at = 0; at + 4 <= records->len;) {
        uint32_t n = 0;
        memcpy(&n, records->data + at, sizeof n);
        at += sizeof n;
        if (n > records->len - at)
            break;
        tokens.n = 0;
        if (cs_tokenizer_encode(tok, records->data + at, n, true, &tokens, &err) != CS_OK) {
            fprintf(stderr, "%s\n", err.text);
            exit(1);
        }
        n_tokens += tokens.n;
        at += n;
    }
    cs_tokens_free(&tokens);
    return n_tokens;
}

int main(int argc, char **argv)
{
    struct cs_tokenizer *tok = NULL;
    struct cs_buf records = {0};
    struct cs_err err = {0};

    if (argc < 3) {
        fprintf(stderr, "usage: bench_input_tokenizer TOKENIZER RECORDS [ROUNDS]\n");
        return 1;
    }
    if (cs_read_file(argv[2], (size_t)1 << 30, &records, &err) != CS_OK ||
        cs_tokenizer_open(argv[1], &tok, &err) != CS_OK) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    for (int i = argc > 3 ? atoi(argv[3]) : 3; i > 0; i--) {
        const double begin = cpu_seconds();
        const size_t n = encode_all(tok, &records);
        printf("%zu %.6f\n", n, cpu_seconds() - begin);
    }
    cs_buf_free(&records);
    cs_tokenizer_close(tok);
    return 0;
}

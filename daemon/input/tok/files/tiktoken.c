/* Reads the files of tiktoken. They hold tokens and ranks alone; the rest is a table of families. */
#include <stdio.h>
#include <string.h>

#include "input/tok/files/files.h"
#include "input/tok/files/made.h"
#include "input/tok/text/alphabet.h"

/* Tokens in order of their ids; "#" stands for `count` numbers from `first` on. */
struct special {
    const char *text;
    int count, first;
};

struct family {
    const char *name;
    int n_ranks;
    const char *split, *normalizer; /* normalizer NULL: none */
    const struct special *special;
    int n_special;
};

#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define REST         "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define UPPER        "[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]"
#define LOWER        "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]"
#define LETTERS(n)   CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" n REST
#define O200K                                                                                      \
    "[^\\r\\n\\p{L}\\p{N}]?" UPPER "*" LOWER "+" CONTRACTIONS "?|[^\\r\\n\\p{L}\\p{N}]?" UPPER     \
    "+" LOWER "*" CONTRACTIONS                                                                     \
    "?|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

static const struct special llama3[] = {
    {"<|begin_of_text|>",            1,   0},
    {"<|end_of_text|>",              1,   0},
    {"<|reserved_special_token_#|>", 2,   0},
    {"<|finetune_right_pad_id|>",    1,   0},
    {"<|step_id|>",                  1,   0},
    {"<|start_header_id|>",          1,   0},
    {"<|end_header_id|>",            1,   0},
    {"<|eom_id|>",                   1,   0},
    {"<|eot_id|>",                   1,   0},
    {"<|python_tag|>",               1,   0},
    {"<|image|>",                    1,   0},
    {"<|reserved_special_token_#|>", 244, 2},
};

static const struct special llama4[] = {
    {"<|begin_of_text|>",                            1,    0},
    {"<|end_of_text|>",                              1,    0},
    {"<|fim_prefix|>",                               1,    0},
    {"<|fim_middle|>",                               1,    0},
    {"<|fim_suffix|>",                               1,    0},
    {"<|header_start|>",                             1,    0},
    {"<|header_end|>",                               1,    0},
    {"<|eom|>",                                      1,    0},
    {"<|eot|>",                                      1,    0},
    {"<|step|>",                                     1,    0},
    {"<|text_post_train_reserved_special_token_#|>", 6,    0},
    {"<|python_start|>",                             1,    0},
    {"<|python_end|>",                               1,    0},
    {"<|finetune_right_pad|>",                       1,    0},
    {"<|text_post_train_reserved_special_token_#|>", 61,   8},
    {"<|image_start|>",                              1,    0},
    {"<|image_end|>",                                1,    0},
    {"<|vision_reserved_special_token_#|>",          2,    0},
    {"<|tile_x_separator|>",                         1,    0},
    {"<|tile_y_separator|>",                         1,    0},
    {"<|vision_reserved_special_token_#|>",          4,    2},
    {"<|image|>",                                    1,    0},
    {"<|vision_reserved_special_token_#|>",          1,    6},
    {"<|patch|>",                                    1,    0},
    {"<|vision_reserved_special_token_#|>",          1041, 7},
    {"<|reasoning_reserved_special_token_#|>",       8,    0},
    {"<|reasoning_thinking_start|>",                 1,    0},
    {"<|reasoning_thinking_end|>",                   1,    0},
    {"<|reserved_special_token_#|>",                 904,  0},
};

static const struct special qwen[] = {
    {"<|endoftext|>", 1,   0},
    {"<|im_start|>",  1,   0},
    {"<|im_end|>",    1,   0},
    {"<|extra_#|>",   205, 0},
};

#define FAMILY(name, n_ranks, split, normalizer, special)                                          \
    {                                                                                              \
        name, n_ranks, split, normalizer, special, (int)CS_ARRAY_LEN(special)                      \
    }

static const struct family families[] = {
    FAMILY("Llama 3", 128000, LETTERS("\\p{N}{1,3}"), NULL, llama3),
    FAMILY("Llama 4", 200000, O200K, NULL, llama4),
    FAMILY("Qwen", 151643, LETTERS("\\p{N}"), "NFC", qwen),
};

/* One line: a token in base64, a space, its rank. False: it is none. */
static bool read_line(const char *line, size_t n, struct cs_buf *bytes, long long *rank)
{
    const char *space = memchr(line, ' ', n);

    cs_buf_reset(bytes);
    *rank = 0;
    if (space == NULL || space + 1 == line + n ||
        !tok_base64(line, (size_t)(space - line), bytes) || bytes->len == 0)
        return false;
    for (const char *p = space + 1; p < line + n; p++) {
        if (*p < '0' || *p > '9' || *rank >= TOK_MAX_ID)
            return false;
        *rank = *rank * 10 + (*p - '0');
    }
    return true;
}

static size_t line_length(const char *line, const char *end, size_t *n_next)
{
    const char *newline = memchr(line, '\n', (size_t)(end - line));
    const size_t n = (size_t)((newline != NULL ? newline : end) - line);

    *n_next = n + (newline != NULL);
    return n > 0 && line[n - 1] == '\r' ? n - 1 : n;
}

bool tok_is_tiktoken(const struct cs_buf *file)
{
    struct cs_buf bytes = {0};
    long long rank = 0;
    size_t n_next = 0;
    const bool is_one =
        file->len > 0 &&
        read_line(file->data, line_length(file->data, file->data + file->len, &n_next), &bytes,
                  &rank);

    cs_buf_free(&bytes);
    return is_one;
}

static enum cs_status read_ranks(const struct cs_buf *file, json_t *vocab, struct cs_err *err)
{
    const char *end = file->data + file->len;
    struct cs_buf bytes = {0}, spelling = {0};
    enum cs_status status = CS_OK;
    size_t n_next = 0;
    int line = 1;

    for (const char *p = file->data; p < end && status == CS_OK; p += n_next, line++) {
        const size_t n = line_length(p, end, &n_next);
        long long rank = 0;
        if (n == 0)
            continue;
        cs_buf_reset(&spelling);
        if (!read_line(p, n, &bytes, &rank)) {
            status = cs_fail(err, CS_CORRUPT,
                             "tokenizer: line %d is no token in base64 and its rank", line);
            continue;
        }
        tok_alphabet_encode(bytes.data, bytes.len, &spelling);
        if (rank != (long long)json_object_size(vocab) ||
            json_object_get(vocab, cs_buf_str(&spelling)) != NULL)
            status = cs_fail(err, CS_CORRUPT,
                             "tokenizer: line %d: rank %lld is out of order or its token is there "
                             "twice",
                             line, rank);
        else
            json_object_set_new(vocab, cs_buf_str(&spelling), json_integer(rank));
    }
    cs_buf_free(&bytes);
    cs_buf_free(&spelling);
    return status;
}

static json_t *special_tokens(const struct family *family)
{
    json_t *out = json_array();
    json_int_t id = family->n_ranks;

    for (int i = 0; i < family->n_special; i++) {
        const struct special *s = &family->special[i];
        const char *number = strchr(s->text, '#');
        for (int k = 0; k < s->count; k++) {
            char text[64];
            if (number == NULL)
                snprintf(text, sizeof text, "%s", s->text);
            else
                snprintf(text, sizeof text, "%.*s%d%s", (int)(number - s->text), s->text,
                         s->first + k, number + 1);
            json_array_append_new(out, tok_special_token(text, id++));
        }
    }
    return out;
}

static const struct family *find_family(size_t n_ranks)
{
    for (size_t i = 0; i < CS_ARRAY_LEN(families); i++)
        if ((size_t)families[i].n_ranks == n_ranks)
            return &families[i];
    return NULL;
}

enum cs_status tok_made_of_tiktoken(const struct cs_buf *file, const json_t *config, json_t **out,
                                    struct cs_err *err)
{
    json_t *vocab = json_object();
    enum cs_status status = read_ranks(file, vocab, err);
    const struct family *family = find_family(json_object_size(vocab));

    (void)config;
    if (status == CS_OK && family == NULL)
        status = cs_fail(err, CS_UNSUPPORTED,
                         "unsupported tokenizer: a tiktoken file of %zu ranks: how its family "
                         "splits text is not in it; known are those of Llama 3 (128000 ranks), "
                         "Llama 4 (200000) and Qwen (151643); others need a tokenizer.json",
                         json_object_size(vocab));
    if (status != CS_OK) {
        json_decref(vocab);
        return status;
    }
    *out = tok_byte_document(
        vocab, special_tokens(family), "", family->split,
        family->normalizer == NULL ? NULL : json_pack("{s:s}", "type", family->normalizer));
    return CS_OK;
}

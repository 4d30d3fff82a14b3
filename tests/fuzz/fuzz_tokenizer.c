/* Fuzz target: files of tokenizers. The first byte says whether the rest, up to the mark "\0\0TEXT", is
 * such a file itself (a tokenizer.json, a tekken.json, a model of SentencePiece, a tiktoken file), or
 * which small vocabulary of tests/golden/tokenizers.json it changes; then comes a text to encode.
 * Whatever comes out must be tokens of the vocabulary, in order, within the text. */
#include <jansson.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz/edit.h"
#include "input/tok/files/made.h"
#include "input/tok/tokenizer.h"
#include "support/tmpdir.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char mark[] = "\0\0TEXT";
static const char *const names[] = {"tokenizer.json", "tekken.json", "tokenizer.model",
                                    "qwen.tiktoken"};

static void encode(const struct cs_tokenizer *tok, const char *text, size_t n, bool allow_special)
{
    struct cs_tokens tokens = {0};
    struct cs_buf back = {0};
    struct cs_err err = {0};
    uint32_t at = 0;

    if (cs_tokenizer_encode(tok, text, n, allow_special, &tokens, &err) == CS_OK)
        for (size_t i = 0; i < tokens.n; i++) {
            const struct cs_token *t = &tokens.items[i];
            if (t->begin > t->end || t->end > n || t->begin < at || t->id < 0 ||
                t->id >= cs_tokenizer_vocab(tok))
                fuzz_must(0);
            at = t->begin;
            if (cs_tokenizer_decode(tok, &t->id, 1, false, &back, &err) != CS_OK)
                fuzz_must(0);
        }
    cs_tokens_free(&tokens);
    cs_buf_free(&back);
}

static char *dir;

static void remove_dir(void)
{
    tmpdir_free(dir);
}

/* In one directory for the whole run, by the name of its kind. */
static enum cs_status open_as(const char *name, const char *bytes, size_t n,
                              struct cs_tokenizer **tok, struct cs_err *err)
{
    char *path = NULL;
    enum cs_status status = CS_OK;

    if (dir == NULL) {
        dir = tmpdir_new();
        fuzz_must(atexit(remove_dir) == 0);
    }
    path = strdup(tmpdir_path(dir, name));
    tmpdir_write(path, bytes, n);
    status = cs_tokenizer_open(path, tok, err);
    free(path);
    return status;
}

/* A file of the kind that the name says, and a text. */
static void run(const char *name, const char *bytes, size_t n, const char *text, size_t n_text)
{
    struct cs_tokenizer *tok = NULL;
    struct cs_err err = {0};
    const enum cs_status status = strcmp(name, "tokenizer.json") == 0
                                      ? cs_tokenizer_parse(bytes, n, "fuzz", &tok, &err)
                                      : open_as(name, bytes, n, &tok, &err);

    if (status != CS_OK) {
        fuzz_must(tok == NULL && err.text[0] != '\0');
        return;
    }
    encode(tok, text, n_text, true);
    encode(tok, text, n_text, false);
    cs_tokenizer_close(tok);
}

static void run_raw(const char *name, const char *bytes, size_t n)
{
    const char *text = memmem(bytes, n, mark, sizeof mark - 1);
    const size_t n_file = text != NULL ? (size_t)(text - bytes) : n;
    const size_t n_text = text != NULL ? n - n_file - (sizeof mark - 1) : 0;

    run(name, bytes, n_file, text != NULL ? text + sizeof mark - 1 : "", n_text);
}

/* Some bytes exchanged, the end cut. */
static void edit_bytes(struct cs_buf *file, struct fuzz_bytes *edits)
{
    for (uint32_t i = fuzz_take(edits, 6); i > 0 && file->len > 0; i--)
        file->data[fuzz_take(edits, (uint32_t)file->len)] = (char)fuzz_take(edits, 256);
    if (fuzz_take(edits, 8) == 1)
        file->len = fuzz_take(edits, (uint32_t)file->len + 1);
}

static void run_edited(const json_t *one, struct fuzz_bytes *edits)
{
    const json_t *base64 = json_object_get(one, "base64");
    const char *name = json_string_value(json_object_get(one, "file"));
    struct cs_buf file = {0};

    if (base64 != NULL) {
        const char *p = json_string_value(base64);
        fuzz_must(tok_base64(p, json_string_length(base64), &file));
        edit_bytes(&file, edits);
    } else {
        json_t *document = json_deep_copy(json_object_get(one, "json"));
        fuzz_edit(document, edits);
        char *text = json_dumps(document, JSON_COMPACT);
        cs_buf_adds(&file, text);
        free(text);
        json_decref(document);
    }
    run(name, cs_buf_str(&file), file.len, (const char *)edits->at, edits->n);
    run(name, cs_buf_str(&file), file.len, "<s> the caf\xc3\xa9 12 \xe4\xb8\x96<image>", 24);
    cs_buf_free(&file);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static json_t *golden;
    struct fuzz_bytes edits = {data + 1, size - 1};

    if (size == 0)
        return 0;
    if (data[0] < CS_ARRAY_LEN(names)) {
        run_raw(names[data[0]], (const char *)data + 1, size - 1);
        return 0;
    }
    if (golden == NULL)
        golden = json_load_file(source_path("tests/golden/tokenizers.json"), 0, NULL);
    const json_t *cases = json_object_get(golden, "cases");
    fuzz_must(json_array_size(cases) > 0);
    run_edited(json_array_get(cases, data[0] % json_array_size(cases)), &edits);
    return 0;
}

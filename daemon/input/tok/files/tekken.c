/* Reads tekken.json of Mistral: bytes and ranks, the split, and special tokens, which come first. */
#include <stdio.h>
#include <string.h>

#include "core/doc/json_text.h"
#include "input/tok/files/files.h"
#include "input/tok/files/keys.h"
#include "input/tok/files/made.h"
#include "input/tok/text/alphabet.h"

/* Of files that do not list theirs; what is beyond them is "<SPECIAL_20>" and so on. */
static const char *const older_special[] = {
    "<unk>",
    "<s>",
    "</s>",
    "[INST]",
    "[/INST]",
    "[AVAILABLE_TOOLS]",
    "[/AVAILABLE_TOOLS]",
    "[TOOL_RESULTS]",
    "[/TOOL_RESULTS]",
    "[TOOL_CALLS]",
    "[IMG]",
    "<pad>",
    "[IMG_BREAK]",
    "[IMG_END]",
    "[PREFIX]",
    "[MIDDLE]",
    "[SUFFIX]",
    "[SYSTEM_PROMPT]",
    "[/SYSTEM_PROMPT]",
    "[TOOL_CONTENT]",
};

struct making {
    const json_t *root;
    json_t *vocab, *added;
    struct cs_buf kinds;
    json_int_t n_special, n_all;
    struct cs_err *err;
};

static enum cs_status add_special(struct making *m, const char *content, json_int_t id)
{
    if (content == NULL || content[0] == '\0' || json_object_get(m->vocab, content) != NULL)
        return cs_fail(m->err, CS_CORRUPT,
                       "tokenizer: special token %lld has no text, or it is there twice",
                       (long long)id);
    json_object_set_new(m->vocab, content, json_integer(id));
    json_array_append_new(m->added, tok_special_token(content, id));
    cs_buf_addc(&m->kinds, TOK_KIND_OTHER);
    return CS_OK;
}

static enum cs_status read_special(struct making *m)
{
    const json_t *list = json_object_get(m->root, "special_tokens");
    const json_int_t n_listed = (json_int_t)json_array_size(list);

    if (n_listed > m->n_special)
        return cs_fail(m->err, CS_CORRUPT,
                       "tokenizer: %lld special tokens, but default_num_special_tokens is %lld",
                       (long long)n_listed, (long long)m->n_special);
    for (json_int_t id = 0; id < m->n_special; id++) {
        const json_t *token = json_array_get(list, (size_t)id);
        char text[32];
        snprintf(text, sizeof text, "<SPECIAL_%lld>", (long long)id);
        if (token != NULL && json_integer_value(json_object_get(token, "rank")) != id)
            return cs_fail(m->err, CS_CORRUPT, "tokenizer: special_tokens[%lld] has another rank",
                           (long long)id);
        if (token != NULL)
            CS_TRY(add_special(m, json_string_value(json_object_get(token, "token_str")), id));
        else if (list == NULL && id < (json_int_t)CS_ARRAY_LEN(older_special))
            CS_TRY(add_special(m, older_special[id], id));
        else
            CS_TRY(add_special(m, text, id));
    }
    return CS_OK;
}

static enum cs_status add_rank(struct making *m, const json_t *token, json_int_t rank,
                               struct cs_buf *bytes, struct cs_buf *spelling)
{
    const json_t *text = json_object_get(token, "token_bytes");

    cs_buf_reset(bytes);
    cs_buf_reset(spelling);
    if (json_integer_value(json_object_get(token, "rank")) != rank || !json_is_string(text) ||
        !tok_base64(json_string_value(text), json_string_length(text), bytes) || bytes->len == 0)
        return cs_fail(m->err, CS_CORRUPT,
                       "tokenizer: vocab[%lld] has no token_bytes in base64, or another rank",
                       (long long)rank);
    tok_alphabet_encode(bytes->data, bytes->len, spelling);
    if (json_object_get(m->vocab, cs_buf_str(spelling)) != NULL)
        return cs_fail(m->err, CS_CORRUPT, "tokenizer: vocab[%lld] is there twice, or is special",
                       (long long)rank);
    json_object_set_new(m->vocab, cs_buf_str(spelling), json_integer(m->n_special + rank));
    cs_buf_addc(&m->kinds, TOK_KIND_NORMAL);
    return CS_OK;
}

static enum cs_status read_ranks(struct making *m)
{
    const json_t *list = json_object_get(m->root, "vocab");
    const json_int_t n = m->n_all - m->n_special;
    struct cs_buf bytes = {0}, spelling = {0};
    enum cs_status status = CS_OK;

    if (n < 0 || (json_int_t)json_array_size(list) < n)
        status = cs_fail(m->err, CS_CORRUPT,
                         "tokenizer: vocab has %zu tokens, default_vocab_size needs %lld",
                         json_array_size(list), (long long)n);
    for (json_int_t rank = 0; rank < n && status == CS_OK; rank++)
        status = add_rank(m, json_array_get(list, (size_t)rank), rank, &bytes, &spelling);
    cs_buf_free(&bytes);
    cs_buf_free(&spelling);
    return status;
}

/* Mistral's own tokenizer begins every text with it. */
static void put_bos(json_t *document, const json_t *added)
{
    const json_t *token = NULL;
    size_t i = 0;

    json_array_foreach(added, i, token)
    {
        if (strcmp(json_string_value(json_object_get(token, "content")), "<s>") == 0)
            json_object_set_new(document, "post_processor",
                                json_pack("{s:s, s:[{s:{s:s}}, {s:{s:s}}], s:{s:{s:[O]}}}", "type",
                                          "TemplateProcessing", "single", "SpecialToken", "id",
                                          "<s>", "Sequence", "id", "A", "special_tokens", "<s>",
                                          "ids", json_object_get(token, "id")));
    }
}

static enum cs_status make(struct making *m, json_t **out)
{
    const json_t *config = json_object_get(m->root, "config");
    const json_t *pattern = json_object_get(config, "pattern");

    CS_TRY(cs_doc_review(
        &(struct cs_doc){
            .name = "tekken.json", .where = "", .json = m->root, .table = &tok_tekken_table},
        NULL, m->err));
    m->n_special = json_integer_value(json_object_get(config, "default_num_special_tokens"));
    m->n_all = json_integer_value(json_object_get(config, "default_vocab_size"));
    if (!json_is_string(pattern))
        return cs_fail(m->err, CS_CORRUPT, "tokenizer: config.pattern is missing");
    CS_TRY(read_special(m));
    CS_TRY(read_ranks(m));
    *out = tok_byte_document(json_incref(m->vocab), json_incref(m->added), cs_buf_str(&m->kinds),
                             json_string_value(pattern), NULL);
    put_bos(*out, m->added);
    return CS_OK;
}

enum cs_status tok_made_of_tekken(const struct cs_buf *file, const json_t *config, json_t **out,
                                  struct cs_err *err)
{
    json_error_t where;
    json_t *root = cs_json_parse(cs_buf_str(file), file->len, JSON_ALLOW_NUL, &where);
    struct making m = {.root = root, .vocab = json_object(), .added = json_array(), .err = err};
    enum cs_status status =
        root == NULL ? cs_fail(err, CS_CORRUPT, "tokenizer: line %d: %s", where.line, where.text)
                     : make(&m, out);

    (void)config;
    json_decref(root);
    json_decref(m.vocab);
    json_decref(m.added);
    cs_buf_free(&m.kinds);
    return status == CS_INVALID ? CS_CORRUPT : status;
}

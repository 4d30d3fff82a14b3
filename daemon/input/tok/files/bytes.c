/* What documents of bytes that merge by rank have in common. */
#include <openssl/evp.h>
#include <string.h>

#include "input/tok/files/made.h"

json_t *tok_special_token(const char *content, json_int_t id)
{
    return json_pack("{s:s,s:I,s:b,s:b,s:b,s:b,s:b}", "content", content, "id", id, "special", 1,
                     "normalized", 0, "single_word", 0, "lstrip", 0, "rstrip", 0);
}

/* EVP_DecodeBlock lets white space and characters behind the end pass. */
bool tok_base64(const char *text, size_t n, struct cs_buf *out)
{
    size_t n_pad = 0;
    int n_bytes = 0;

    if (n == 0 || n % 4 != 0 || n > INT32_MAX)
        return false;
    for (size_t i = 0; i < n; i++) {
        const char c = text[i];
        const bool is_digit = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
                              (c >= '0' && c <= '9') || c == '+' || c == '/';
        n_pad += c == '=';
        if (!(is_digit && n_pad == 0) && !(c == '=' && i + 2 >= n))
            return false;
    }
    n_bytes = EVP_DecodeBlock(cs_buf_room(out, n), (const unsigned char *)text, (int)n);
    if (n_bytes < (int)n_pad)
        return false;
    out->len += (size_t)n_bytes - n_pad;
    return true;
}

json_t *tok_byte_document(json_t *vocab, json_t *added, const char *kinds, const char *split,
                          json_t *normalizer)
{
    json_t *regex = json_pack("{s:s,s:{s:s},s:s,s:b}", "type", "Split", "pattern", "Regex", split,
                              "behavior", "Isolated", "invert", 0);
    json_t *bytes =
        json_pack("{s:s,s:b,s:b}", "type", "ByteLevel", "add_prefix_space", 0, "use_regex", 0);

    return json_pack("{s:{s:s,s:o,s:s,s:b},s:o,s:{s:s,s:[o,o]},s:o}", "model", "type", "BPE",
                     "vocab", vocab, "kinds", kinds, "ignore_merges", 1, "added_tokens", added,
                     "pre_tokenizer", "type", "Sequence", "pretokenizers", regex, bytes,
                     "normalizer", normalizer != NULL ? normalizer : json_null());
}

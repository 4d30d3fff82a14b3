/* Tokenizers as model directories hold them, equal to what transformers and Hugging Face's
 * `tokenizers`, SentencePiece and tiktoken make of them.
 *
 * Read: tokenizer.json with the documents beside it - BPE (merges as "a b" or ["a", "b"],
 * ignore_merges, byte_fallback, fuse_unk, marks of words), Unigram, WordLevel; added tokens
 * (leftmost-longest; lstrip, rstrip, single_word, normalized); normalizers NFC, NFD, NFKC, NFKD,
 * Replace, Prepend, Strip, StripAccents, Lowercase, Nmt, Precompiled, Sequence; pre-tokenizers
 * ByteLevel, Split, Metaspace, Digits, Punctuation, Whitespace, WhitespaceSplit,
 * CharDelimiterSplit, Sequence, with the file's own regex run by PCRE2; decoders ByteLevel, Metaspace,
 * Replace, ByteFallback, Fuse, Strip, BPEDecoder, Sequence. Where there is no tokenizer.json: tekken.json
 * of Mistral, models of SentencePiece (BPE and Unigram), tiktoken files of Llama 3, Llama 4 and Qwen.
 * What a post-processor puts around a text (TemplateProcessing, BertProcessing, RobertaProcessing, ByteLevel,
 * Sequence) is added by who asks for it: chat templates write such tokens themselves. Truncation and padding are
 * ignored. Anything else
 * is CS_UNSUPPORTED with a text "unsupported tokenizer: ..." that names the construct.
 *
 * Known differences: Punctuation knows characters of Unicode 9 to 15, which its original does not; SentencePiece and Unigram find no special token among their pieces; bytes that are
 * no UTF-8, which `tokenizers` does not take, are characters of their own.
 *
 * Special tokens in text are a hole through which data can forge turns and pictures. So every
 * encoding says where special tokens may be recognised; elsewhere their spelling is plain text. A
 * tokenizer is immutable once set up and may be used by several threads. */
#ifndef CS_INPUT_TOK_TOKENIZER_H
#define CS_INPUT_TOK_TOKENIZER_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/buf.h"
#include "core/base/status.h"
#include "core/doc/findings.h"

enum { CS_TEXT_MAX_BYTES = 256 * 1024 * 1024 };

struct cs_tokenizer;

/* One token and the bytes [begin, end) of the text it came from. */
struct cs_token {
    int32_t id;
    uint32_t begin, end;
};

/* Growable list; zero-initialise, free with cs_tokens_free. */
struct cs_tokens {
    struct cs_token *items;
    size_t n, cap;
};

void cs_tokens_free(struct cs_tokens *tokens);

struct cs_text_range {
    size_t begin, end;
};

/* path: the directory of a tokenizer (tokenizer.json, else tekken.json, tokenizer.model, qwen.tiktoken,
 * sentencepiece.bpe.model or spiece.model, and, where they are there, tokenizer_config.json,
 * special_tokens_map.json, added_tokens.json), or one such file, then alone. A known key of another type
 * is an error of that document. */
enum cs_status cs_tokenizer_open(const char *path, struct cs_tokenizer **out,
                                 struct cs_err *err) CS_NODISCARD;
/* The same, with what the documents' keys brought to light; findings may be NULL. */
enum cs_status cs_tokenizer_review(const char *path, struct cs_tokenizer **out,
                                   struct cs_findings *findings, struct cs_err *err) CS_NODISCARD;
/* tokenizer.json from memory; name only appears in messages */
enum cs_status cs_tokenizer_parse(const char *json, size_t n_bytes, const char *name,
                                  struct cs_tokenizer **out, struct cs_err *err) CS_NODISCARD;
/* Whether a directory holds a file that cs_tokenizer_open reads. */
bool cs_tokenizer_is_in(const char *dir);
void cs_tokenizer_close(struct cs_tokenizer *tokenizer); /* accepts NULL */

/* id of a token by its spelling in the file, -1: none */
int32_t cs_tokenizer_id(const struct cs_tokenizer *tokenizer, const char *token);
int32_t cs_tokenizer_vocab(const struct cs_tokenizer *tokenizer); /* largest id + 1 */
/* key of the i-th named token, NULL: no more */
const char *cs_tokenizer_name(const struct cs_tokenizer *tokenizer, int i);
/* spelling of a named token ("bos_token", "eos_token", ...), NULL: the documents do not say */
const char *cs_tokenizer_named(const struct cs_tokenizer *tokenizer, const char *key);
bool cs_tokenizer_is_special(const struct cs_tokenizer *tokenizer, int32_t id);
/* Treat an added token as special though the file does not (media tokens), before first use.
 * CS_NOT_FOUND: no added token of this spelling. */
enum cs_status cs_tokenizer_set_special(struct cs_tokenizer *tokenizer, const char *token,
                                        struct cs_err *err) CS_NODISCARD;

/* Append the tokens of text to out. allow_special false: no special id can result, whatever the
 * text. Bytes that are not UTF-8 are encoded as they are. */
enum cs_status cs_tokenizer_encode(const struct cs_tokenizer *tokenizer, const char *text,
                                   size_t len, bool allow_special, struct cs_tokens *out,
                                   struct cs_err *err) CS_NODISCARD;
/* The same with special tokens recognised outside the sorted, disjoint plain ranges only. */
enum cs_status cs_tokenizer_encode_mixed(const struct cs_tokenizer *tokenizer, const char *text,
                                         size_t len, const struct cs_text_range *plain,
                                         size_t n_plain, struct cs_tokens *out,
                                         struct cs_err *err) CS_NODISCARD;
/* Puts around the tokens of a text of len bytes what the tokenizer's documents put around every text on its own:
 * BOS, EOS. */
enum cs_status cs_tokenizer_surround(const struct cs_tokenizer *tokenizer, size_t len,
                                     struct cs_tokens *tokens, struct cs_err *err) CS_NODISCARD;
/* Append the text of ids, as the decoder of the file puts them together; an id without a token is
 * CS_INVALID. */
enum cs_status cs_tokenizer_decode(const struct cs_tokenizer *tokenizer, const int32_t *ids,
                                   size_t n, bool skip_special, struct cs_buf *out,
                                   struct cs_err *err) CS_NODISCARD;

#endif

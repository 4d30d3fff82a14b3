/* A tokenizer's own chat template, as a table.
 *
 * Looked for in its directory, the first that is there: chat_template.jinja (additional_chat_templates/
 * beside it are for other uses), chat_template.json, "chat_template" of tokenizer_config.json (a text, or
 * a list of which "default" counts). What it does is found out by rendering conversations with it
 * (jinja/jinja.h); the table must then render the same texts. A template that does more than a table can
 * say is CS_UNSUPPORTED, and the error says what and which keys of `template` to give instead. */
#ifndef CS_INPUT_CHAT_OWN_H
#define CS_INPUT_CHAT_OWN_H

#include "input/chat/template.h"

/* dir: of the tokenizer. *has false: it has none, and *out is not written. */
enum cs_status cs_template_own(const char *dir, const struct cs_tokenizer *tok,
                               struct cs_arena *arena, struct cs_template *out, bool *has,
                               struct cs_err *err) CS_NODISCARD;
/* Its text as it is, and the file it was found in. *text NULL: there is none. Both live in the arena. */
enum cs_status cs_template_text(const char *dir, struct cs_arena *arena, const char **text,
                                const char **file, struct cs_err *err) CS_NODISCARD;
/* The same of a template's text. */
enum cs_status cs_template_of_jinja(const char *text, size_t n, const struct cs_tokenizer *tok,
                                    struct cs_arena *arena, struct cs_template *out,
                                    struct cs_err *err) CS_NODISCARD;
/* What a job trains with. node: its `template`. Without a name in it (NULL, null or other keys only) the
 * tokenizer's own, where it has none chatml; the keys of node change that. out->source says which. */
enum cs_status cs_template_choose(const json_t *node, const char *dir,
                                  const struct cs_tokenizer *tok, struct cs_arena *arena,
                                  struct cs_template *out, struct cs_err *err) CS_NODISCARD;

#endif

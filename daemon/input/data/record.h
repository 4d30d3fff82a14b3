/* Reads one item of a data set into a record (chat/conversation.h).
 *
 * Item: {id, conversations | conversation | messages: [turn], image | images: "path" or [paths]}. A
 * turn is {from, value} or {role, content} with roles human|user, gpt|assistant|model, system, and
 * optionally "loss": false. Content is a string, or a list of {type: "text", text}, {type: "image",
 * image: "path"}. The placeholder of an encoder ("<image>") is an object in user turns written as a
 * string; anywhere else its spelling is text. The key of an encoder's files is its placeholder's
 * name: "<image>" -> image, images. */
#ifndef CS_INPUT_DATA_RECORD_H
#define CS_INPUT_DATA_RECORD_H

#include <jansson.h>

#include "input/chat/conversation.h"

enum { CS_RECORD_MAX_BYTES = 16 * 1024 * 1024, CS_RECORD_MAX_MEDIA = 4096 };

/* item -> record; tokens: placeholder of every encoder. What is wrong is CS_INVALID with the key. */
enum cs_status cs_record_read(const json_t *item, const char *const *tokens, int n_tokens,
                              struct cs_record **out, struct cs_err *err) CS_NODISCARD;
void cs_record_free(struct cs_record *record); /* accepts NULL */

#endif

/* Reads one item of a data set into a record (chat/conversation.h).
 *
 * Item: {id, conversations | conversation | messages | texts: [turn], system: "text", and per encoder the
 * key of its files (record_keys.h), with one picture encoder image | images: a path, a data URI, {path:
 * "..."}, {bytes: base64}, or a list of these}. Without a list of turns a question and an answer are keys of
 * their own: instruction | query | prompt | question, input, output | response | answer | completion,
 * history: [[question, answer]]; or a caption | text alone, of the media, or of nothing: then a text to train on. A turn is {from, value} or {role, content} with roles human|user,
 * gpt|assistant|model|bot, system|developer, or both sides of an exchange, {user, assistant}; optionally "loss" (or weight, train, trainable, loss_weight,
 * loss_scale): 0 or false: the answer does not train, and "reasoning_content": what it thought. Content is a string, or a list of {type:
 * "text", text}, {type: "image", image: "path"}, {type: "image_url", image_url: {url: "data:..."}} and the
 * like. A mark of an encoder ("<image>") is an object in user
 * turns written as a string; anywhere else its spelling is text.
 *
 * null counts as absent, everywhere. A known key whose value is of another type, one that asks for
 * what is not done (a picture that no encoder reads, half a weight), two spellings of one key that
 * differ: the sample is bad. Keys that nobody knows are findings. */
#ifndef CS_INPUT_DATA_RECORD_H
#define CS_INPUT_DATA_RECORD_H

#include <jansson.h>

#include "input/chat/conversation.h"
#include "input/data/record/record_keys.h"

enum {
    CS_RECORD_MAX_BYTES = 64 * 1024 * 1024,
    CS_RECORD_MAX_MEDIA = 4096,
    CS_RECORD_MAX_FRAMES = 16384
};

/* Bytes of a medium that a reader of files has beside the JSON, where they stand as {"bytes": number}. */
struct cs_record_bytes {
    const void *data; /* (n); NULL: from `offset` on in the file `pack` */
    size_t n;
    const char *pack;
    uint64_t offset;
};

/* item -> record. findings: gets the keys that nothing reads; NULL: nowhere. What is wrong is
 * CS_INVALID, CS_UNSUPPORTED or CS_LIMIT with the place and the value: "conversations[1].weight is
 * 0.5: ...". */
enum cs_status cs_record_read(const json_t *item, const struct cs_record_keys *keys,
                              struct cs_findings *findings, struct cs_record **out,
                              struct cs_err *err) CS_NODISCARD;
enum cs_status cs_record_read_with(const json_t *item, const struct cs_record_keys *keys,
                                   const struct cs_record_bytes *bytes, int n_bytes,
                                   struct cs_findings *findings, struct cs_record **out,
                                   struct cs_err *err) CS_NODISCARD;
void cs_record_free(struct cs_record *record); /* accepts NULL */

#endif

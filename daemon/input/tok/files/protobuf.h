/* Fields of a protobuf message, one after the other. */
#ifndef CS_INPUT_TOK_FILES_PROTOBUF_H
#define CS_INPUT_TOK_FILES_PROTOBUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tok_message {
    const unsigned char *p, *end;
    bool is_broken; /* what is left is no field */
};

struct tok_field {
    uint32_t number;
    uint64_t value;    /* of a number: also the bits of a fixed one */
    const char *bytes; /* of a text, bytes or a message; NULL: a number */
    size_t n;
};

struct tok_message tok_message_of(const char *bytes, size_t n);
/* False at the end, and where the message is broken. Groups are broken: nothing has them. */
bool tok_message_next(struct tok_message *message, struct tok_field *field);

#endif

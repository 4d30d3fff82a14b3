/* Messages: one JSON object per line, built and read through jansson, checked against schema.def.
 *
 * Envelope: "type", "id" (a request's; its replies repeat it), "reply" true, "more" true on all but
 * the last of several replies, then the message's own fields. null means unknown and counts as
 * absent. Non-finite numbers travel as "nan", "inf", "-inf" in number fields.
 *
 * Ownership is jansson's: a json_t * returned by *_new, *_reply, *_error is the caller's reference;
 * getters return borrowed values. Constructors abort when memory is out. */
#ifndef CS_WIRE_WIRE_H
#define CS_WIRE_WIRE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/base/buf.h"
#include "core/base/status.h"
#include "core/wire/schema.h"

#define CS_PROTOCOL_MAJOR 1
#define CS_PROTOCOL_MINOR 0

#define CS_LINE_MAX_BEFORE_HELLO ((size_t)4096)
#define CS_LINE_MAX              ((size_t)16 << 20)
#define CS_JSON_MAX_DEPTH        16

/* --- build ---------------------------------------------------------------------------------- */

json_t *cs_msg_new(const char *type);
json_t *cs_msg_request(const char *type, int64_t id);
/* the request's type and id with reply:true; hello gets hello.ok, ping gets pong */
json_t *cs_msg_reply(const json_t *request);
/* {"type":"error","id":..,"reply":true,"error":{"status":slug,"text":..}}; request NULL: no id and
 * no reply, the reason why a connection ends */
json_t *cs_msg_error(const json_t *request, const struct cs_err *err);
json_t *cs_doc_new(const char *schema); /* {"schema":"cornstarch.jobs/1"} */

/* Setters take UTF-8; text that is not is escaped like cs_json_bytes. Values must be inside. */
void cs_msg_set_str(json_t *msg, const char *key, const char *value); /* NULL sets null */
void cs_msg_set_int(json_t *msg, const char *key, int64_t value);
void cs_msg_set_num(json_t *msg, const char *key, double value);
void cs_msg_set_bool(json_t *msg, const char *key, bool value);
void cs_msg_set(json_t *msg, const char *key, json_t *value); /* takes the reference */

json_t *cs_json_num(double value); /* a real, or a string when not finite */
/* a string of raw bytes: what is not UTF-8 and NUL become \xNN (four characters). One way only. */
json_t *cs_json_bytes(const char *bytes, size_t n);

/* --- read ----------------------------------------------------------------------------------- */

const char *cs_msg_type(const json_t *msg); /* "" when there is none */
int64_t cs_msg_id(const json_t *msg);       /* -1 when there is none */
bool cs_msg_is_reply(const json_t *msg);
/* dflt when the key is absent, null or of another type */
const char *cs_msg_str(const json_t *msg, const char *key, const char *dflt);
int64_t cs_msg_int(const json_t *msg, const char *key, int64_t dflt);
double cs_msg_num(const json_t *msg, const char *key, double dflt);
bool cs_msg_bool(const json_t *msg, const char *key, bool dflt);
json_t *cs_msg_obj(const json_t *msg, const char *key); /* NULL when absent or no object */
json_t *cs_msg_arr(const json_t *msg, const char *key); /* NULL when absent or no array */
/* number of an array's item or of any value: integer, real or the three words; false for others */
bool cs_json_to_num(const json_t *value, double *number);
/* status and text of an "error" message into err, whose status is returned (never CS_OK) */
enum cs_status cs_msg_to_err(const json_t *msg, struct cs_err *err);

/* Known type (else CS_UNSUPPORTED, the text starts with E_UNKNOWN_TYPE), envelope, required fields,
 * types, ranges and counts (CS_INVALID, CS_LIMIT). Unknown keys are ignored. */
CS_NODISCARD enum cs_status cs_msg_check(const json_t *msg, struct cs_err *err);
/* the same for a --json document and for a value that obeys an OBJECT row */
CS_NODISCARD enum cs_status cs_doc_check(const json_t *doc, struct cs_err *err);
CS_NODISCARD enum cs_status cs_object_check(const json_t *value, const char *object,
                                            struct cs_err *err);
/* a message that obeys the row, every field set: for the manual page and tests */
json_t *cs_msg_example(const struct cs_message *message);

/* --- hello ---------------------------------------------------------------------------------- */

struct cs_peer {
    int major, minor; /* minor: the smaller of the two */
    char program[64], version[64];
    bool has_role;
    enum cs_role role; /* asked for */
};

json_t *cs_hello_new(int64_t id, const char *program, const char *version, const char *role);
json_t *cs_hello_ok_new(const json_t *hello, const char *version, const char *node, int64_t pid);
/* hello or hello.ok or runner.hello; another major is CS_UNSUPPORTED, anything else CS_STATE */
CS_NODISCARD enum cs_status cs_hello_check(const json_t *msg, struct cs_peer *peer,
                                           struct cs_err *err);

/* --- bytes ---------------------------------------------------------------------------------- */

/* one compact line and '\n'; a line over CS_LINE_MAX is CS_LIMIT and leaves out as it was */
CS_NODISCARD enum cs_status cs_msg_encode(const json_t *msg, struct cs_buf *out,
                                          struct cs_err *err);
/* Canonical form of any value: sorted keys, compact, reals with 17 digits, no newline. */
void cs_json_canonical(const json_t *value, struct cs_buf *out);
/* indented, sorted as inserted, ends with a newline: what --json prints */
void cs_json_pretty(const json_t *value, struct cs_buf *out);

#endif

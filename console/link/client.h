/* The console's connection to a daemon: hello, requests with ids, events, reconnection.
 *
 * One thread. Events and replies to cs_client_send arrive through on_message while the event loop
 * runs (or during a cs_client_call, which waits with poll and may be used inside callbacks, but not
 * inside on_message of the same client). A lost connection is tried again after 0.1 s, doubling to
 * 5 s; subscriptions die with a connection: open them in on_state. */
#ifndef CS_CONSOLE_LINK_CLIENT_H
#define CS_CONSOLE_LINK_CLIENT_H

#include <event2/event.h>
#include <jansson.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/base/status.h"
#include "core/base/system/io.h"

#define CS_CLIENT_CALL_NS INT64_C(30000000000)

struct cs_client;

typedef void cs_client_message(void *user, const json_t *message); /* borrowed */
typedef void cs_client_state(void *user, bool is_connected);

/* socket_path NULL: the user's own daemon, started when nobody answers. CS_UNREACHABLE says where
 * was looked; a daemon of another protocol major is CS_UNSUPPORTED. base is borrowed. */
enum cs_status cs_client_connect(struct event_base *base, const char *socket_path,
                                 struct cs_client **out, struct cs_err *err) CS_NODISCARD;
/* the same, never starting a daemon */
enum cs_status cs_client_connect_running(struct event_base *base, const char *socket_path,
                                         struct cs_client **out, struct cs_err *err) CS_NODISCARD;
void cs_client_free(struct cs_client *client); /* accepts NULL */
void cs_client_on_message(struct cs_client *client, cs_client_message *fn, void *user);
void cs_client_on_state(struct cs_client *client, cs_client_state *fn, void *user);
bool cs_client_is_connected(const struct cs_client *client);
bool cs_client_has_started(const struct cs_client *client); /* the daemon that answers */
/* The daemon said that it was asked to end: it is waited for, and not started again by itself. */
bool cs_client_was_ended(const struct cs_client *client);
const json_t *cs_client_hello(const struct cs_client *client); /* the daemon's hello.ok */
const char *cs_client_path(const struct cs_client *client);

/* Calls end with CS_REFUSED soon after *stop has become true; NULL: they do not. Borrowed. */
void cs_client_set_stop(struct cs_client *client, const atomic_bool *stop);

/* Takes the reference, sets the id and returns it; -1 when there is no connection. */
int64_t cs_client_send(struct cs_client *client, json_t *request);
/* Takes the reference of request; *reply is the caller's, without "more" parts. An error reply is
 * returned as its status. CS_TIMEOUT after CS_CLIENT_CALL_NS, CS_PEER_GONE when the line breaks. */
enum cs_status cs_client_call(struct cs_client *client, json_t *request, json_t **reply,
                              struct cs_err *err) CS_NODISCARD;
/* timeout_ns 0: wait for ever */
enum cs_status cs_client_call_for(struct cs_client *client, json_t *request, int64_t timeout_ns,
                                  json_t **reply, struct cs_err *err) CS_NODISCARD;

#endif

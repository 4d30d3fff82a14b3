/* One connected console: requests in, answers and events out (net/conn.h, server/callers/feed.h).
 *
 * Answers are never dropped; while too many bytes wait no further request is read. Events flow while
 * few bytes wait. Training never waits.
 *
 * The role says what a caller may ask for: the daemon's own user and root may do everything; a role
 * asked for in hello lowers that. */
#ifndef CS_SERVER_CALLER_H
#define CS_SERVER_CALLER_H

#include "core/wire/schema.h"
#include "server/callers/feed.h"
#include "server/state/state.h"

/* takes fd; whoever may not connect is told and closed */
void cs_caller_accept(struct cs_server *server, int fd);
void cs_caller_free(struct cs_caller *caller);
uid_t cs_caller_uid(const struct cs_caller *caller);
enum cs_role cs_caller_role(const struct cs_caller *caller);
struct cs_feed *cs_caller_feed(struct cs_caller *caller);
void cs_callers_tick(struct cs_server *server);                  /* ends those that take nothing */
void cs_caller_reply(struct cs_caller *caller, json_t *message); /* takes the reference */
void cs_caller_flush(struct cs_caller *caller); /* answers leave now, as far as they can */
void cs_caller_fail(struct cs_caller *caller, const json_t *request, const struct cs_err *err);

bool cs_callers_watch_gpus(const struct cs_server *server);
/* to every subscription of the class on job; message is borrowed */
void cs_publish(struct cs_server *server, enum cs_event_class class, int64_t job,
                const json_t *message);

/* the daemon ends because it was asked to */
void cs_callers_end(struct cs_server *server);
/* job.wait: remember the request until the job ends; CS_LIMIT when too many wait already */
enum cs_status cs_caller_wait(struct cs_caller *caller, const json_t *request, int64_t job,
                              struct cs_err *err) CS_NODISCARD;
void cs_callers_job_ended(struct cs_server *server, int64_t job, const json_t *job_object);
/* answers job.resume; err NULL: it went through */
void cs_callers_resumed(struct cs_server *server, int64_t job, const struct cs_err *err);
/* what waits for job 0 waits for a reading of the GPUs: handled now */
void cs_callers_gpus_read(struct cs_server *server);

#endif

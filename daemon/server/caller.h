/* One connected console: lines in, bounded queues out.
 *
 * Three classes leave: replies (never dropped; while too many bytes wait no further request is
 * read), gauges (event.step, event.spans: the latest of each job wins) and events (bounded queue
 * per subscription, the oldest is dropped and a gap with the count is sent). Training never waits.
 */
#ifndef CS_SERVER_CALLER_H
#define CS_SERVER_CALLER_H

#include "server/server.h"

enum cs_event_class { CS_CLASS_GAUGE, CS_CLASS_EVENT, CS_CLASS_LOG, CS_CLASS_GPUS };

/* answers one checked request */
typedef void cs_request_handler(struct cs_server *server, struct cs_caller *caller,
                                const json_t *request);

/* takes fd; whoever may not connect is told and closed */
void cs_caller_accept(struct cs_server *server, int fd, cs_request_handler *handle);
void cs_caller_free(struct cs_caller *caller);
uid_t cs_caller_uid(const struct cs_caller *caller);
void cs_callers_tick(struct cs_server *server);                  /* ends those that take nothing */
void cs_caller_reply(struct cs_caller *caller, json_t *message); /* takes the reference */
void cs_caller_fail(struct cs_caller *caller, const json_t *request, const struct cs_err *err);

struct cs_sub_wants {
    bool gauges, events, logs, gpus;
};

/* subscription id, -1: too many */
int64_t cs_caller_subscribe(struct cs_caller *caller, int64_t job,
                            const struct cs_sub_wants *wants);
bool cs_callers_watch_gpus(const struct cs_server *server);
bool cs_caller_unsubscribe(struct cs_caller *caller, int64_t id);
/* to every subscription of the class on job; message is borrowed */
void cs_publish(struct cs_server *server, enum cs_event_class class, int64_t job,
                const json_t *message);

/* job.wait: remember the request until the job ends; CS_LIMIT when too many wait already */
enum cs_status cs_caller_wait(struct cs_caller *caller, const json_t *request, int64_t job,
                              struct cs_err *err) CS_NODISCARD;
void cs_callers_job_ended(struct cs_server *server, int64_t job, const json_t *job_object);
/* what waits for job 0 waits for a reading of the GPUs: handled now */
void cs_callers_gpus_read(struct cs_server *server);

#endif

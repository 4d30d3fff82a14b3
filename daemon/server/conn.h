/* One connected console: lines in, bounded queues out.
 *
 * Three classes leave: replies (never dropped; while too many bytes wait no further request is
 * read), gauges (event.step, event.spans: the latest of each job wins) and events (bounded queue
 * per subscription, the oldest is dropped and a gap with the count is sent). Training never waits.
 */
#ifndef CS_SERVER_CONN_H
#define CS_SERVER_CONN_H

#include "server/server.h"

enum cs_event_class { CS_CLASS_GAUGE, CS_CLASS_EVENT, CS_CLASS_LOG, CS_CLASS_GPUS };

void cs_conn_accept(struct cs_server *server, int fd);
void cs_conn_free(struct cs_conn *conn);
uid_t cs_conn_uid(const struct cs_conn *conn);
void cs_conns_tick(struct cs_server *server);              /* ends those that take nothing */
void cs_conn_reply(struct cs_conn *conn, json_t *message); /* takes the reference */
void cs_conn_fail(struct cs_conn *conn, const json_t *request, const struct cs_err *err);

struct cs_sub_wants {
    bool gauges, events, logs, gpus;
};

/* subscription id, -1: too many */
int64_t cs_conn_subscribe(struct cs_conn *conn, int64_t job, const struct cs_sub_wants *wants);
bool cs_conns_watch_gpus(const struct cs_server *server);
bool cs_conn_unsubscribe(struct cs_conn *conn, int64_t id);
/* to every subscription of the class on job; message is borrowed */
void cs_publish(struct cs_server *server, enum cs_event_class class, int64_t job,
                const json_t *message);

/* job.wait: remember the request until the job ends; CS_LIMIT when too many wait already */
enum cs_status cs_conn_wait(struct cs_conn *conn, const json_t *request, int64_t job,
                            struct cs_err *err) CS_NODISCARD;
void cs_conn_job_ended(struct cs_server *server, int64_t job, const json_t *job_object);
/* what waits for job 0 waits for a reading of the GPUs: handled now */
void cs_conns_gpus_read(struct cs_server *server);

/* rpc.c: answer one checked request */
void cs_rpc_handle(struct cs_server *server, struct cs_conn *conn, const json_t *request);

#endif

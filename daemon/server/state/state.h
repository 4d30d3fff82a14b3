/* cornstarchd: what the parts of the daemon share. One thread, one event loop, no globals.
 *
 * The daemon keeps jobs and their history, starts and finds runners, answers consoles and fans
 * telemetry out. It never plans, never runs a script, never touches an accelerator. */
#ifndef CS_SERVER_STATE_H
#define CS_SERVER_STATE_H

#include <event2/event.h>
#include <jansson.h>
#include <stdbool.h>
#include <sys/types.h>

#include "core/base/system/io.h"
#include "core/base/system/log.h"
#include "net/listener.h"
#include "net/owner.h"
#include "server/state/config.h"

struct cs_caller;
struct cs_db;
struct cs_job;
struct cs_node;
struct cs_server;
struct evhttp;

/* answers one checked request */
typedef void cs_request_handler(struct cs_server *server, struct cs_caller *caller,
                                const json_t *request);

struct cs_server {
    struct cs_config config;
    cs_request_handler *handle_request; /* set before cs_server_open */
    struct event_base *base;
    struct cs_log *log;
    struct cs_db *db;
    char runtime_dir[CS_PATH_CAP], state_dir[CS_PATH_CAP], socket_path[CS_PATH_CAP];
    char node[256];
    struct cs_claim state_claim, runtime_claim; /* the second: none when it is one directory */
    struct cs_listener *listener;               /* place.h */
    bool is_place_lost;                         /* nobody can reach us; told once */
    int log_fd;
    int argc; /* of the command line, for a reload */
    char **argv;
    struct event *tick, *signals[5];
    struct cs_node *node_devices; /* node.h */
    struct evhttp *scrape;        /* scrape.h; NULL: nobody may */
    int64_t scraped_ns;           /* when somebody last did; 0 never */
    struct cs_caller *callers;    /* list */
    int n_callers;
    struct cs_job **jobs; /* by id, newest last */
    size_t n_jobs, cap_jobs;
    int64_t last_job; /* the largest number that was ever given */
    int64_t started_ns, idle_since_ns;
    char warning[1200];    /* of the start, for who asks about the daemon; "": none */
    char write_error[300]; /* why what is known of a job could not be written, the last time */
    bool is_draining, is_stopping;
};

#endif

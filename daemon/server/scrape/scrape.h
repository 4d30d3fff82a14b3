/* What the daemon knows as numbers for Prometheus, over HTTP: GET /metrics of --metrics-address and
 * --metrics-port. Reading only; who reaches the port reads names and losses of all jobs, so the
 * address is the loopback unless told otherwise. */
#ifndef CS_SERVER_SCRAPE_H
#define CS_SERVER_SCRAPE_H

#include "core/base/buf.h"
#include "server/state/state.h"

/* Nothing without a port. CS_IO: the port cannot be had, with what to do. */
enum cs_status cs_scrape_open(struct cs_server *server, struct cs_err *err) CS_NODISCARD;
void cs_scrape_close(struct cs_server *server);
/* the page: version 0.0.4 of the text format */
void cs_scrape_text(struct cs_server *server, struct cs_buf *out);

#endif

/* Answers HTTP with libevent's server: two paths, no bodies, small headers. */
#include "server/scrape/scrape.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/http.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/system/clock.h"

enum { TIMEOUT_S = 10, MOST_HEADERS = 16384 };

static const char welcome[] = "cornstarchd: the figures are at /metrics\n";

static void reply(struct evhttp_request *request, const char *type, const char *text, size_t n)
{
    struct evbuffer *body = evbuffer_new();
    CS_ASSERT(body != NULL);
    evhttp_add_header(evhttp_request_get_output_headers(request), "Content-Type", type);
    evbuffer_add(body, text, n);
    evhttp_send_reply(request, HTTP_OK, "OK", body);
    evbuffer_free(body);
}

static void on_metrics(struct evhttp_request *request, void *user)
{
    struct cs_server *server = user;
    struct cs_buf text = {0};
    server->scraped_ns = cs_now_ns();
    cs_scrape_text(server, &text);
    reply(request, "text/plain; version=0.0.4; charset=utf-8", cs_buf_str(&text), text.len);
    cs_buf_free(&text);
}

static void on_root(struct evhttp_request *request, void *user)
{
    (void)user;
    reply(request, "text/plain; charset=utf-8", welcome, sizeof welcome - 1);
}

static void on_other(struct evhttp_request *request, void *user)
{
    (void)user;
    evhttp_send_error(request, HTTP_NOTFOUND, NULL);
}

enum cs_status cs_scrape_open(struct cs_server *server, struct cs_err *err)
{
    const struct cs_config *config = &server->config;
    if (config->metrics_port == 0)
        return CS_OK;
    struct evhttp *http = evhttp_new(server->base);
    CS_ASSERT(http != NULL);
    evhttp_set_timeout(http, TIMEOUT_S);
    evhttp_set_max_headers_size(http, MOST_HEADERS);
    evhttp_set_max_body_size(http, 0);
    evhttp_set_allowed_methods(http, EVHTTP_REQ_GET | EVHTTP_REQ_HEAD);
    evhttp_set_cb(http, "/metrics", on_metrics, server);
    evhttp_set_cb(http, "/", on_root, server);
    evhttp_set_gencb(http, on_other, server);
    errno = 0;
    if (evhttp_bind_socket(http, config->metrics_address, (uint16_t)config->metrics_port) != 0) {
        const int error = errno;
        evhttp_free(http);
        return cs_fail(err, CS_IO,
                       "--metrics-port %lld: cannot listen on %s: %s; take another port or "
                       "--metrics-address",
                       (long long)config->metrics_port, config->metrics_address,
                       error ? strerror(error) : "no such address");
    }
    cs_log(server->log, CS_INFO, "daemon.metrics", CS_KV("address", config->metrics_address),
           CS_KV("port", config->metrics_port));
    server->scrape = http;
    return CS_OK;
}

void cs_scrape_close(struct cs_server *server)
{
    if (server->scrape)
        evhttp_free(server->scrape);
    server->scrape = NULL;
}

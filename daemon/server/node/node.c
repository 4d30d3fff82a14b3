/* Knows the node's devices: what there is, when it is read, how it is told. */
#include "server/node/node.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/str.h"
#include "core/base/system/clock.h"
#include "core/base/units.h"
#include "core/wire/wire.h"
#include "gpus/gpus.h"
#include "gpus/here.h"
#include "server/callers/caller.h"
#include "server/node/node_private.h"

enum { HISTORY = 120 };

static const int64_t every_ns = 1000000000, fresh_ns = 500000000, late_ns = 1000000000,
                     scraped_for_ns = 120000000000;

/* --- what there is ---------------------------------------------------------------------------- */

static void on_reading(evutil_socket_t fd, short what, void *user);

/* The first reading was made at the opening; from here on they are the thread's. */
static enum cs_status watch(struct cs_server *server, struct cs_gpus *gpus, struct cs_err *err)
{
    struct cs_node *node = server->node_devices;
    memcpy(node->gpu, cs_gpus_at(gpus, 0), (size_t)node->n_shown * sizeof(node->gpu[0]));
    node->read_ns = cs_now_ns();
    cs_str_copy(node->driver, sizeof(node->driver), cs_gpus_driver(gpus));
    CS_TRY(cs_gpu_watch_open(gpus, &node->watch, err));
    node->on_reading = event_new(server->base, cs_gpu_watch_fd(node->watch), EV_READ | EV_PERSIST,
                                 on_reading, server);
    CS_ASSERT(node->on_reading != NULL);
    event_add(node->on_reading, NULL);
    return CS_OK;
}

/* What of them is offered, and what they are to a plan. */
static enum cs_status offer_gpus(struct cs_server *server, const struct cs_gpus *gpus,
                                 const struct cs_offer *offer, struct cs_err *err)
{
    struct cs_node *node = server->node_devices;
    node->n_gpus = node->n_shown = cs_gpus_count(gpus);
    if (offer->kind == CS_OFFER_CUDA && offer->n > node->n_gpus)
        return cs_fail(err, CS_NOT_FOUND, "--devices %s, but the node has %d GPU%s",
                       server->config.devices, (int)node->n_gpus, CS_PLURAL(node->n_gpus));
    if (offer->kind == CS_OFFER_CUDA && offer->n > 0)
        node->n_gpus = (int32_t)offer->n;
    if (offer->kind == CS_OFFER_CPU) {
        node->n_gpus = 0;
        snprintf(node->note, sizeof(node->note), "--devices %s: GPUs are shown, not offered",
                 server->config.devices);
    } else {
        cs_gpus_here(gpus, node->n_gpus, &node->here, node->note, sizeof(node->note));
    }
    cs_log(server->log, CS_INFO, "node.gpus", CS_KV("gpus", (int64_t)node->n_shown),
           CS_KV("offered", (int64_t)node->n_gpus), CS_KV("driver", cs_gpus_driver(gpus)));
    return CS_OK;
}

enum cs_status cs_node_open(struct cs_server *server, struct cs_err *err)
{
    struct cs_gpus *gpus = NULL;
    struct cs_err why = {0};
    struct cs_offer offer;
    struct cs_node *node = calloc(1, sizeof *node);
    CS_ASSERT(node != NULL);
    server->node_devices = node;
    CS_TRY(cs_offer_read(server->config.devices, &offer, err));
    enum cs_status status = cs_gpus_open(NULL, &gpus, &why);
    if (status != CS_OK) {
        snprintf(node->note, sizeof(node->note), "%s", why.text);
        if (offer.kind == CS_OFFER_CUDA)
            return cs_fail(err, CS_NOT_FOUND, "--devices %s, but: %s", server->config.devices,
                           why.text);
        return CS_OK;
    }
    status = offer_gpus(server, gpus, &offer, err);
    if (status != CS_OK) {
        cs_gpus_close(gpus);
        return status;
    }
    return watch(server, gpus, err);
}

void cs_node_close(struct cs_server *server)
{
    struct cs_node *node = server->node_devices;
    if (!node)
        return;
    if (node->on_reading)
        event_free(node->on_reading);
    cs_gpu_watch_close(node->watch);
    free(node->cpu);
    free(node);
    server->node_devices = NULL;
}

struct cs_here cs_node_here(const struct cs_server *server)
{
    if (server->node_devices->here.device)
        return server->node_devices->here;
    return (struct cs_here){.devices = (int32_t)server->config.cpu_devices};
}

const char *cs_node_gpus_note(const struct cs_server *server)
{
    return server->node_devices->note;
}

const char *cs_node_driver(const struct cs_server *server)
{
    return server->node_devices->driver;
}

/* --- when it is read -------------------------------------------------------------------------- */

static void ask(struct cs_node *node)
{
    if (node->asked_ns)
        return; /* under way */
    node->asked_ns = cs_now_ns();
    cs_gpu_watch_ask(node->watch);
}

bool cs_node_is_fresh(struct cs_server *server)
{
    struct cs_node *node = server->node_devices;
    if (!node->watch || node->is_answering || cs_now_ns() - node->read_ns <= fresh_ns)
        return true;
    ask(node);
    return false;
}

static void answer(struct cs_server *server)
{
    server->node_devices->is_answering = true;
    cs_callers_gpus_read(server);
    server->node_devices->is_answering = false;
}

/* history is only of samples a second apart */
static void remember(struct cs_node *node)
{
    for (int32_t i = 0; i < node->n_shown; i++) {
        int64_t busy = node->gpu[i].busy_pct;
        node->history[i][node->n_history % HISTORY] = (int8_t)(busy == CS_GPU_UNKNOWN ? -1 : busy);
    }
    node->n_history++;
}

static void publish(struct cs_server *server)
{
    const struct cs_node *node = server->node_devices;
    if (!cs_callers_watch_gpus(server))
        return;
    json_t *message = cs_msg_new("event.gpus");
    cs_msg_set_int(message, "wall_ns", cs_wall_ns());
    cs_msg_set(message, "devices", cs_node_devices(server, CS_DEVICES_ALL));
    if (node->note[0])
        cs_msg_set_str(message, "gpus_note", node->note);
    cs_publish(server, CS_CLASS_GPUS, 0, message);
    json_decref(message);
}

static void on_reading(evutil_socket_t fd, short what, void *user)
{
    struct cs_server *server = user;
    struct cs_node *node = server->node_devices;
    (void)fd;
    (void)what;
    if (!cs_gpu_watch_take(node->watch, node->gpu))
        return;
    node->read_ns = cs_now_ns();
    node->asked_ns = 0;
    if (node->is_second_due) {
        node->is_second_due = false;
        remember(node);
        publish(server);
    }
    answer(server);
}

/* by a console, by Prometheus, or since a job runs on them */
static bool is_watched(const struct cs_server *server)
{
    return cs_callers_watch_gpus(server) || cs_node_held(server, true) > 0 ||
           (server->scraped_ns > 0 && cs_now_ns() - server->scraped_ns < scraped_for_ns);
}

void cs_node_tick(struct cs_server *server)
{
    struct cs_node *node = server->node_devices;
    int64_t now_ns = cs_now_ns();
    if (node->asked_ns && now_ns - node->asked_ns > late_ns)
        answer(server);
    if (!is_watched(server))
        return;
    if (now_ns - node->second_ns < every_ns)
        return;
    node->second_ns = now_ns;
    if (!node->watch) {
        publish(server);
        return;
    }
    node->is_second_due = true;
    ask(node);
}

/* --- how it is told --------------------------------------------------------------------------- */

static void set_known(json_t *o, const char *key, int64_t value)
{
    json_object_set_new(o, key, value == CS_GPU_UNKNOWN ? json_null() : json_integer(value));
}

static void set_share(json_t *o, const char *key, int64_t percent)
{
    json_object_set_new(o, key,
                        percent == CS_GPU_UNKNOWN ? json_null() : json_real((double)percent / 100));
}

static json_t *processes(const struct cs_gpu *gpu)
{
    if (gpu->n_processes < 0)
        return json_null();
    json_t *out = json_array();
    for (int32_t i = 0; i < gpu->n_processes; i++) {
        json_t *p = json_object();
        cs_msg_set_int(p, "pid", gpu->process[i].pid);
        set_known(p, "mem_bytes", gpu->process[i].mem_bytes);
        json_object_set_new(p, "command", cs_node_command(gpu->process[i].pid));
        json_array_append_new(out, p);
    }
    return out;
}

static json_t *history(const struct cs_node *node, int32_t gpu)
{
    json_t *out = json_array();
    int64_t n = node->n_history < HISTORY ? node->n_history : HISTORY;
    for (int64_t i = node->n_history - n; i < node->n_history; i++) {
        int8_t busy = node->history[gpu][i % HISTORY];
        json_array_append_new(out, busy < 0 ? json_null() : json_real((double)busy / 100));
    }
    return out;
}

static void set_holder(const struct cs_server *server, json_t *o, int32_t gpu)
{
    int64_t rank = -1;
    const struct cs_job *job = cs_node_holder(server, gpu, &rank);
    cs_node_set_holder(o, job, rank);
}

static json_t *gpu_json(const struct cs_server *server, int32_t i)
{
    const struct cs_node *node = server->node_devices;
    const struct cs_gpu *gpu = &node->gpu[i];
    char text[160];
    json_t *o = json_object();
    json_object_set_new(o, "name", json_sprintf("cuda:%d", (int)i));
    json_object_set_new(o, "model", cs_json_bytes(gpu->name, strlen(gpu->name)));
    cs_msg_set_int(o, "index", gpu->index);
    if (gpu->uuid[0])
        json_object_set_new(o, "uuid", cs_json_bytes(gpu->uuid, strlen(gpu->uuid)));
    if (gpu->error[0])
        cs_msg_set_str(o, "error", gpu->error);
    set_known(o, "mem_bytes", gpu->mem_bytes);
    set_known(o, "mem_used_bytes", gpu->mem_used_bytes);
    set_share(o, "busy", gpu->busy_pct);
    set_share(o, "mem_busy", gpu->mem_busy_pct);
    set_known(o, "power_mw", gpu->power_mw);
    set_known(o, "power_limit_mw", gpu->power_limit_mw);
    set_known(o, "temp_c", gpu->temp_c);
    set_known(o, "slowdown_c", gpu->slowdown_c);
    set_known(o, "sm_mhz", gpu->sm_mhz);
    set_known(o, "sm_max_mhz", gpu->sm_max_mhz);
    set_known(o, "mem_mhz", gpu->mem_mhz);
    cs_gpu_throttle_text(gpu->throttle, text, sizeof(text));
    json_object_set_new(o, "throttle",
                        gpu->throttle == CS_GPU_UNKNOWN ? json_null() : json_string(text));
    set_known(o, "energy_mj", gpu->energy_mj);
    set_known(o, "pcie_gen", gpu->pcie_gen);
    set_known(o, "pcie_max_gen", gpu->pcie_max_gen);
    set_known(o, "pcie_width", gpu->pcie_width);
    set_known(o, "pcie_max_width", gpu->pcie_max_width);
    json_object_set_new(o, "processes", processes(gpu));
    json_object_set_new(o, "history", history(node, i));
    set_holder(server, o, i);
    return o;
}

json_t *cs_node_devices(const struct cs_server *server, enum cs_devices which)
{
    const struct cs_node *node = server->node_devices;
    json_t *out = json_array();
    int32_t shown = which == CS_DEVICES_OFFERED ? node->n_gpus : node->n_shown;
    for (int32_t i = 0; i < shown; i++)
        json_array_append_new(out, gpu_json(server, i));
    if (which != CS_DEVICES_GPUS)
        cs_node_add_cpu(server, out);
    return out;
}

/* What the screen asks the daemon. */
#include <stdio.h>
#include <string.h>

#include "console/screen/ui_private.h"
#include "core/base/str.h"
#include "core/base/system/clock.h"
#include "core/wire/wire.h"

enum { METRIC_ROWS = 2000, EVENT_ROWS = 100, LOG_ROWS = 2000 };

static int64_t ask(struct ui *ui, const char *type, int64_t job)
{
    json_t *request = cs_msg_new(type);
    if (job > 0)
        cs_msg_set_int(request, "job", job);
    return cs_client_send(ui->client, request);
}

void cs_ui_ask_list(struct ui *ui)
{
    ui->listed_ns = cs_now_ns();
    ask(ui, "jobs.list", 0);
}

static void subscribe(struct ui *ui, int64_t job)
{
    json_t *request = cs_msg_new("sub.open");
    cs_msg_set_int(request, "job", job);
    cs_msg_set_bool(request, "gauges", job != 0);
    cs_msg_set_bool(request, "logs", job != 0);
    cs_msg_set_bool(request, "events", job == 0); /* of all jobs, once */
    int64_t id = cs_client_send(ui->client, request);
    if (job != 0)
        ui->sub_id = id;
}

/* What happened before: state changes and notes, and the newest lines of all logs. What comes live
 * meanwhile is told apart by the store. */
void cs_ui_ask_past(struct ui *ui)
{
    json_t *events = cs_msg_new("job.events"), *logs = cs_msg_new("job.logs");
    cs_msg_set_int(events, "job", ui->store->job);
    cs_msg_set_int(events, "limit", EVENT_ROWS);
    ui->events_id = cs_client_send(ui->client, events);
    cs_msg_set_int(logs, "job", ui->store->job);
    cs_msg_set_int(logs, "limit", LOG_ROWS);
    ui->logs_id = cs_client_send(ui->client, logs);
    ui->store->wants_past = false;
}

/* Rows after `after`; of a long job each stands for several steps. */
static int64_t ask_rows(struct ui *ui, int64_t job, int64_t after)
{
    json_t *metrics = cs_msg_new("job.metrics");
    const struct cs_store_job *known = cs_store_find(ui->store, job);
    cs_msg_set_int(metrics, "job", job);
    cs_msg_set_int(metrics, "after_step", after);
    cs_msg_set_int(metrics, "limit", 2 * METRIC_ROWS); /* evaluations are always there */
    cs_msg_set_bool(metrics, "fold", true);
    cs_msg_set_int(
        metrics, "every",
        known && known->step - after > METRIC_ROWS ? (known->step - after) / METRIC_ROWS + 1 : 1);
    return cs_client_send(ui->client, metrics);
}

void cs_ui_ask_beside(struct ui *ui)
{
    for (int i = 0; i < CS_STORE_BESIDE; i++) {
        const struct cs_store_beside *beside = &ui->store->beside[i];
        ui->beside_id[i][0] = ui->beside_id[i][1] = 0;
        if (beside->job == 0 || !ui->client || !cs_client_is_connected(ui->client))
            continue;
        ui->beside_id[i][0] = ask_rows(ui, beside->job, beside->metrics.last_step);
        if (beside->spec == NULL)
            ui->beside_id[i][1] = ask(ui, "job.show", beside->job);
    }
}

static void ask_job(struct ui *ui)
{
    int64_t job = ui->store->job;
    if (job == 0 || !cs_client_is_connected(ui->client))
        return;
    ui->show_id = ask(ui, "job.show", job);
    ui->metrics_id = ask_rows(ui, job, cs_series_last_step(ui->store->loss));
    subscribe(ui, job);
    cs_ui_ask_past(ui);
}

void cs_ui_subscribe_view(struct ui *ui)
{
    const char *flag = cs_view_ops(ui->screen.view)->subscribe;
    if (!ui->client || !cs_client_is_connected(ui->client) || ui->view_id > 0 ||
        (ui->view_sub > 0 && ui->view_flag == flag))
        return;
    if (ui->view_sub > 0) {
        json_t *close = cs_msg_new("sub.close");
        cs_msg_set_int(close, "sub", ui->view_sub);
        cs_client_send(ui->client, close);
        ui->view_sub = 0;
    }
    if (flag) {
        json_t *open = cs_msg_new("sub.open");
        cs_msg_set_bool(open, "gauges", false);
        cs_msg_set_bool(open, "events", false);
        cs_msg_set_bool(open, flag, true);
        ui->view_id = cs_client_send(ui->client, open);
        ui->view_flag = flag;
    }
}

void cs_ui_select_job(struct ui *ui, int64_t job)
{
    if (!ui->client)
        return; /* there is only one */
    if (ui->sub > 0) {
        json_t *close = cs_msg_new("sub.close");
        cs_msg_set_int(close, "sub", ui->sub);
        cs_client_send(ui->client, close);
    }
    ui->sub = 0;
    cs_store_select(ui->store, job);
    ask_job(ui);
}

void cs_ui_send_order(struct ui *ui)
{
    ui->order_id = ask(ui, ui->screen.order->message, ui->screen.order_job);
    snprintf(ui->screen.message, sizeof ui->screen.message,
             ui->order_id < 0 ? "no connection: %s %lld was not sent" : "%s %lld sent",
             ui->screen.order->message, (long long)ui->screen.order_job);
    ui->screen.message_style = ui->order_id < 0 ? CS_STYLE_BAD : CS_STYLE_DIM;
}

void cs_ui_ask_show(struct ui *ui)
{
    ui->show_id = ask(ui, "job.show", ui->store->job);
}

void cs_ui_start_session(struct ui *ui)
{
    const json_t *hello = cs_client_hello(ui->client);
    if (hello)
        cs_str_copy(ui->store->node, sizeof ui->store->node, cs_msg_str(hello, "node", ""));
    ui->sub = ui->view_sub = ui->view_id = 0;
    ask(ui, "node.show", 0);
    cs_ui_ask_list(ui);
    subscribe(ui, 0);
    ask_job(ui);
    cs_ui_ask_beside(ui);
    cs_ui_subscribe_view(ui);
}

/* What comes from the daemon. */
#include <stdio.h>
#include <string.h>

#include "console/screen/ui_private.h"
#include "core/base/str.h"
#include "core/wire/job_state.h"
#include "core/wire/wire.h"

/* whether a message answers for a job that is laid over */
static bool take_beside(struct ui *ui, const json_t *msg)
{
    for (int i = 0; i < CS_STORE_BESIDE && cs_msg_is_reply(msg); i++)
        for (int k = 0; k < 2; k++) {
            if (ui->beside_id[i][k] <= 0 || cs_msg_id(msg) != ui->beside_id[i][k])
                continue;
            cs_store_beside_message(ui->store, ui->store->beside[i].job, msg);
            return true;
        }
    return false;
}

static void tell_end(struct ui *ui)
{
    const struct cs_store_job *job = cs_store_find(ui->store, ui->options->job);
    if (!ui->options->is_watching || !job || strcmp(job->state, ui->end_state) == 0)
        return;
    bool is_paused = strcmp(job->state, "PAUSED") == 0;
    if (!cs_state_is_over(job->state) && !is_paused) {
        ui->end_state[0] = '\0';
        return;
    }
    cs_str_copy(ui->end_state, sizeof ui->end_state, job->state);
    snprintf(ui->screen.message, sizeof ui->screen.message, "job %lld is %s%s%.120s   q leaves",
             (long long)job->id, job->state, job->reason[0] ? ": " : "", job->reason);
    ui->screen.message_style =
        strcmp(job->state, "DONE") == 0 || is_paused ? CS_STYLE_GOOD : CS_STYLE_BAD;
}

static bool is_stale_answer(const struct ui *ui, const json_t *msg)
{
    const struct {
        const char *type;
        int64_t id;
    } rows[] = {
        {"job.metrics", ui->metrics_id},
        {"job.events",  ui->events_id },
        {"job.logs",    ui->logs_id   },
        {"job.show",    ui->show_id   },
    };

    for (size_t i = 0; i < CS_ARRAY_LEN(rows); i++)
        if (cs_msg_is_reply(msg) && strcmp(cs_msg_type(msg), rows[i].type) == 0)
            return cs_msg_id(msg) != rows[i].id;
    return false;
}

static void on_error(struct ui *ui, const json_t *msg)
{
    if (cs_msg_id(msg) >= 0 && cs_msg_id(msg) == ui->logs_id)
        return; /* a daemon that is older than this question */
    struct cs_err err = {.text = ""};
    (void)!cs_msg_to_err(msg, &err);
    cs_ui_say(ui, CS_STYLE_BAD, err.text);
}

void cs_ui_on_message(void *user, const json_t *msg)
{
    struct ui *ui = user;
    const char *type = cs_msg_type(msg);
    if (take_beside(ui, msg)) {
        cs_ui_answer(ui);
        return;
    }
    if (is_stale_answer(ui, msg))
        return;
    if (strcmp(type, "error") == 0)
        on_error(ui, msg);
    if (strcmp(type, "sub.open") == 0 && cs_msg_id(msg) == ui->sub_id)
        ui->sub = cs_msg_int(msg, "sub", 0);
    if (strcmp(type, "sub.open") == 0 && cs_msg_id(msg) == ui->view_id) {
        ui->view_sub = cs_msg_int(msg, "sub", 0);
        ui->view_id = 0;
        cs_ui_subscribe_view(ui);
    }
    cs_store_message(ui->store, msg);
    if (strcmp(type, "job.show") == 0)
        cs_store_adopt_trace(ui->store);
    if (ui->store->wants_show) {
        ui->store->wants_show = false;
        cs_ui_ask_show(ui);
    }
    if (ui->store->wants_past && ui->store->job != 0)
        cs_ui_ask_past(ui);
    tell_end(ui);
    if (cs_msg_is_reply(msg)) /* to a question */
        cs_ui_answer(ui);
    else
        cs_ui_changed(ui);
}

void cs_ui_on_state(void *user, bool is_connected)
{
    struct ui *ui = user;
    cs_store_connected(ui->store, is_connected);
    if (is_connected)
        cs_ui_start_session(ui);
    cs_ui_answer(ui);
}

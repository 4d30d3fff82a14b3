/* Rows of job.metrics into curves, and the jobs that are laid over the selected one. */
#include <string.h>

#include "console/store/store.h"
#include "core/wire/wire.h"

/* What arrived live meanwhile is newer. */
static bool is_known(const struct cs_metrics *metrics, const json_t *step)
{
    const struct cs_curve *eval = cs_metrics_find(metrics, "loss", true);
    const int64_t last = !cs_metric_is_eval(step) ? metrics->last_step
                         : eval                   ? cs_series_last_step(eval->series)
                                                  : -1;
    return cs_msg_int(step, "step", -1) <= last;
}

void cs_store_metrics_rows(struct cs_metrics *metrics, const json_t *msg)
{
    const json_t *columns = cs_msg_arr(msg, "columns"), *rows = cs_msg_arr(msg, "rows");
    for (size_t i = 0; i < json_array_size(rows); i++) {
        json_t *step = cs_metric_row(columns, json_array_get(rows, i));
        if (!is_known(metrics, step))
            cs_metrics_add(metrics, step);
        json_decref(step);
    }
}

static void forget(struct cs_store_beside *beside)
{
    cs_metrics_free(&beside->metrics);
    json_decref(beside->spec);
    beside->spec = NULL;
    beside->job = 0;
}

void cs_store_set_beside(struct cs_store *store, const int64_t *jobs, int n)
{
    struct cs_store_beside kept[CS_STORE_BESIDE];
    n = n < CS_STORE_BESIDE ? n : CS_STORE_BESIDE;
    for (int i = 0; i < CS_STORE_BESIDE; i++) {
        kept[i] = (struct cs_store_beside){.job = i < n ? jobs[i] : 0};
        cs_metrics_init(&kept[i].metrics);
        for (int k = 0; k < CS_STORE_BESIDE; k++)
            if (kept[i].job != 0 && store->beside[k].job == kept[i].job) {
                kept[i] = store->beside[k];
                store->beside[k].job = 0;
                store->beside[k].spec = NULL;
                cs_metrics_init(&store->beside[k].metrics);
            }
    }
    for (int i = 0; i < CS_STORE_BESIDE; i++)
        forget(&store->beside[i]);
    memcpy(store->beside, kept, sizeof kept);
    store->version++;
}

void cs_store_beside_message(struct cs_store *store, int64_t job, const json_t *msg)
{
    for (int i = 0; i < CS_STORE_BESIDE && job > 0; i++) {
        struct cs_store_beside *beside = &store->beside[i];
        if (beside->job != job)
            continue;
        if (strcmp(cs_msg_type(msg), "job.metrics") == 0) {
            cs_store_metrics_rows(&beside->metrics, msg);
        } else if (strcmp(cs_msg_type(msg), "job.show") == 0) {
            json_decref(beside->spec);
            beside->spec = json_incref(cs_msg_obj(msg, "spec"));
        }
        store->version++;
    }
}

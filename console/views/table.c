/* The table of views. */
#include <string.h>

#include "console/views/view.h"

static const struct cs_view_row views[CS_VIEW_COUNT] = {
    [CS_VIEW_JOBS] = {"jobs",     "Jobs",     "Jobs",  1, {CS_VIEW_PIPELINE, CS_VIEW_LOGS},  cs_view_jobs    },
    [CS_VIEW_MODEL] =
        {"model",    "Model",    "Model", 2, {CS_VIEW_PIPELINE, CS_VIEW_LOGS},  cs_view_model   },
    [CS_VIEW_PIPELINE] =
        {"pipeline", "Pipeline", "Pipe",  3, {CS_VIEW_MODEL, CS_VIEW_LOGS},     cs_view_pipeline},
    [CS_VIEW_GPUS] = {"gpus",     "GPUs",     "GPU",   6, {CS_VIEW_PIPELINE, CS_VIEW_LOGS},  cs_view_gpus    },
    [CS_VIEW_LOGS] = {"logs",     "Logs",     "Logs",  7, {CS_VIEW_PIPELINE, CS_VIEW_JOBS},  cs_view_logs    },
    [CS_VIEW_PLAN] = {"plan",     "Plan",     "Plan",  9, {CS_VIEW_MODEL, CS_VIEW_PIPELINE}, cs_view_plan    },
};

const struct cs_view_row *cs_view_row(enum cs_view view)
{
    return &views[view];
}

bool cs_view_find(const char *name, enum cs_view *view)
{
    for (int v = 0; v < CS_VIEW_COUNT; v++)
        if (strcmp(views[v].name, name) == 0) {
            *view = (enum cs_view)v;
            return true;
        }
    return false;
}

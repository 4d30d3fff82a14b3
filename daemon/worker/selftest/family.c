/* The test of a family, from the directory to its outcome. */
#include <stdio.h>

#include "worker/selftest/parts.h"

static void name_family(const struct cs_golden *g, struct cs_selftest *out)
{
    for (int k = 0; k < CS_MODULE_KINDS; k++)
        if (g->part[k] != NULL) {
            const json_t *type = json_object_get(cs_hfdir_root_config(g->part[k]), "model_type");
            snprintf(out->family, sizeof out->family, "%s", json_string_value(type));
        }
}

enum cs_status cs_selftest_family(const struct cs_selftest_request *request,
                                  struct cs_device *device, struct cs_selftest *out,
                                  struct cs_err *err)
{
    struct cs_golden golden;
    *out = (struct cs_selftest){.n_checks = 0};
    enum cs_status status = cs_golden_open(request->dir, request->adapter, device, &golden, err);
    if (status == CS_OK) {
        name_family(&golden, out);
        status = cs_golden_has(&golden, "in.probe") ? cs_golden_check_tower(&golden, out, err)
                                                    : cs_golden_check_text(&golden, out, err);
    }
    if (status == CS_OK && request->written != NULL)
        status = cs_golden_write(&golden, request->written, err);
    cs_golden_close(&golden);
    return status;
}

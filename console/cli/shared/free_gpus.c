/* Asks the daemon which GPUs its jobs hold. */
#include "console/cli/shared/free_gpus.h"

#include <stdlib.h>

#include "console/link/client.h"
#include "core/base/units.h"
#include "core/wire/wire.h"
#include "gpus/gpus.h"

static int32_t index_of(const json_t *device)
{
    return (int32_t)cs_msg_int(device, "index", -1);
}

/* The device with that number of the driver's; NULL: the daemon does not know it. */
static const json_t *device_at(const json_t *devices, int32_t index)
{
    for (size_t i = 0; i < json_array_size(devices); i++)
        if (index_of(json_array_get(devices, i)) == index)
            return json_array_get(devices, i);
    return NULL;
}

static void put(struct cs_buf *list, const char *separator, const char *text)
{
    cs_buf_addf(list, "%s%s", list->len > 0 ? separator : "", text);
}

static void add(struct cs_free_gpus *out, const json_t *device)
{
    const char *name = cs_msg_str(device, "name", "?"), *uuid = cs_msg_str(device, "uuid", "");
    const long long job = (long long)cs_msg_int(device, "job", 0);
    char index[16];
    if (job > 0) {
        out->n_held++;
        put(&out->held, ", ", name);
        cs_buf_addf(&out->held, " by job %lld", job);
        return;
    }
    snprintf(index, sizeof index, "%d", (int)index_of(device));
    out->n++;
    put(&out->free, ", ", name);
    put(&out->visible, ",", uuid[0] != '\0' ? uuid : index);
}

enum cs_status cs_free_gpus_choose(const json_t *devices, const char *visible,
                                   struct cs_free_gpus *out, struct cs_err *err)
{
    const char *uuid[CS_GPUS_MAX];
    int32_t chosen[CS_GPUS_MAX], all = 0;
    *out = (struct cs_free_gpus){0};
    for (int32_t i = 0; i < CS_GPUS_MAX; i++) {
        const json_t *device = device_at(devices, i);
        uuid[i] = device != NULL ? cs_msg_str(device, "uuid", "") : "";
        all = device != NULL ? i + 1 : all;
    }
    const int32_t n = cs_gpus_visible(visible, uuid, all, chosen);
    for (int32_t k = 0; k < n; k++)
        if (device_at(devices, chosen[k]) != NULL)
            add(out, device_at(devices, chosen[k]));
    if (out->n > 0 || out->n_held == 0)
        return CS_OK;
    return cs_fail(err, CS_REFUSED,
                   "no GPU is free: %s; 'cornstarch-console gpus' tells when one is, 'pause' makes "
                   "one free",
                   cs_buf_str(&out->held));
}

enum cs_status cs_free_gpus_ask(const struct cs_cmd *cmd, struct cs_free_gpus *out,
                                struct cs_err *err)
{
    static const int64_t ask_ns = 2000000000;

    struct cs_client *client = NULL;
    json_t *reply = NULL, *request = cs_msg_new("node.show");
    struct cs_err why = {0};
    cs_msg_set_bool(request, "gpus", true);
    *out = (struct cs_free_gpus){0};
    enum cs_status status = cs_client_connect_running(NULL, cmd->socket, &client, &why);
    if (status == CS_OK)
        status = cs_client_call_for(client, request, ask_ns, &reply, &why);
    else
        json_decref(request);
    status = status == CS_OK ? cs_free_gpus_choose(cs_msg_arr(reply, "devices"),
                                                   getenv("CUDA_VISIBLE_DEVICES"), out, err)
                             : CS_OK;
    json_decref(reply);
    cs_client_free(client);
    return status;
}

void cs_free_gpus_clear(struct cs_free_gpus *gpus)
{
    cs_buf_free(&gpus->visible);
    cs_buf_free(&gpus->free);
    cs_buf_free(&gpus->held);
    *gpus = (struct cs_free_gpus){0};
}

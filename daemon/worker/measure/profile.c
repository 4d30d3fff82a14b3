/* Answers a request for a profile: reads the job, measures, sends the document. */
#include "worker/measure/profile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/say.h"
#include "core/wire/wire.h"
#include "worker/measure/links.h"
#include "worker/measure/measure.h"

enum { EXIT_FAILED = 6 };

static enum cs_status open_gpu(int index, struct cs_device **out, struct cs_err *err)
{
    char name[32];
    struct cs_device *device = calloc(1, sizeof *device);
    CS_ASSERT(device != NULL);
    snprintf(name, sizeof name, "cuda:%d", index);
    const enum cs_status status = cs_device_open(name, NULL, device, err);
    if (status == CS_OK)
        *out = device;
    else
        free(device);
    return status;
}

static void close_gpu(struct cs_device *device)
{
    cs_device_close(device);
    free(device);
}

/* Of as many GPUs as are asked for and there, without NCCL of none: what is not measured is told, and plans take it from
 * the class of the device. */
static enum cs_status measure_links(const json_t *request, bool is_gpu, struct cs_arena *arena,
                                    struct cs_profile *profile, struct cs_err *err)
{
    const struct cs_link_devices gpus = {.n = (int)cs_msg_int(request, "devices", 1),
                                         .are_processes = true,
                                         .open = open_gpu,
                                         .close = close_gpu};
    struct cs_err why = {0};
    if (!is_gpu)
        return cs_measure_links(NULL, arena, profile, err);
    if (cs_measure_links(&gpus, arena, profile, &why) != CS_OK)
        cs_say(stderr, "cornstarch-worker: not all links between GPUs were measured: %s\n",
               why.text);
    return CS_OK;
}

/* Links first: their ranks are children, and a process that has opened a GPU has none that could. */
static enum cs_status measure(json_t *request, struct cs_arena *arena, struct cs_err *err)
{
    struct cs_device device;
    struct cs_profile links = {0}, *profile;
    const char *name = cs_msg_str(request, "class", ""),
               *where = cs_msg_str(request, "device", "cpu:0");
    const struct cs_device_class *class = cs_device_class_find(name);
    if (class == NULL)
        return cs_fail(err, CS_INVALID, "device class \"%s\" is not known", name);
    CS_TRY(cs_ops_cpu_selfcheck(err));
    CS_TRY(measure_links(request, strncmp(where, "cuda:", 5) == 0, arena, &links, err));
    CS_TRY(cs_device_open(where, cs_msg_str(request, "precision", NULL), &device, err));
    enum cs_status status = cs_device_tune_at_once(&device, err);
    if (status == CS_OK)
        status = cs_measure(cs_msg_obj(request, "document"), class, &device,
                            (int32_t)cs_msg_int(request, "tp_ranks", 1), arena, &profile, err);
    cs_device_close(&device);
    CS_TRY(status);
    profile->link = links.link;
    profile->n_links = links.n_links;
    json_t *json = cs_profile_json(profile);
    json_dumpf(json, stdout, JSON_COMPACT);
    json_decref(json);
    return fflush(stdout) == 0 ? CS_OK : cs_fail_errno(err, "writing the profile");
}

int cs_profile_program(void)
{
    json_error_t where;
    struct cs_err err = {0};
    json_t *request = json_loadf(stdin, 0, &where);
    struct cs_arena *arena = cs_arena_new(0);
    enum cs_status status = request != NULL
                                ? measure(request, arena, &err)
                                : cs_fail(&err, CS_INVALID, "standard input: %s", where.text);
    if (status != CS_OK)
        cs_say(stderr, "cornstarch-worker: %s\n", err.text);
    cs_arena_free(arena);
    json_decref(request);
    return status == CS_OK ? 0 : EXIT_FAILED;
}

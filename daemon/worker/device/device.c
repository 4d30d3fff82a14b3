/* Opens the host or a GPU, through the CUDA plugin, as one kind of device; its memory, its copies
 * and the first error of what was enqueued. */
#include "worker/device/device.h"
#include "core/base/system/environment.h"
#include "core/base/system/pages.h"
#include "core/base/units.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    ALIGN = 256,
    CANDIDATES = 8,   /* 64 find nothing better */
    LEAST_USES = 64,  /* of a product: 16 layers use it four times */
    MOST_AT_ONCE = 12 /* some 20 ms each */
};

void cs_device_cpu(struct cs_device *out)
{
    *out = (struct cs_device){.ops = cs_ops_cpu()};
}

/* The plugin lies in lib/ beside the bin/ of this program. */
static void plugin_path(char *out, size_t cap)
{
    char self[PATH_MAX];
    const ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    self[n > 0 ? n : 0] = '\0';
    for (int up = 0; up < 2; up++) {
        char *slash = strrchr(self, '/');
        if (slash != NULL)
            *slash = '\0';
    }
    snprintf(out, cap, "%s/lib/libcornstarch-cuda.so", self);
}

static enum cs_status open_plugin(struct cs_device *d, struct cs_err *err)
{
    char path[PATH_MAX + 64];
    plugin_path(path, sizeof path);
    d->plugin = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (d->plugin == NULL)
        return cs_fail(err, CS_UNSUPPORTED, "the CUDA plugin cannot be opened: %s; %s", dlerror(),
                       access(path, F_OK) == -1
                           ? "install the package cornstarch-cuda, or build where nvcc is found"
                           : "CUDA's libraries are looked for where ldconfig knows them and in "
                             "/usr/local/cuda/lib64");
    cs_cuda_ops_fn *entry;
    void *symbol = dlsym(d->plugin, "cs_cuda_ops");
    memcpy(&entry, &symbol, sizeof entry); /* ISO C has no cast from an object to a function */
    d->ops = symbol != NULL ? entry(CS_OPS_VERSION) : NULL;
    if (d->ops == NULL || d->ops->device == NULL || d->ops->device->version != CS_DEVICE_VERSION)
        return cs_fail(err, CS_UNSUPPORTED, "%s is of another version than this program", path);
    d->mem = d->ops->device;
    return CS_OK;
}

static enum cs_status open_cuda(struct cs_device *d, const char *precision, struct cs_err *err)
{
    int n;
    CS_TRY(cs_environment_check(err)); /* also what the plugin reads */
    /* loading a kernel late may wait for one that waits for a peer */
    setenv("CUDA_MODULE_LOADING", "EAGER", 0);
    /* streams that share a queue of the device wait for each other: messages would stop
     * computing */
    setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
    CS_TRY(open_plugin(d, err));
    if (precision != NULL && strcmp(precision, "fp32") == 0)
        d->ops = d->mem->ops_f32;
    else if (precision != NULL && strcmp(precision, "bf16") != 0)
        return cs_fail(err, CS_INVALID, "precision \"%s\": GPUs compute in bf16 or fp32",
                       precision);
    CS_TRY(d->mem->count(&n, err));
    if (d->index >= n)
        return cs_fail(err, CS_UNSUPPORTED, "cuda:%d: this machine has %d GPU%s", d->index, n,
                       CS_PLURAL(n));
    CS_TRY(d->mem->open(d->index, &d->handle, err));
    return d->mem->stream_create(d->handle, &d->stream, err);
}

enum cs_status cs_device_open(const char *name, const char *precision, struct cs_device *out,
                              struct cs_err *err)
{
    static const char cpu[] = "cpu:", cuda[] = "cuda:";
    const bool is_cpu = strncmp(name, cpu, sizeof cpu - 1) == 0;
    const char *number = strchr(name, ':');
    char *end = NULL;
    const long index = number != NULL ? strtol(number + 1, &end, 10) : -1;
    *out = (struct cs_device){0};
    if ((!is_cpu && strncmp(name, cuda, sizeof cuda - 1) != 0) || index < 0 || index > 1023 ||
        end == number + 1 || *end != '\0')
        return cs_fail(err, CS_INVALID, "device \"%s\": cpu:N or cuda:N is expected", name);
    if (is_cpu) {
        cs_device_cpu(out);
        return CS_OK;
    }
    out->index = (int)index;
    const enum cs_status status = open_cuda(out, precision, err);
    if (status == CS_OK)
        return CS_OK;
    cs_device_close(out);
    return cs_wrap(err, status, "opening %s", name);
}

void cs_device_close(struct cs_device *device)
{
    if (device->stream != NULL)
        device->mem->stream_destroy(device->handle, device->stream);
    if (device->handle != NULL)
        device->mem->close(device->handle);
    /* the plugin stays mapped: CUDA has threads of its own until the process ends */
    *device = (struct cs_device){0};
}

enum cs_status cs_device_keep(struct cs_device *device, const char *state, struct cs_err *err)
{
    const bool is_bf16 = state != NULL && strcmp(state, "bf16") == 0;
    if (is_bf16 && cs_device_is_f32(device))
        return cs_fail(err, CS_UNSUPPORTED,
                       "optimizer.state \"bf16\" is for GPUs that compute in bf16");
    device->grad = is_bf16 ? CS_GRAD_BF16 : CS_GRAD_F32;
    return CS_OK;
}

static bool measures_plans(const struct cs_device *device)
{
    return device->mem != NULL && cs_variable_is(CS_VAR_GEMM_PLANS, "measured");
}

enum cs_status cs_device_tune_at_once(struct cs_device *device, struct cs_err *err)
{
    return measures_plans(device) ? device->mem->tune(device->handle, CANDIDATES, NULL, err)
                                  : CS_OK;
}

void cs_device_tune(struct cs_device *device, const char *path)
{
    struct cs_err err = {0};
    if (!measures_plans(device))
        return;
    device->tune = CANDIDATES;
    if (path != NULL && device->mem->tune(device->handle, 0, path, &err) != CS_OK)
        fprintf(stderr, "%s: choices are not kept\n", err.text);
}

enum cs_status cs_device_measure(struct cs_device *device, struct cs_err *err)
{
    if (device->tune == 0)
        return CS_OK;
    return device->mem->tune_used(device->handle, device->stream, device->tune, LEAST_USES,
                                  MOST_AT_ONCE, NULL, err);
}

struct cs_ctx cs_device_ctx(const struct cs_device *device)
{
    return (struct cs_ctx){
        .stream = device->stream, .handle = device->handle, .grad = device->grad};
}

enum cs_status cs_device_alloc(struct cs_device *device, size_t bytes, void **out,
                               struct cs_err *err)
{
    bytes = (bytes + ALIGN) / ALIGN * ALIGN;
    *out = NULL;
    if (device == NULL || device->mem == NULL) {
        if (device != NULL)
            device->n_allocs++;
        *out = cs_alloc_array(bytes);
        return *out != NULL ? CS_OK : cs_fail(err, CS_NO_MEMORY, "no memory for %zu bytes", bytes);
    }
    device->n_allocs++;
    struct cs_err why = {0};
    const enum cs_status status = device->mem->alloc(device->handle, bytes, out, &why);
    if (status == CS_OK) {
        device->allocated += bytes;
        return CS_OK;
    }
    return cs_fail(err, status, "cuda:%d: %.1f MiB more than the %.1f MiB in use: %s",
                   device->index, (double)bytes / 1048576.0, (double)device->allocated / 1048576.0,
                   why.text);
}

void cs_device_free(struct cs_device *device, void *p, size_t bytes)
{
    if (p == NULL)
        return;
    if (device == NULL || device->mem == NULL) {
        free(p);
        return;
    }
    device->allocated -= (bytes + ALIGN) / ALIGN * ALIGN;
    device->mem->free(device->handle, p);
}

enum cs_status cs_device_alloc_host(struct cs_device *device, size_t bytes, void **out,
                                    struct cs_err *err)
{
    bytes = (bytes + ALIGN) / ALIGN * ALIGN;
    device->n_allocs++;
    if (device->mem != NULL)
        return device->mem->alloc_host(device->handle, bytes, out, err);
    *out = cs_alloc_array(bytes);
    return *out != NULL ? CS_OK : cs_fail(err, CS_NO_MEMORY, "no memory for %zu bytes", bytes);
}

void cs_device_free_host(struct cs_device *device, void *p)
{
    if (p != NULL && device->mem != NULL)
        device->mem->free_host(device->handle, p);
    else
        free(p);
}

static void keep_error(struct cs_device *device, const struct cs_err *err)
{
    if (device->error.status == CS_OK)
        device->error = *err;
}

void cs_device_copy(struct cs_device *device, void *to, const void *from, size_t bytes)
{
    struct cs_err err = {0};
    if (bytes == 0)
        return;
    if (device->mem == NULL)
        memcpy(to, from, bytes);
    else if (device->mem->copy(device->handle, device->stream, to, from, bytes, &err) != CS_OK)
        keep_error(device, &err);
}

void cs_device_zero(struct cs_device *device, void *p, size_t bytes)
{
    struct cs_err err = {0};
    if (bytes == 0)
        return;
    if (device->mem == NULL)
        memset(p, 0, bytes);
    else if (device->mem->fill(device->handle, device->stream, p, 0, bytes, &err) != CS_OK)
        keep_error(device, &err);
}

enum cs_status cs_device_sync(struct cs_device *device, struct cs_err *err)
{
    struct cs_err own = {0};
    if (device->mem == NULL)
        return CS_OK;
    if (device->mem->stream_sync(device->handle, device->stream, &own) != CS_OK ||
        device->mem->status(device->handle, &own) != CS_OK)
        keep_error(device, &own);
    if (device->error.status == CS_OK)
        return CS_OK;
    const enum cs_status status = device->error.status;
    if (err != NULL)
        *err = device->error;
    device->error = (struct cs_err){0};
    return status;
}

enum cs_status cs_device_read(struct cs_device *device, void *host, const void *from, size_t bytes,
                              struct cs_err *err)
{
    cs_device_copy(device, host, from, bytes);
    return cs_device_sync(device, err);
}

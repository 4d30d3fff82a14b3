/* Every operator of the CUDA plugin against its CPU twin, in bf16 and in fp32: test_ops [PLUGIN
 * [ELEMENTS]]; ELEMENTS: cases with more of them are left out (for slow checkers).
 * Prints one line per operator and "N passed, N failed". Exit: 0 all passed, 1 not, 77 no GPU. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/groups.h"

#define HOST_BYTES ((size_t)1 << 28)
#define DEV_BYTES  ((size_t)1 << 29)

static void set_up(struct lab *lab)
{
    struct cs_err err;
    void *workspace = NULL;
    lab->cpu = cs_ops_cpu();
    lab->host_ctx.workspace = malloc(HOST_BYTES);
    lab->host_ctx.workspace_bytes = HOST_BYTES;
    if (lab->host_ctx.workspace == NULL || lab->device->open(0, &lab->handle, &err) != CS_OK ||
        lab->device->stream_create(lab->handle, &lab->stream, &err) != CS_OK ||
        lab->device->alloc(lab->handle, DEV_BYTES, &workspace, &err) != CS_OK) {
        fprintf(stderr, "cannot set up: %s\n", err.text);
        exit(1);
    }
    lab->dev_ctx = (struct cs_ctx){.stream = lab->stream,
                                   .workspace = workspace,
                                   .workspace_bytes = DEV_BYTES,
                                   .handle = lab->handle};
}

static void run_all(struct lab *lab, const struct cs_ops *gpu)
{
    lab->gpu = gpu;
    group_errors(lab);
    group_matmul(lab);
    group_linear(lab);
    group_rows(lab);
    group_attention(lab);
    group_train(lab);
}

int main(int argc, char **argv)
{
    const char *path = argc > 1 ? argv[1] : "lib/libcornstarch-cuda.so";
    void *plugin = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (plugin == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return 77;
    }
    cs_cuda_ops_fn *get = NULL;
    *(void **)&get = dlsym(plugin, "cs_cuda_ops");
    if (get == NULL || get(CS_OPS_VERSION + 1) != NULL || get(CS_OPS_VERSION) == NULL) {
        fprintf(stderr, "%s does not offer operators of version %d only\n", path, CS_OPS_VERSION);
        return 1;
    }
    struct lab lab = {
        .device = get(CS_OPS_VERSION)->device, .seed = 1, .most = argc > 2 ? atoll(argv[2]) : 0};
    struct cs_err err;
    struct cs_device_properties props;
    int devices = 0;
    if (lab.device->count(&devices, &err) != CS_OK || devices == 0) {
        fprintf(stderr, "no GPU: %s\n", devices == 0 ? err.text : "");
        return 77;
    }
    if (lab.device->properties(0, &props, &err) != CS_OK) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    printf("GPU: %s, %zu MiB, %d processors\n", props.name, props.memory_bytes >> 20,
           props.processors);
    set_up(&lab);
    run_all(&lab, get(CS_OPS_VERSION));
    run_all(&lab, lab.device->ops_f32);
    lab.device->free(lab.handle, lab.dev_ctx.workspace);
    lab.device->stream_destroy(lab.handle, lab.stream);
    lab.device->close(lab.handle);
    free(lab.host_ctx.workspace);
    printf("%d passed, %d failed\n", lab.passed, lab.failed);
    return lab.failed == 0 ? 0 : 1;
}

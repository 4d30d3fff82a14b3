/* Every operator of the CUDA plugin against its CPU twin, in bf16 and in fp32: test_ops [PLUGIN
 * [ELEMENTS [GROUP...]]]; ELEMENTS: cases with more of them are left out (for slow checkers, 0:
 * none is); GROUP: only errors, matmul, linear, rows, mixes, attention, recurrent, experts,
 * loss, train, states or fresh. Prints one line per operator and "N passed, N failed". Exit: 0 all
 * passed, 1 not, 77 no GPU. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/buf.h"
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

static void run_all(struct lab *lab, const struct cs_ops *gpu, char *const *only)
{
    static const struct {
        const char *name;
        void (*run)(struct lab *lab);
    } group[] = {
        {"errors",    group_errors   },
        {"matmul",    group_matmul   },
        {"linear",    group_linear   },
        {"rows",      group_rows     },
        {"heads",     group_heads    },
        {"mixes",     group_mixes    },
        {"attention", group_attention},
        {"delta",     group_delta    },
        {"recurrent", group_recurrent},
        {"experts",   group_experts  },
        {"loss",      group_loss     },
        {"train",     group_train    },
        {"states",    group_states   },
        {"fresh",     group_fresh    },
    };

    lab->gpu = gpu;
    for (size_t i = 0; i < CS_ARRAY_LEN(group); i++) {
        bool is_wanted = only[0] == NULL;
        for (int k = 0; only[k] != NULL; k++)
            is_wanted |= strcmp(only[k], group[i].name) == 0;
        if (is_wanted)
            group[i].run(lab);
    }
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
    char *const *only = argv + (argc > 3 ? 3 : argc);
    set_up(&lab);
    run_all(&lab, get(CS_OPS_VERSION), only);
    run_all(&lab, lab.device->ops_f32, only);
    lab.device->free(lab.handle, lab.dev_ctx.workspace);
    lab.device->stream_destroy(lab.handle, lab.stream);
    lab.device->close(lab.handle);
    free(lab.host_ctx.workspace);
    printf("%d passed, %d failed\n", lab.passed, lab.failed);
    return lab.failed == 0 ? 0 : 1;
}

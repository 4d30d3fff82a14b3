/* Makes of the node's GPUs what cs.cluster "here" means. */
#include "gpus/here.h"

#include <stdio.h>

void cs_gpus_here(const struct cs_gpus *gpus, int32_t n, struct cs_here *here, char *note,
                  size_t cap)
{
    *here = (struct cs_here){.devices = n};
    note[0] = '\0';
    for (int32_t i = 0; i < n; i++) {
        const struct cs_gpu *gpu = cs_gpus_at(gpus, i);
        char text[256];
        const struct cs_device_class *class =
            cs_device_class_of_gpu(gpu->name, gpu->mem_bytes, text, sizeof text);
        if (here->device && class != here->device)
            snprintf(text, sizeof text, "the GPUs of this node are not alike");
        if (text[0] && !note[0])
            snprintf(note, cap, "%s", text);
        if (!here->device || class->mem_bytes < here->device->mem_bytes)
            here->device = class;
    }
}

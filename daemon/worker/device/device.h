/* Where a rank computes: the host, or one GPU through the CUDA plugin. Memory, copies and waiting
 * are the same few calls for both; on the host "device memory" is ordinary memory, copies happen at
 * once and nothing is ever awaited.
 *
 * Copies and fills run in order of the device's stream. Trouble is kept (first error wins) and
 * returned by cs_device_sync, so that layers stay free of error paths. One thread at a time; only
 * memory is taken and given back by any, as both threads of the interpreter do. */
#ifndef CS_WORKER_DEVICE_DEVICE_H
#define CS_WORKER_DEVICE_DEVICE_H

#include <stdatomic.h>

#include "kernels/device.h"
#include "kernels/ops.h"

struct cs_device {
    const struct cs_ops *ops;
    const struct cs_device_ops *mem; /* NULL: arrays are host memory */
    void *handle, *stream;           /* of the plugin; stream: compute */
    void *plugin;                    /* dlopen */
    int index;
    enum cs_grad_type grad;   /* what is kept for training: fp32 with masters, or all in bf16 */
    int32_t tune;             /* candidates for plans of matrix products, 0: the library's first */
    _Atomic size_t allocated; /* bytes of device memory in use */
    _Atomic int64_t n_allocs; /* so far, page-locked host memory too: a running job makes none */
    struct cs_err error;
};

/* The host. */
void cs_device_cpu(struct cs_device *out);
/* name: "cpu:N" or "cuda:N"; precision: "bf16" or "fp32" (NULL: bf16; the host computes in fp32).
 * CS_UNSUPPORTED: no plugin, no driver, no such GPU. The device becomes current in this thread. */
enum cs_status cs_device_open(const char *name, const char *precision, struct cs_device *out,
                              struct cs_err *err) CS_NODISCARD;
void cs_device_close(struct cs_device *device); /* zero-initialised is fine */

/* acts are fp32, so that weights and their fp32 masters are one array */
static inline bool cs_device_is_f32(const struct cs_device *device)
{
    return device->ops->act_bytes == sizeof(float);
}

/* Before parameters are made: "fp32" (also NULL; so it begins) or "bf16", gradients and moments in
 * bf16 and no masters. CS_UNSUPPORTED: acts are fp32. */
enum cs_status cs_device_keep(struct cs_device *device, const char *state,
                              struct cs_err *err) CS_NODISCARD;

/* With CORNSTARCH_GEMM_PLANS=measured in the environment a GPU measures which plan is best for each
 * matrix product that a job uses again and again, by cs_device_measure between steps. Not so by
 * default: plans differ in how they round, and a job that is run again should have the same bits.
 * path: where choices are kept, so that a job that goes on rounds as before; NULL, or not to be
 * written: nowhere. */
void cs_device_tune(struct cs_device *device, const char *path);
/* The first use of a product measures, under the same condition: for programs that measure what
 * such jobs take. */
enum cs_status cs_device_tune_at_once(struct cs_device *device, struct cs_err *err) CS_NODISCARD;
/* Measures a few that are due; waits for the device. */
enum cs_status cs_device_measure(struct cs_device *device, struct cs_err *err) CS_NODISCARD;

/* gradients and moments are bf16, weights have no masters */
static inline bool cs_device_keeps_bf16(const struct cs_device *device)
{
    return device->grad == CS_GRAD_BF16;
}

struct cs_ctx cs_device_ctx(const struct cs_device *device);

/* 256-byte aligned, not cleared; device NULL: the host. CS_NO_MEMORY says how much was asked for
 * and is in use. */
enum cs_status cs_device_alloc(struct cs_device *device, size_t bytes, void **out,
                               struct cs_err *err) CS_NODISCARD;
void cs_device_free(struct cs_device *device, void *p, size_t bytes); /* accepts NULL */
/* host memory that copies of this device run from and to without waiting (page-locked) */
enum cs_status cs_device_alloc_host(struct cs_device *device, size_t bytes, void **out,
                                    struct cs_err *err) CS_NODISCARD;
void cs_device_free_host(struct cs_device *device, void *p); /* accepts NULL */

void cs_device_copy(struct cs_device *device, void *to, const void *from, size_t bytes);
void cs_device_zero(struct cs_device *device, void *p, size_t bytes);
/* wait for everything; the first error since the last one was returned */
enum cs_status cs_device_sync(struct cs_device *device, struct cs_err *err) CS_NODISCARD;
/* copy to host memory and wait */
enum cs_status cs_device_read(struct cs_device *device, void *host, const void *from, size_t bytes,
                              struct cs_err *err) CS_NODISCARD;

#endif

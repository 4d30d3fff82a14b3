/* Which GPUs of this machine jobs leave free, for commands that use some themselves. */
#ifndef CS_CONSOLE_CLI_SHARED_FREE_GPUS_H
#define CS_CONSOLE_CLI_SHARED_FREE_GPUS_H

#include <jansson.h>

#include "console/cli/command/command.h"
#include "core/base/buf.h"

struct cs_free_gpus {
    int32_t n, n_held;
    struct cs_buf visible; /* the free ones, as CUDA_VISIBLE_DEVICES takes them */
    struct cs_buf free;    /* "cuda:1, cuda:3" */
    struct cs_buf held;    /* "cuda:0 by job 12, cuda:2 by job 14" */
};

/* Of GPUs as node.show tells them; visible: those that the user chose (CUDA_VISIBLE_DEVICES), NULL: all.
 * CS_REFUSED: jobs hold all of them. cs_free_gpus_clear either way. */
enum cs_status cs_free_gpus_choose(const json_t *devices, const char *visible,
                                   struct cs_free_gpus *out, struct cs_err *err) CS_NODISCARD;
/* The same of the daemon that runs; none does, or it does not answer soon: n_held is 0, and so is n. */
enum cs_status cs_free_gpus_ask(const struct cs_cmd *cmd, struct cs_free_gpus *out,
                                struct cs_err *err) CS_NODISCARD;
void cs_free_gpus_clear(struct cs_free_gpus *gpus);

#endif
